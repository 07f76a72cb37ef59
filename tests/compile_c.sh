#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every emitted .c compiles alone without a warning: the golden files (avx2) with gcc and clang as C11 and with g++
# as C++17, and the other instruction sets with one compiler each.
# usage: compile_c.sh GOLDEN_PROGRAM SPECS_FOLDER GOLDEN_FOLDER
set -uo pipefail
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
flags=(-Wall -Wextra -Werror -O2 -c -o /dev/null)

emit() { # TARGET: into a folder of that name
    mkdir "$work/$1" && "$golden" write "$specs" "$work/$1" "cpu:$1" || exit 1
}
golden=$1 specs=$2
cp -r "$3" "$work/avx2" || exit 1
for isa in generic avx512 neon; do emit $isa; done

# clang compiles for any architecture, but this machine has no libc of another one: what emitted text takes of it.
mkdir "$work/libc" || exit 1
cat >"$work/libc/math.h" <<'END'
#define HUGE_VAL __builtin_huge_val()
#define INFINITY __builtin_inff()
double fma(double, double, double), sqrt(double);
float fmaf(float, float, float), sqrtf(float);
END
cat >"$work/libc/string.h" <<'END'
#include <stddef.h>
void *memcpy(void *, const void *, size_t), *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
END

# One compilation a line. The files are named by words without spaces, seen from the work folder.
cd "$work" || exit 1
list() {
    local file
    if [ "$(uname -m)" = x86_64 ]; then
        for file in avx2/*.c; do
            echo "gcc -std=c11 $file"
            echo "clang -std=c11 $file"
            echo "g++ -std=c++17 -x c++ $file"
        done
        for file in avx512/*.c; do echo "gcc -std=c11 $file"; done
        for file in generic/*.c; do echo "clang -std=c11 $file"; done
    fi
    for file in neon/*.c; do
        echo "clang -std=c11 --target=aarch64-linux-gnu -DKM_KERNELS_ONLY -ffreestanding -nostdlibinc" \
            "-isystem libc $file"
    done
}

compile() { # "COMPILER OPTION... FILE" FLAGS...
    local words
    read -ra words <<<"$1"
    command -v "${words[0]}" >/dev/null || { echo "skip ${words[0]}"; return 0; }
    "${words[@]}" "${@:2}" && echo "ok" && return
    echo "FAILED: $1"
    return 1
}
export -f compile
out=$(list | xargs -d '\n' -P 2 -I '{}' bash -c 'compile "$@"' _ '{}' "${flags[@]}" 2>&1)
status=$?
grep -vx 'ok\|skip .*' <<<"$out"
echo "$(grep -cx ok <<<"$out") compilations, $(grep -c '^FAILED' <<<"$out") failed," \
    "$(grep -c '^skip ' <<<"$out") without their compiler"
[ "$status" = 0 ] || exit 1
grep -qx ok <<<"$out" || exit 77
