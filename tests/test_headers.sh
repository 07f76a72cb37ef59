#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each public header compiles alone, twice in one file, as C11 and as C++17.
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
echo "$checked compilations"
[ "$checked" -gt 0 ] || exit 77
exit $failed
