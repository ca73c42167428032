# A piece of a file, between what the file was before and after: STEAD_OFFSET and STEAD_LENGTH say which, an empty length all
# of it. Up to STEAD_INLINE bytes come with the answer, up to STEAD_STAGED in a file of ours, more is left to be fetched
# from the file itself. STEAD_AFTER asks for bytes just before the offset, to compare.
arrive "$STEAD_PATH" 1
kind
[ "$kind" = file ] || answer "$kind" "$place"
[ -r "./$name" ] || answer denied "$place"
pin
before=$(facts "$file") || answer missing "$place"
size=${before%%|*}
left=$((size - STEAD_OFFSET))
[ "$left" -ge 0 ] || left=0
if [ -z "$STEAD_LENGTH" ] || [ "$STEAD_LENGTH" -gt "$left" ]; then wanted=$left; else wanted=$STEAD_LENGTH; fi
where=inline staged=
if [ "$size" -eq 0 ]; then
  # Files in /proc have content but no size.
  where=whole
  scratch
elif [ "$wanted" -gt "$STEAD_INLINE" ]; then
  if [ "$wanted" -le "$STEAD_STAGED" ] || [ "$STEAD_OFFSET" -gt 0 ] || [ "$wanted" -lt "$left" ]; then
    [ "$wanted" -le "$STEAD_STAGED" ] || wanted=$STEAD_STAGED
    where=staged staged=$STEAD_SCRATCH/part-$STEAD_ID
    scratch
    (umask 077; piece "$STEAD_OFFSET" "$wanted" > "$staged") || { rm -f "$staged"; no_room "$place"; }
  else where=direct
  fi
fi
if [ "$where" = whole ]; then
  head -c 67108865 <&3 > "$STEAD_SCRATCH/data-$STEAD_ID"
  {
    printf '%s\0' "$where" "$place" "$before" 0 ""
    facts "$file"
    cat "$STEAD_SCRATCH/data-$STEAD_ID"
  } > "$STEAD_SCRATCH/reply-$STEAD_ID" || no_room "$place"
  rm -f "$STEAD_SCRATCH/data-$STEAD_ID"
  reply_file ok "$STEAD_SCRATCH/reply-$STEAD_ID"
  exit 0
fi
{
  printf '%s\0' "$where" "$place" "$before" "$wanted" "$staged"
  # The bytes before the offset tell a file that only grew from one that was rewritten as well.
  [ "${STEAD_AFTER:-0}" -eq 0 ] || piece "$((STEAD_OFFSET - STEAD_AFTER))" "$STEAD_AFTER"
  [ "$where" != inline ] || [ "$wanted" -eq 0 ] || piece "$STEAD_OFFSET" "$wanted"
  facts "$file"
} | reply ok
