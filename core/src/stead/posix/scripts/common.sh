# Shared by all scripts. What they work on comes in variables named STEAD_*, never as part of the text.
# STEAD_ID marks the answer, STEAD_SCRATCH is our folder for temporary files, STEAD_DROP names what to remove from it.
unset CDPATH

# encode: standard input in plain letters; the first tells how.
encode() {
  if command -v base64 >/dev/null 2>&1; then printf b; base64; else printf x; od -An -v -tx1; fi
}

# reply WORD: sends the word and standard input between two marks that nothing else printed here can be taken for.
reply() { printf '\n@%s %s ' "$STEAD_ID" "$1"; encode; printf ' @%s\n' "$STEAD_ID"; }

# answer WORD: ends the script with a reply that has no more to say.
answer() { printf '%s' "$2" | reply "$1"; exit 0; }

# no_room TEXT: ends the script that could not write a file of ours: for lack of room, unless a command has removed our
# folder meanwhile. Then there is no answer, and the question is asked again.
no_room() { [ ! -d "$STEAD_SCRATCH" ] || answer full "$1"; exit 0; }

# reply_file WORD FILE: as reply, from a file of ours, which is fetched by its path if it is long, else removed.
reply_file() {
  size=$(wc -c < "$2" 2> /dev/null) || exit 0
  if [ "$size" -gt 98304 ]; then printf '%s\n' "$((size)) $2" | reply "$1-at"; else reply "$1" < "$2"; rm -f -- "$2"; fi
}

scratch() { [ -d "$STEAD_SCRATCH" ] || (umask 077; mkdir -p -- "$STEAD_SCRATCH"); }

nap() { sleep "$1" 2>/dev/null || sleep 1; }

if [ -n "$STEAD_DROP" ]; then (cd -- "$STEAD_SCRATCH" 2>/dev/null && rm -rf -- $STEAD_DROP); fi
