# Puts the uploaded file STEAD_UPLOAD of STEAD_SIZE bytes at STEAD_PATH in one step. Asked again after its answer was
# lost, it answers again what it did.
scratch
record=$STEAD_SCRATCH/done-$STEAD_UPLOAD new=$STEAD_SCRATCH/up-$STEAD_UPLOAD
if [ -e "$record" ]; then reply ok < "$record"; exit 0; fi
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
{ printf '%s\0' file "$place"; facts "./$name"; } > "$record"
reply ok < "$record"
