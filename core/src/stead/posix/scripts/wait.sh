# Waits for a command that was started.
[ -d "$stead_job" ] || answer lost ""
wait_for never
report
