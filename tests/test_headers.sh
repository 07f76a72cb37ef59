#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each public header compiles alone, twice in one file, as C11 and as C++17, and each function has a comment.
# usage: test_headers.sh INCLUDE_DIR MADE_INCLUDE_DIR
set -uo pipefail
include=$1 made=$2 checked=0 failed=0
warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only "-I$include" "-I$made")

check() { # COMPILER LANGUAGE STANDARD HEADER
    command -v "$1" >/dev/null || return 0
    checked=$((checked + 1))
    printf '#include <kmgen/%s>\n#include <kmgen/%s>\nextern int a_unit_is_not_empty;\n' "$4" "$4" |
        "$1" -x "$2" "-std=$3" "${warnings[@]}" - && return
    echo "$4 does not compile alone as $3 with $1"
    failed=1
}

for path in "$include"/kmgen/*.h "$made"/kmgen/*.h; do
    header=${path##*/}
    for compiler in gcc clang; do check "$compiler" c c11 "$header"; done
    for compiler in g++ clang++; do check "$compiler" c++ c++17 "$header"; done
done

# Shapes, units, errors, ownership: a comment that stands right above each function (docs/Doxyfile.in asks for those of
# all else, where there is Doxygen).
without=$(awk '/^KM_API/ && before !~ /^\/\/\/ ./ { print FILENAME ":" FNR ": " $0 } { before = $0 }' \
    "$include"/kmgen/*.h)
[ -z "$without" ] || { echo "no comment of its own: $without"; failed=1; }
[ "$(grep -c '^KM_API' "$include"/kmgen/fit.h)" -gt 0 ] || { echo "no function was found"; failed=1; }
echo "$checked compilations"
[ "$checked" -gt 0 ] || exit 77
exit $failed
