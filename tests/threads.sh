#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Races between threads: fits of every algorithm and CPU design by a program that clang's ThreadSanitizer instruments,
# emitted kernels too, with clang's OpenMP, whose tool archer tells the sanitizer of barriers and critical sections.
# First a race made on purpose must be found, and archer be at work.
# With KMGEN_TEST_ALL=1 on more points, in both types, with weights.
# usage: threads.sh KMGEN, built with CC=clang -Db_sanitize=thread
set -euo pipefail
kmgen=$1 found=66
library=$(clang -print-resource-dir)/../..
[ -f "$library/libarcher.so" ] || { echo "no libarcher.so beside clang"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_TOOL_LIBRARIES=$library/libarcher.so OMP_WAIT_POLICY=passive KMGEN_CACHE_DIR=$work/cache
# OpenMP's runtime, the C library and the readers' libraries are not instrumented: what they do among themselves looks
# like races. No other exception is made, and no function of kmgen is left out.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=$found halt_on_error=0 history_size=4"

cat >"$work/cc" <<'END'
#!/bin/sh
# What emitted text is compiled with, and instrumented on top. The runtime is the running program's.
unset OMP_TOOL_LIBRARIES
exec clang "$@" -O1 -g -fsanitize=thread
END
chmod +x "$work/cc"

cat >"$work/race.c" <<'END'
#include <stdio.h>
int main(void) {
    int sum = 0, total = 0;
#pragma omp parallel num_threads(3)
    {
#ifdef RACE
        sum++;
#else
#pragma omp critical
        sum++;
#endif
#pragma omp barrier
#pragma omp single
        total = sum;
    }
    return printf("%d\n", total) < 0;
}
END
clang -O1 -g -fopenmp -fsanitize=thread -o "$work/orderly" "$work/race.c"
clang -O1 -g -fopenmp -fsanitize=thread -DRACE -o "$work/race" "$work/race.c"
ARCHER_OPTIONS=verbose=1 "$work/orderly" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q 'supplying OpenMP synchronization' "$work/log" || { echo "archer is not at work:"; cat "$work/log"; exit 1; }
status=0
for _ in 1 2 3 4 5; do "$work/race" >/dev/null 2>&1 || status=$?; done
[ "$status" = "$found" ] || { echo "a race made on purpose was not found: exit code $status"; exit 1; }

# Several chunks of 65,536 points for each of three threads in the whole form, one of 16,384 in the short one.
points=50001 passes=4
[ -z "${KMGEN_TEST_ALL:-}" ] || points=420001 passes=6
awk -v n="$points" 'BEGIN { srand(1); for (i = 0; i < n; i++) { b = i % 5 * 10
    printf "%.3f,%.3f,%.3f,%.3f\n", b + rand() * 8, -b + rand() * 8, rand() * 3, i % 3 * 7 + rand() } }' >"$work/t.csv"
awk -v n="$points" 'BEGIN { for (i = 0; i < n; i++) print 1 + i % 7 }' >"$work/w.csv"

fits=0 failed=0
run() { # OPTIONS...
    local status=0
    "$kmgen" fit "$work/t.csv" -q --threads 3 --n-init 2 --max-iter "$passes" --compiler "$work/cc" \
        --labels "$work/l.npy" "$@" >"$work/log" 2>&1 || status=$?
    fits=$((fits + 1))
    [ "$status" = 0 ] && return
    failed=$((failed + 1))
    echo "FAILED ($status): kmgen fit $*"
    head -60 "$work/log"
}
for algorithm in tiles hamerly elkan; do run -k 3,6 --set design=prebuilt --algorithm "$algorithm"; done
for design in prebuilt lanes gemm; do run -k 3,6 --set design="$design" --algorithm lloyd; done
emitted=$(grep -l __tsan "$work"/cache/*.bin | wc -l)
[ "$emitted" = 2 ] || { echo "$emitted of 2 emitted kernels are instrumented"; exit 1; }
if [ -n "${KMGEN_TEST_ALL:-}" ]; then
    for type in f32 f64; do
        for algorithm in lloyd tiles hamerly elkan; do
            run -k 2..9 --type "$type" --weights "$work/w.csv" --set design=prebuilt --algorithm "$algorithm"
        done
        for design in lanes gemm; do run -k 2..9 --type "$type" --scale standard --set design="$design"; done
        run -k 5 --type "$type" --init random --min-changes 10
    done
fi
echo "$fits fits of $points points, $failed with races"
[ "$failed" = 0 ]
