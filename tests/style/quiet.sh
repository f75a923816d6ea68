#!/bin/sh
# Only bench/ prints or exits: quiet.sh ROOT.  One exception: the arena ends the program when the
# host has no memory left (sim/base.c).
cd "$1" || exit 2
failures=$(mktemp) || exit 2
trap 'rm -f "$failures"' EXIT

# A call that begins a word: snprintf is not printf.
calls='(^|[^A-Za-z0-9_>.])(v?f?printf|puts|fputs|putc|fputc|putchar|perror|exit|_exit|_Exit'
calls=$calls'|quick_exit|abort|kill|system|popen|longjmp|getenv|syslog) *\('
streams='(^|[^A-Za-z0-9_])(stdout|stderr|stdin)([^A-Za-z0-9_]|$)'

find sim strategies traces/formats -name '*.[ch]' | sort | while read -r file; do
    # Comments may speak of anything.
    awk '{
             line = $0
             out = ""
             while (line != "") {
                 if (inside) {
                     end = index(line, "*/")
                     if (!end) break
                     inside = 0
                     line = substr(line, end + 2)
                 } else {
                     begin = index(line, "/*")
                     if (!begin) { out = out line; break }
                     out = out substr(line, 1, begin - 1)
                     inside = 1
                     line = substr(line, begin + 2)
                 }
             }
             gsub(/"([^"\\]|\\.)*"/, "\"\"", out)
             print FNR ": " out
         }' "$file" | grep -E "$calls|$streams|assert *\( *(0|false) *\)" | sed "s|^|$file:|"
done | grep -vE '^sim/base\.c:[0-9]+: +_exit\(EXIT_FAILURE\)' | tee "$failures"
[ ! -s "$failures" ]
