# Waits for output of a running command beyond the bytes that were fetched, and sends some of it.
news() {
  stead_out=$(wc -c < "$stead_job/out") stead_err=$(wc -c < "$stead_job/err")
  [ "$((stead_out))" -gt "$STEAD_OUT" ] || [ "$((stead_err))" -gt "$STEAD_ERR" ]
} 2> /dev/null
STEAD_STEP=50
wait_for news
# some STREAM FROM SIZE: how much of the new bytes fits.
some() {
  stead_new=$(($1 - $2))
  [ "$stead_new" -ge 0 ] || stead_new=0
  [ "$stead_new" -le "$STEAD_PIECE" ] || stead_new=$STEAD_PIECE
  echo "$stead_new"
}
# tell: writes the state, the sizes and the new bytes. Fails on a full disk, and where the command removes our files just now.
tell() {
  scratch
  state=running
  [ ! -e "$stead_job/result" ] || state=ended
  news
  out=$(some "${stead_out:-0}" "$STEAD_OUT") err=$(some "${stead_err:-0}" "$STEAD_ERR")
  {
    printf '%s\0' "$state" "$out" "$err"
    file=$stead_job/out && { [ "$out" -eq 0 ] || piece "$STEAD_OUT" "$out"; }
    file=$stead_job/err && { [ "$err" -eq 0 ] || piece "$STEAD_ERR" "$err"; }
  } > "$STEAD_SCRATCH/reply-$STEAD_ID"
}
tell || { nap 0.05; tell; } || { nap 0.05; tell; } || no_room "$STEAD_SCRATCH"
reply_file ok "$STEAD_SCRATCH/reply-$STEAD_ID"
