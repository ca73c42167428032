# Runs one command in the job folder $1, detached from whoever asked for it: its streams go through pipes into files, its
# processes are ended at the deadline or when nobody asks for it any more, and how it ended is told in `result`. Variables
# are named stead_*, since a name that the command's own environment has would change there. The command may remove our folder
# (`rm -rf /tmp/*`): what a stream needs is open before it begins, and the folder is made again.
stead_job=$1
echo "$$" > "$stead_job/supervisor"
case $STEAD_CWD in */..*) cd -P -- "$STEAD_CWD" ;; *) cd -- "$STEAD_CWD" ;; esac || exit 1
mkfifo "$stead_job/out-pipe" "$stead_job/err-pipe" "$stead_job/out-file" "$stead_job/err-file" || exit 1
for stead_file in out err out-count err-count; do : > "$stead_job/$stead_file"; done
# Given back at the end, so that a full disk leaves room to tell how the command ended.
printf %65536s "" > "$stead_job/reserve" 2> /dev/null

# count STREAM: reads a stream to its end, whatever becomes of the file, so that the command never meets a closed pipe.
count() {
  (
    trap '' PIPE HUP INT TERM
    tee /proc/self/fd/4 < "$stead_job/$1-pipe" | wc -c
  ) 4> "$stead_job/$1-file" > "$stead_job/$1-count" 2> /dev/null &
}

# store STREAM: writes a stream to its file until that is full.
store() {
  (
    ulimit -f "$STEAD_SPILL_BLOCKS"
    exec cat
  ) >> "$stead_job/$1" 2> "$stead_job/$1-error" < "$stead_job/$1-file" &
}

store out
stead_out=$!
store err
stead_err=$!
count out
count err
exec 5< "$stead_job/out" 6< "$stead_job/err" 7< "$stead_job/out-count" 8< "$stead_job/err-count"

# revive: makes the folder again if it was removed, so that who asks for the command finds it.
revive() {
  [ -e "$stead_job/supervisor" ] || (umask 077; mkdir -p -- "$stead_job"; echo "$$" > "$stead_job/supervisor")
}

# leader: the first process of a command that could not be marked.
leader() { read -r stead_leader < "$stead_job/leader" && echo "$stead_leader"; }

# watch: ends the command at its deadline, when nobody has asked for it for too long, or when its supervisor was killed.
watch() {
  stead_left=$STEAD_TIMEOUT stead_idle=0 stead_seen= stead_end=
  while :; do
    stead_step=1000
    if [ -n "$stead_left" ] && [ "$stead_left" -lt 1000 ] && [ "$stead_left" -gt 0 ]; then stead_step=$stead_left; fi
    nap "$((stead_step / 1000)).$(printf %03d "$((stead_step % 1000))")"
    kill -0 "$$" 2> /dev/null || { end_tree "$STEAD_MARK" "$(leader)"; exit 0; }
    revive
    read -r stead_poll < "$stead_job/lease"
    stead_idle=$((stead_idle + stead_step))
    [ "$stead_poll" = "$stead_seen" ] || stead_idle=0
    stead_seen=$stead_poll
    [ -z "$stead_left" ] || stead_left=$((stead_left - stead_step))
    if [ -z "$stead_end" ] && [ -n "$stead_left" ] && [ "$stead_left" -le 0 ]; then stead_end=timed-out; fi
    if [ -z "$stead_end" ] && [ "$stead_idle" -ge "$STEAD_LEASE" ]; then stead_end=abandoned; fi
    [ -z "$stead_end" ] || { echo > "$stead_job/$stead_end"; end_tree "$STEAD_MARK" "$(leader)"; }
  done
}

# now: hundredths of a second, in $stead_now.
now() { read -r stead_up stead_rest < /proc/uptime && stead_now=${stead_up%.*}${stead_up#*.}; }

now
stead_began=$stead_now
if [ -e "$stead_job/stopped" ]; then
  stead_code=137
  : > "$stead_job/out-pipe"
  : > "$stead_job/err-pipe"
else
  watch > /dev/null 2>&1 &
  stead_watcher=$!
  (
    if [ -n "$STEAD_WORDS_FILE" ]; then . "$STEAD_WORDS_FILE"; else eval "set -- $STEAD_WORDS"; fi
    if ! ulimit -S -x "$STEAD_MARK" 2> /dev/null && ! ulimit -S -w "$STEAD_MARK" 2> /dev/null; then
      set -- sh -c 'echo $$ > "$0"; exec "$@"' "$stead_job/leader" "$@"
    fi
    unset OLDPWD $STEAD_NAMES STEAD_NAMES
    # In a session of its own: a command that signals its group must not reach what watches over it.
    if command -v setsid > /dev/null 2>&1; then exec setsid "$@"; else exec "$@"; fi
  ) > "$stead_job/out-pipe" 2> "$stead_job/err-pipe" < "${STEAD_STDIN:-/dev/null}" 5<&- 6<&- 7<&- 8<&-
  stead_code=$?
  kill "$stead_watcher" 2> /dev/null
  # Its first process ended early in that: the rest of the tree is ended here.
  for stead_flag in timed-out abandoned stopped; do
    [ ! -e "$stead_job/$stead_flag" ] || { end_tree "$STEAD_MARK" "$(leader)"; break; }
  done
fi
now
stead_ended=$stead_now

size() { wc -c < "$1" 2> /dev/null || echo 0; }

# Both streams are at their ends (the count is written there), or have been quiet for 50 ms because a process in the
# background holds them: half a second at most.
stead_turn=0 stead_quiet=0 stead_before=
until { [ -s /proc/self/fd/7 ] && [ -s /proc/self/fd/8 ]; } || [ "$stead_quiet" -ge 5 ] || [ "$stead_turn" -ge 40 ]; do
  nap 0.01
  stead_turn=$((stead_turn + 1)) stead_quiet=$((stead_quiet + 1))
  stead_sizes="$(size /proc/self/fd/5) $(size /proc/self/fd/6)"
  [ "$stead_sizes" = "$stead_before" ] || stead_quiet=0
  stead_before=$stead_sizes
done
# The file of a stream that is at its end is soon complete. What is printed to another from now on belongs to nobody: it is
# read, and dropped.
[ -s /proc/self/fd/7 ] || kill "$stead_out" 2> /dev/null
[ -s /proc/self/fd/8 ] || kill "$stead_err" 2> /dev/null
wait "$stead_out" "$stead_err"
revive
[ -e "$stead_job/out" ] || cat <&5 > "$stead_job/out"
[ -e "$stead_job/err" ] || cat <&6 > "$stead_job/err"

# keep STREAM COUNT: puts a stream that is too long for the answer where it can be read, with its record; tells its sizes.
keep() {
  stead_kept=$(size "$stead_job/$1")
  stead_total=$stead_kept
  [ ! -s "$2" ] || read -r stead_total < "$2"
  stead_reason= stead_path=
  if [ "$stead_kept" -lt "$stead_total" ]; then
    stead_reason=$(cat "$stead_job/$1-error")
    stead_reason=${stead_reason##*: }
    [ -n "$stead_reason" ] || stead_reason="the limit for a spill file was reached"
  fi
  if [ "$stead_total" -gt "$STEAD_LIMIT" ] && [ "$stead_kept" -gt 0 ]; then
    stead_path=$STEAD_STATE/spill/$STEAD_JOB.$1
    if mkdir -p -- "$STEAD_STATE/spill" && spill "$1"; then :; else
      stead_path= stead_reason=${stead_reason:-no file could be made in $STEAD_STATE}
    fi
  fi
  echo "$((stead_total))" > "$stead_job/$1-total"
  printf '%s\0' "$((stead_total))" "$((stead_kept))" "$stead_reason" "$stead_path"
}

spill() {
  [ -e "$STEAD_STATE/.gitignore" ] || echo '*' > "$STEAD_STATE/.gitignore"
  ln -- "$stead_job/$1" "$stead_path" || cp -- "$stead_job/$1" "$stead_path" || return 1
  stead_all=true
  [ "$stead_kept" -eq "$stead_total" ] || stead_all=false
  printf '{"kind": "spill", "id": "%s", "stream": "std%s", "path": %s.%s", "size": %s, "complete": %s, "created": "%s"}\n' \
    "$STEAD_JOB" "$1" "$STEAD_SPILL_JSON" "$1" "$((stead_kept))" "$stead_all" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    > "$stead_path.json"
}

rm -f -- "$stead_job/reserve"
stead_how=
for stead_flag in stopped abandoned timed-out; do [ ! -e "$stead_job/$stead_flag" ] || stead_how=$stead_flag; done
{
  printf '%s\0' "$stead_code" "$stead_how" "$((stead_ended - stead_began))"
  keep out /proc/self/fd/7 2> /dev/null
  keep err /proc/self/fd/8 2> /dev/null
} > "$stead_job/result-new"
mv "$stead_job/result-new" "$stead_job/result"
