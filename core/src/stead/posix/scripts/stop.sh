# Ends a command and everything it started, and tells how it ended. One that never began never will: its folder is made
# here, so that a start which comes late finds it. One that removed its folder is known by its mark.
scratch
if mkdir -- "$stead_job" 2> /dev/null && [ -z "$(tree "$STEAD_MARK")" ]; then answer never ""; fi
echo > "$stead_job/stopped"
stead_turn=0
until [ -e "$stead_job/result" ] || [ "$stead_turn" -ge 20 ]; do
  end_tree "$STEAD_MARK" "$(cat "$stead_job/leader" 2> /dev/null)"
  nap 0.05
  stead_turn=$((stead_turn + 1))
  read -r stead_pid < "$stead_job/supervisor" && ! kill -0 "$stead_pid" && [ ! -e "$stead_job/result" ] && answer lost ""
done 2> /dev/null
report
