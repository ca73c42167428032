# STEAD_ASKED names a record that says whether an earlier try of this same call has removed it.
scratch
arrive "$STEAD_PATH" 0
if [ -n "$link" ]; then kind=link; else kind; fi
case $kind in
  file | other | link) ;;
  missing) [ ! -e "$STEAD_SCRATCH/done-$STEAD_ASKED" ] || answer ok "$place"; answer missing "$place" ;;
  *) answer "$kind" "$place" ;;
esac
[ "$kind" = link ] || [ -z "$STEAD_SLASH" ] || answer notdir "$place"
: > "$STEAD_SCRATCH/done-$STEAD_ASKED"
rm -f -- "./$name" 2>/dev/null || { rm -f "$STEAD_SCRATCH/done-$STEAD_ASKED"; answer denied "$place"; }
answer ok "$place"
