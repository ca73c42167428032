# Starts a command once, however often it is asked to, and waits for it.
(
  arrive "$STEAD_CWD" 1
  kind
  [ "$kind" = dir ] || answer "$kind" "$place"
  cd -- "./$name" 2> /dev/null || answer denied "$place"
  exit 7
)
[ "$?" -eq 7 ] || exit 0
scratch
# started: says whether an earlier try of this call has started it, also where the command has removed its folder since.
started() {
  [ -d "$stead_job" ] || { [ -n "$STEAD_AGAIN" ] && grep -qs "[j]ob-$STEAD_JOB" /proc/[0-9]*/cmdline; }
}
started || for sent in "$STEAD_STDIN" "$STEAD_WORDS_FILE"; do
  [ -z "$sent" ] || [ -r "$sent" ] || answer unsent "$sent"
done
if started; then :
elif mkdir -- "$stead_job" 2> /dev/null; then
  if command -v setsid > /dev/null 2>&1; then
    # The second setsid leads its group already, so it forks and returns at once: what runs is nobody's background job,
    # for which the shell would ignore interrupts.
    setsid sh -c 'exec setsid "$@"' sh sh -c "$STEAD_SUPERVISE" supervise "$stead_job" < /dev/null > /dev/null 2>&1
  else
    (trap '' HUP; sh -c "$STEAD_SUPERVISE" supervise "$stead_job" < /dev/null > /dev/null 2>&1 &)
  fi
elif [ ! -d "$stead_job" ]; then answer full "$STEAD_SCRATCH"
fi
wait_for never
report
