#!/bin/sh
# Runs the command lines of one file and compares all that they print: run.sh PROGRAM ROOT CASE.txt
#
#     # a remark
#     ! cp a b                 prepares something and prints nothing; a shell runs it
#     $ list native            what stands behind the program's name; a shell reads it
#     native  placement  ...   everything printed
#     = 0                      exit code
#
# Each file runs in a folder of its own, in which traces/ is the project's.  UPDATE=1 rewrites the
# file instead; the difference is for a person to judge.
set -u

program=$1 root=$2 case=$3
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
ln -s "$root/traces" "$scratch/traces"
memreuse() { "$program" "$@"; }

# Prints the file again, with what the commands print today.
replay()
{
    output=no
    while IFS= read -r line; do
        case $output,$line in
            *,'# '*) printf '%s\n' "$line" ;;
            *,'! '*)
                printf '%s\n' "$line"
                (cd "$scratch" && eval "${line#??}") 2>&1 </dev/null
                ;;
            *,'$ '* | *,'$')
                output=yes
                printf '%s\n' "$line"
                (cd "$scratch" && eval "memreuse ${line#?}") 2>&1 </dev/null
                echo "= $?"
                ;;
            yes,'= '*) output=no ;;
            no,*) printf '%s\n' "$line" ;;
        esac
    done
}

replay <"$case" >"$scratch/now" || exit 2
if [ "${UPDATE:-}" = 1 ]; then
    cp "$scratch/now" "$case"
    exit 0
fi
diff -u "$case" "$scratch/now"
