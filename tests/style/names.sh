#!/bin/sh
# names.sh ROOT: base names are unique in the tree, so that placement.c:90 is enough to say
# where; nothing is left to do in silence; nothing speaks of the machine it was written on.
cd "$1" || exit 2
failures=$(mktemp) || exit 2
trap 'rm -f "$failures"' EXIT

files()
{
    if [ -e .git ] && command -v git >/dev/null; then
        git ls-files
    else
        find . -type f ! -path './build*' ! -path './.git/*' | sed 's|^\./||'
    fi
}
# Data of tests is named after what it shows, once per version or kind; recordings have a list in
# each of their folders.
files | grep -vE '^tests/(oracle/golden|broken|cli)/' >"$failures.files"
trap 'rm -f "$failures" "$failures.files"' EXIT

sed 's|.*/||' "$failures.files" | grep -vE '^(CMakeLists\.txt|README\.md|run\.sh|MANIFEST\.csv|truth\.csv)$' | sort \
    | uniq -d | while read -r name; do
    echo "$name: is the name of more than one file:" $(grep "\(^\|/\)$name\$" "$failures.files")
done | tee -a "$failures"

# search WHAT PATTERN: in texts only.  The patterns are written so that none finds itself.
search()
{
    tr '\n' '\0' <"$failures.files" | xargs -0 grep -nIE "$2" /dev/null | sed "s|\$|   <- $1|" \
        | tee -a "$failures"
}
search "do it or file it" '(^|[^A-Za-z])(TO[D]O|FIX[M]E|X[X]X|HA[C]K)([^A-Za-z]|$)'
search "dead code" '^ *# *if +[0]( |$)'
search "a path of somebody's machine" \
       '(^|[^A-Za-z0-9_.$}>-])/(h[o]me|r[o]ot|w[o]rk|Us[e]rs|tm[p])/[A-Za-z0-9]'
search "a private address" '(^|[^0-9.])(10\.[0-9]+|192\.168|172\.16)\.[0-9]+\.[0-9]+([^0-9.]|$)'
[ ! -s "$failures" ]
