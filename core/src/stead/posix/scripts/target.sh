# target: goes to where a write will put its file, or answers what is wrong with that.
target() {
  if [ -n "$STEAD_ABSENT" ]; then
    arrive "$STEAD_PATH" 0
    [ -z "$link" ] || answer exists "$place"
  else arrive "$STEAD_PATH" 1
  fi
  kind
  case $kind in
    dir) if [ -n "$STEAD_ABSENT" ]; then answer exists "$place"; else answer dir "$place"; fi ;;
    other | denied) answer "$kind" "$place" ;;
    file)
      [ -z "$STEAD_ABSENT" ] || answer exists "$place"
      [ -w "./$name" ] || answer denied "$place"
      ;;
  esac
  [ -w . ] && [ -x . ] || answer denied "$place"
}
