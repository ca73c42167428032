arrive "$STEAD_PATH" 1
kind
[ "$kind" != denied ] || answer denied "$place"
{ printf '%s\0%s\0' "$kind" "$place"; facts "./$name"; } | reply ok
