#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every golden .c compiles alone without a warning: with gcc and clang as C11, with g++ as C++17.
# usage: compile_c.sh GOLDEN_FOLDER
set -uo pipefail
cd "$1" || exit 1
[ "$(uname -m)" = x86_64 ] || { echo "golden .c files are for x86-64"; exit 77; }
flags=(-Wall -Wextra -Werror -O2 -c -o /dev/null)
jobs=()
for file in *.c; do
    for compiler in gcc clang; do jobs+=("$compiler -std=c11 $file"); done
    jobs+=("g++ -std=c++17 -x c++ $file")
done
[ -e "${file:-}" ] || { echo "no golden .c files in $1"; exit 1; }

compile() { # "COMPILER OPTION... FILE"
    read -ra words <<<"$1"
    command -v "${words[0]}" >/dev/null || { echo "skip ${words[0]}"; return 0; }
    "${words[@]}" "${@:2}" && echo "ok" && return
    echo "FAILED: $1"
    return 1
}
export -f compile
out=$(printf '%s\0' "${jobs[@]}" | xargs -0 -P 2 -I '{}' bash -c 'compile "$@"' _ '{}' "${flags[@]}" 2>&1)
status=$?
grep -vx 'ok\|skip .*' <<<"$out"
echo "$(grep -cx ok <<<"$out") compilations, $(grep -c '^FAILED' <<<"$out") failed," \
    "$(grep -c '^skip ' <<<"$out") without their compiler"
[ "$status" = 0 ] || exit 1
grep -qx ok <<<"$out" || exit 77
