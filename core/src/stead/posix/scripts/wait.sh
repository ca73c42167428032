# Waits for a command that was started.
wait_for never
report
