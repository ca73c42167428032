# Says what this machine is like: where commands start, the root without links, where temporary files go, which shell.
dir=${STEAD_DIR:-${STEAD_ROOT:-$PWD}}
root=${STEAD_ROOT:-/}
for made in "$root" "$dir"; do
  [ -d "$made" ] || mkdir -p -- "$made" 2>/dev/null || { [ -e "$made" ] && answer notdir "$made"; answer denied "$made"; }
done
root=$(cd -P -- "$root" 2>/dev/null && printf %sx "$PWD") || answer denied "$root"
cd -- "$dir" 2>/dev/null || answer denied "$dir"
device() { stat -L -c %d -- "$1" 2>/dev/null; }
# Temporary files lie where a rename brings them to the working directory, not in another file system's memory.
temporary=${TMPDIR:-/tmp}
own=
if [ ! -w "$temporary" ] || [ "$(device "$temporary")" != "$(device .)" ]; then temporary=$dir/$STEAD_STATE own=1; fi
STEAD_SCRATCH=$temporary/stead-$(id -u)
scratch || answer denied "$STEAD_SCRATCH"
[ -z "$own" ] || [ -e "$temporary/.gitignore" ] || echo '*' > "$temporary/.gitignore"
# Without links, so that listings can leave it out.
STEAD_SCRATCH=$(cd -P -- "$STEAD_SCRATCH" && printf %s "$PWD")
lacks=
for tool in awk cat dd find grep head id kill ln mkfifo mv od readlink rm sort stat tail tee tr wc; do
  command -v "$tool" >/dev/null 2>&1 || lacks="$lacks $tool"
done
[ -z "$lacks" ] || answer lacks "$lacks"
shell=$(command -v bash || command -v sh)
printf '%s\0' "$dir" "${root%x}" "$STEAD_SCRATCH" "$shell" | reply ok
