#!/bin/sh
# Sees to it that what memreuse is built with is there: looks for each thing itself, and installs
# the Debian packages of those that are missing when it may (root, or sudo), or else names them.
#
#   bench/setup.sh          for building and plotting
#   bench/setup.sh tests    also what only tests/run.sh uses
set -u

missing=
extra= # tests/run.sh goes on without these

command_of() { command -v "$1" >/dev/null 2>&1; }
header_of() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
# gnuplot draws a PNG without a single letter when the machine has no font at all.
font_of()
{
    find /usr/share/fonts /usr/local/share/fonts -name '*.[to]tf' 2>/dev/null | grep -q .
}
fuzzer_of()
{
    clang --version >/dev/null 2>&1 || return 1
    test -n "$(find "$(clang -print-resource-dir)" -name 'libclang_rt.fuzzer*' 2>/dev/null)"
}

need() # PACKAGE PROBE WHAT: the package is missing when the probe does not find it
{
    "$2" "$3" || missing="$missing $1"
}

need gcc command_of cc
need libc6-dev header_of stdio.h
need make command_of make
need cmake command_of cmake
need zlib1g-dev header_of zlib.h
need libzstd-dev header_of zstd.h
need libcsv-dev header_of csv.h
need libjansson-dev header_of jansson.h
need gnuplot-nox command_of gnuplot
need fonts-liberation font_of any
if [ "${1:-}" = tests ]; then
    need binutils command_of nm
    fuzzer_of || extra="clang libclang-rt-dev"
fi

[ -z "$missing$extra" ] && exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if command_of sudo && sudo -n true 2>/dev/null; then as_root=sudo; else as_root=none; fi
fi
if [ "$as_root" = none ] || ! command_of apt-get; then
    [ -z "$extra" ] || echo "setup: the fuzz targets need: $extra" >&2
    [ -z "$missing" ] && exit 0
    echo "setup: please install these packages (named as in Debian):$missing" >&2
    exit 1
fi

install_packages()
{
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends "$@" >/dev/null
}

echo "setup: installs$missing $extra" >&2
$as_root apt-get update -qq >/dev/null || echo "setup: apt-get update failed" >&2
# Unquoted: each word is a package.
if [ -n "$missing" ] && ! install_packages $missing; then
    echo "setup: these packages could not be installed:$missing" >&2
    exit 1
fi
if [ -n "$extra" ] && ! install_packages $extra; then
    echo "setup: goes on without $extra: the fuzz targets will not run" >&2
fi
exit 0
