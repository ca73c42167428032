# piece OFFSET LENGTH: that part of $file, without reading what is before it.
piece() {
  if [ "$1" -eq 0 ]; then head -c "$2" "$file"; return; fi
  dd if="$file" bs=65536 skip="$(($1 / 65536))" count="$(($2 / 65536 + 2))" 2>/dev/null |
    tail -c +"$(($1 % 65536 + 1))" | head -c "$2"
}
