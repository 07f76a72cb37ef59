#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Emitted .c compile alone without a warning: those of avx2 with gcc and clang as C11 and with g++ as C++17, the other
# instruction sets with one compiler each. They are so many that every line of any text is compiled (cover.h); with
# KMGEN_TEST_ALL=1 those of all specs. What passed is written down in WORK_FOLDER/passed_c under a hash of text,
# compiler and options, and not compiled again.
# usage: compile_c.sh WORK_FOLDER GOLDEN_PROGRAM SPECS_FOLDER
set -uo pipefail
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export passed=$1/passed_c
golden=$2 specs=$3
vector_cc=$(realpath "${0%/*}/vector_cc.sh")
export vector_cc KMGEN_TEST_CACHE=$work # whose precompiled headers go with this run
flags=(-Wall -Wextra -Werror -c -o /dev/null)

for isa in avx2 generic avx512 neon; do
    mkdir "$work/$isa" && "$golden" texts "$specs" "$work/$isa" "cpu:$isa" || exit 1
done

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

# One compilation a line. The files are named by words without spaces, seen from the work folder. What clang and g++ say
# of a text, they say without optimising it, and gcc when it optimises a bit: with KMGEN_TEST_ALL=1 they do.
cd "$work" || exit 1
all=${KMGEN_TEST_ALL:+-O2}
quick=${all:--O0}
list() {
    local file
    if [ "$(uname -m)" = x86_64 ]; then
        for file in avx2/*.c; do
            echo "gcc -std=c11 ${all:--Og} $file"
            echo "clang -std=c11 $quick $file"
            echo "g++ -std=c++17 -x c++ ${all:--fsyntax-only} $file"
        done
        for file in avx512/*.c; do echo "gcc -std=c11 ${all:--Og} $file"; done
        for file in generic/*.c; do echo "clang -std=c11 $quick $file"; done
    fi
    for file in neon/*.c; do
        echo "clang -std=c11 --target=aarch64-linux-gnu -DKM_KERNELS_ONLY -ffreestanding -nostdlibinc" \
            "-isystem libc $quick $file"
    done
}

compile() { # "COMPILER OPTION... FILE" FLAGS...
    local words key file
    read -ra words <<<"$1"
    file=${words[-1]}
    command -v "${words[0]}" >/dev/null || { echo "skip ${words[0]}"; return 0; }
    key=$({
        "${words[0]}" --version
        printf '%s ' "${words[@]:0:${#words[@]}-1}" "${@:2}"
        cat "$file" "${file%.c}.h"
    } | sha256sum)
    grep -qxF "${key%% *}" "$passed" 2>/dev/null && { echo "before"; return 0; }
    "$vector_cc" "${words[0]}" '' "${words[@]:1}" "${@:2}" && echo "${key%% *}" >>"$passed" && echo "ok" && return
    echo "FAILED: $1"
    return 1
}
export -f compile
out=$(list | xargs -d '\n' -P 2 -I '{}' bash -c 'compile "$@"' _ '{}' "${flags[@]}" 2>&1)
status=$?
grep -vx 'ok\|before\|skip .*' <<<"$out"
echo "$(grep -cx ok <<<"$out") compilations, $(grep -cx before <<<"$out") that passed before," \
    "$(grep -c '^FAILED' <<<"$out") failed, $(grep -c '^skip ' <<<"$out") without their compiler"
[ "$status" = 0 ] || exit 1
grep -qx 'ok\|before' <<<"$out" || exit 77
