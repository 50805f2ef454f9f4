export LC_ALL=C
file=$1 first=$2 most=$3
shift 3
command -v readlink >/dev/null && command -v stat >/dev/null || exit 127
[ -e "$file" ] || exit 44
[ -f "$file" ] || exit 45
[ -r "$file" ] || exit 46
exec 3<"$file"
for mount; do
  place=$(readlink -nf -- "$mount"; printf .)
  printf '%s\0' "${place%.}"
done
place=$(readlink -n /proc/self/fd/3; printf .)
printf '%s\0%s\0' "${place%.}" "$(stat -L -c '%f %s %Y' /proc/self/fd/3)"
if [ "$first" = 1 ]; then
  exec head -c "$most" <&3
fi
tail -c "+$first" <&3 | head -c "$most"
