# Finds line STEAD_START of a file and sends what a page of STEAD_CHARS characters from there needs, up to line STEAD_END
# where that is given. What is known already of version STEAD_KNOWN is used: STEAD_TOTAL newlines in all, STEAD_LINES of
# them before byte STEAD_BYTE, or the very byte STEAD_AT where the page begins. STEAD_COLUMN is its first column.
arrive "$STEAD_PATH" 1
kind
[ "$kind" = file ] || answer "$kind" "$place"
[ -r "./$name" ] || answer denied "$place"
scratch
pin
before=$(facts "$file") || answer missing "$place"
size=${before%%|*}
[ "$size" -gt 0 ] || answer empty "$place"
if [ "${before%|*|*|*|*}" != "$STEAD_KNOWN" ]; then STEAD_TOTAL= STEAD_BYTE=0 STEAD_LINES=0 STEAD_AT=; fi
skip=$((STEAD_START - 1)) total=$STEAD_TOTAL blocks=
block=67108864

# count: the newlines of the file, block by block; the last block that begins before the page is where to look for it.
count() {
  total=0 at=0
  while [ "$at" -lt "$size" ]; do
    if [ "$total" -lt "$skip" ] && [ "$total" -gt "$STEAD_LINES" ]; then STEAD_BYTE=$at STEAD_LINES=$total; fi
    blocks="$blocks $at $total"
    found=$(dd if="$file" bs=1048576 skip="$((at / 1048576))" count=64 2>/dev/null | head -c "$((size - at))" | wc -l) || answer distrust count
    total=$((total + found))
    at=$((at + block))
  done
}

[ -z "$STEAD_COUNT" ] || [ -n "$total" ] || count
if [ -n "$STEAD_AT" ]; then offset=$STEAD_AT
elif [ "$skip" -eq 0 ]; then offset=0
elif [ -n "$total" ] && [ "$skip" -gt "$total" ]; then offset=$size
else
  passed=$(piece "$STEAD_BYTE" "$((size - STEAD_BYTE))" | head -n "$((skip - STEAD_LINES))" | wc -c)
  offset=$((STEAD_BYTE + passed))
fi
begin=$offset
if [ "$STEAD_COLUMN" -gt 1 ] && [ -z "$STEAD_AT" ]; then
  # A column is a byte where all before it is ASCII; else only a decoder can tell.
  before_column=$((STEAD_COLUMN - 1))
  odd=$(piece "$offset" "$before_column" | LC_ALL=C tr -d '\001-\011\013-\177' | tr '\000' '\377' | wc -c)
  [ "$odd" -eq 0 ] && [ "$((offset + before_column))" -lt "$size" ] || answer distrust "$offset"
  begin=$((offset + before_column))
fi
[ "$begin" -lt "$size" ] || [ -n "$total" ] || count
left=$((size - begin)) length=$((STEAD_CHARS + 3))
[ "$left" -gt 0 ] || left=0
if [ "$(piece "$begin" "$length" | LC_ALL=C tr -d '\000-\177' | head -c 1 | wc -c)" -gt 0 ]; then
  length=$((4 * length + 4))
fi
if [ -n "$STEAD_END" ]; then
  lines=$(piece "$begin" "$length" | head -n "$((STEAD_END - STEAD_START + 1))" | wc -c)
  # One byte more tells whether anything follows.
  [ "$((lines + 1))" -ge "$length" ] || length=$((lines + 1))
fi
[ "$length" -le "$left" ] || length=$left
last=$(piece "$((size - 1))" 1 | wc -l)
{
  piece "$begin" "$length" > "$STEAD_SCRATCH/data-$STEAD_ID"
  printf '%s\0' "$before" "$(facts "$file")" "$((total))${total:+.}" "$((last))" "$begin" "$length" "$blocks"
  cat "$STEAD_SCRATCH/data-$STEAD_ID"
} > "$STEAD_SCRATCH/reply-$STEAD_ID" || answer distrust full
rm -f "$STEAD_SCRATCH/data-$STEAD_ID"
reply_file ok "$STEAD_SCRATCH/reply-$STEAD_ID"
