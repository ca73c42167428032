# What the scripts about a running command share. $stead_job is its folder, STEAD_WAIT the milliseconds to wait for it.
stead_job=$STEAD_SCRATCH/job-$STEAD_JOB

# alive: says whether what watches over the command still lives. Its first moments count as life, and those in which it makes
# its folder again that the command removed.
alive() {
  [ -n "$stead_pid" ] || read -r stead_pid < "$stead_job/supervisor"
  if [ -n "$stead_pid" ]; then kill -0 "$stead_pid"; else [ "$stead_waited" -lt 5000 ]; fi
} 2> /dev/null

# wait_for TEST: waits until the test holds, the command has ended, or the time is over.
wait_for() {
  stead_waited=0 stead_step=10 stead_pid=
  echo "$STEAD_ID" > "$stead_job/lease"
  until [ -e "$stead_job/result" ] || "$1"; do
    if ! alive && [ ! -e "$stead_job/result" ]; then answer lost ""; fi
    [ "$stead_waited" -lt "$STEAD_WAIT" ] || return 1
    nap "0.$(printf %03d "$stead_step")"
    stead_waited=$((stead_waited + stead_step))
    [ "$stead_step" -ge "${STEAD_STEP:-100}" ] || stead_step=$((stead_step + 5))
  done
}

never() { return 1; }

# shown STREAM: the part of a stream that the answer has room for: all of it, or head and tail.
shown() {
  read -r stead_total < "$stead_job/$1-total"
  if [ "$stead_total" -le "$STEAD_LIMIT" ]; then cat "$stead_job/$1"; return; fi
  [ "$STEAD_LIMIT" -gt 0 ] || return 0
  head -c "$((STEAD_LIMIT - STEAD_LIMIT / 2))" "$stead_job/$1"
  [ "$STEAD_LIMIT" -lt 2 ] || tail -c "$((STEAD_LIMIT / 2))" "$stead_job/$1"
}

everything() { cat "$stead_job/result" && shown out && shown err; }

# report: answers how the command ended, with what it printed.
report() {
  [ -e "$stead_job/result" ] || answer running ""
  read -r stead_out < "$stead_job/out-total"
  read -r stead_err < "$stead_job/err-total"
  if [ "$stead_out" -le "$STEAD_LIMIT" ] && [ "$stead_err" -le "$STEAD_LIMIT" ] && [ "$((stead_out + stead_err))" -lt 90000 ]; then
    cat "$stead_job/result" "$stead_job/out" "$stead_job/err" | reply ended
  # On a full disk there is no file to fetch: it all comes with the answer then.
  elif everything > "$STEAD_SCRATCH/reply-$STEAD_ID"; then reply_file ended "$STEAD_SCRATCH/reply-$STEAD_ID"
  else rm -f -- "$STEAD_SCRATCH/reply-$STEAD_ID"; everything | reply ended
  fi 2> /dev/null
}
