# The entries of a directory. Each record begins with STEAD_SEPARATOR, so that a newline in a name cannot be taken for an end.
arrive "$STEAD_PATH" 1
kind
[ "$kind" = dir ] || answer "$kind" "$place"
cd -- "./$name" 2>/dev/null && [ -r . ] || answer denied "$place"
scratch
depth='-maxdepth 1'
[ -z "$STEAD_RECURSIVE" ] || depth=
export TZ=UTC0 LC_ALL=C
{
  printf '%s' "$place"
  find . -mindepth 1 $depth ! -type l -exec stat -c "${STEAD_SEPARATOR}%s|%d:%i|%y|%Y|%f|%a|%u:%g %n" {} + 2>/dev/null
  # A link is shown as what it leads to, unless that is nothing or outside.
  find . -mindepth 1 $depth -type l -exec sh -c '
    for link do
      to=$(readlink -f -- "$link"; printf x)
      to=${to%?x} facts=0
      case $STEAD_ROOT in /) in=1 ;; *) case $to in "$STEAD_ROOT"|"$STEAD_ROOT"/*) in=1 ;; *) in= ;; esac ;; esac
      [ -z "$in" ] || facts=$(stat -L -c "%s|%d:%i|%y|%Y|%f|%a|%u:%g" -- "$link" 2>/dev/null) || facts=0
      printf "%s%s %s\n" "$STEAD_SEPARATOR" "$facts" "$link"
    done' sh {} + 2>/dev/null
  printf '%send' "$STEAD_SEPARATOR"
} > "$STEAD_SCRATCH/reply-$STEAD_ID" || no_room "$place"
reply_file ok "$STEAD_SCRATCH/reply-$STEAD_ID"
