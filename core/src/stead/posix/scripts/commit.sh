# Puts the uploaded file STEAD_UPLOAD of STEAD_SIZE bytes at STEAD_PATH in one step. Asked again after its answer was
# lost, it answers again what it did, and waits for an earlier try that is still at it.
scratch
record=$STEAD_SCRATCH/done-$STEAD_UPLOAD new=$STEAD_SCRATCH/up-$STEAD_UPLOAD doing=$STEAD_SCRATCH/doing-$STEAD_UPLOAD

# again: ends the script with the answer that is on record.
again() { { read -r word && reply "$word"; } < "$record"; exit 0; }

# keep: puts standard input on record. It is found whole or not at all.
keep() { cat > "$record-$STEAD_ID" && mv -f -- "$record-$STEAD_ID" "$record"; } 2>/dev/null

# answer WORD TEXT: as elsewhere, and on record. A full disk has no room for that.
answer() {
  printf '%s\n%s' "$1" "$2" | keep && again
  printf '%s' "$2" | reply "$1"
  exit 0
}

if [ ! -e "$record" ] && ! (set -C; echo "$$" > "$doing") 2>/dev/null; then
  read -r earlier < "$doing" || { nap 0.2; read -r earlier < "$doing"; }
  while [ ! -e "$record" ] && kill -0 "$earlier" 2>/dev/null; do nap 0.05; done
fi
[ ! -e "$record" ] || again
if [ "$STEAD_SIZE" -eq 0 ] && [ ! -e "$new" ]; then (umask 077; : > "$new"); fi
target
size=$(wc -c < "$new" 2>/dev/null) || answer short 0
[ "$size" -eq "$STEAD_SIZE" ] || answer short "$size"
if [ -n "$gone" ]; then
  mkdir -p -- "$gone" 2>/dev/null || { target; answer denied "$place"; }
  cd -P -- "$gone" || answer denied "$place"
  gone=
fi
temporary=./.stead-tmp-$STEAD_UPLOAD
# A move from another file system is a copy: it must not be what a reader sees.
mv -f -- "$new" "$temporary" 2>/dev/null || { rm -f -- "$temporary"; answer full "$place"; }
if [ "$kind" = file ]; then
  now=$(facts "./$name")
  rest=${now%|*}
  mode=${rest##*|}
  [ -O "./$name" ] && [ -G "./$name" ] || chown "${now##*|}" -- "$temporary" 2>/dev/null
else
  now=missing
  mode=$(printf %o "$((0666 & ~0$(umask)))")
fi
chmod "$mode" -- "$temporary" 2>/dev/null
if [ -n "$STEAD_VERSION" ] && [ "${now%|*|*|*|*}" != "$STEAD_VERSION" ]; then rm -f -- "$temporary"; answer changed "$now"; fi
if [ -n "$STEAD_ABSENT" ]; then
  ln -- "$temporary" "./$name" 2>/dev/null || { rm -f -- "$temporary"; [ -e "./$name" ] && answer exists "$place"; answer denied "$place"; }
  rm -f -- "$temporary"
else mv -f -- "$temporary" "./$name" 2>/dev/null || { rm -f -- "$temporary"; answer denied "$place"; }
fi
placed() { printf '%s\0' file "$place"; facts "./$name"; }
{ echo ok; placed; } | keep && again
placed | reply ok
