export LC_ALL=C
folder=$1 limit=$2
shift 2
command -v readlink >/dev/null && command -v stat >/dev/null || exit 127
[ -e "$folder" ] || exit 44
[ -d "$folder" ] || exit 45
[ -r "$folder" ] && [ -x "$folder" ] && cd -P -- "$folder" || exit 46
for mount; do
  place=$(readlink -nf -- "$mount"; printf .)
  printf '%s\0' "${place%.}"
done
place=$(readlink -n /proc/self/cwd; printf .)
printf '%s\0' "${place%.}"
if find . -maxdepth 0 -printf '' 2>/dev/null; then
  exec find . -mindepth 1 -maxdepth 1 -printf '%y%Y %s %T@ %f\0' 2>/dev/null
fi
count=0
for name in * .[!.]* ..?*; do
  [ -e "$name" ] || [ -L "$name" ] || continue
  count=$((count + 1))
  [ "$count" -le "$limit" ] || break
  kind=o
  if [ -d "$name" ]; then kind=d; elif [ -f "$name" ]; then kind=f; fi
  own=$kind
  [ -L "$name" ] && own=l
  printf '%s%s %s %s\0' "$own" "$kind" "$(stat -c '%s %Y' -- "$name" 2>/dev/null)" "$name"
done
