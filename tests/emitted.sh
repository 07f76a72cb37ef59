#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Emitted files without kmgen: the example, its results beside those of kmgen fit, the program of -DNAME_MAIN for
# several designs, two files in one program, and what the interface refuses.
# usage: emitted.sh cpu|cuda KMGEN SOURCE_ROOT    (cuda: without a device, files are compiled and linked, and say so)
set -uo pipefail
target=$1 kmgen=$(realpath "$2") root=$(realpath "$3")
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc)
[ "$target" = cpu ] || [ -n "$nvcc" ] || { echo "no nvcc"; exit 77; }
command -v cc >/dev/null || { echo "no cc"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export KMGEN_CACHE_DIR=$work/cache
warnings=(-Wall -Wextra -Werror)
wrong=0 has_device=0
[ "$target" = cuda ] && "$kmgen" info | grep -q '^cuda:0' && has_device=1
# What nothing runs, nvcc need not optimise, where it knows how not to: whether it does so is for compile_nvcc.
quick=()
[ "$target" = cuda ] && [ $has_device = 0 ] && [ -z "${KMGEN_TEST_ALL:-}" ] &&
    [[ $("$nvcc" --help) = *--Ofast-compile\ * ]] && quick=(--Ofast-compile max)

refuse() {
    echo "not ok: $*"
    wrong=$((wrong + 1))
}

# Compiles what is emitted, and further sources, into a program.
build() { # PROGRAM FLAGS -- NAME... -- SOURCE...
    local program=$1 flags=() names=()
    shift
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    while [ "$1" != -- ]; do names+=("$1"); shift; done
    shift
    if [ "$target" = cpu ]; then
        cc -std=c11 -O2 -ffp-contract=off -fopenmp "${warnings[@]}" "${flags[@]}" "${names[@]/%/.c}" "$@" \
            -o "$program" -lm
    else
        "$nvcc" -arch=sm_90 "${quick[@]}" -Werror all-warnings "${flags[@]}" "${names[@]/%/.cu}" "$@" -o "$program"
    fi || refuse "$program is not built"
}

# Runs a program that needs the device: without one it says so, in a sentence.
run() { # PROGRAM ARGUMENTS...
    "./$1" "${@:2}" >out 2>err
    local status=$?
    [ "$target" = cpu ] || [ $has_device = 1 ] || {
        if [ $status != 1 ] || ! grep -q 'no CUDA device' err; then refuse "$*: exit $status, $(cat out err)"; fi
        return 1
    }
    [ $status = 0 ] || refuse "$*: exit $status, $(cat out err)"
}

refuses() { # WORDS PROGRAM ARGUMENTS...
    local words=$1
    shift
    "./$1" "${@:2}" >out 2>err && refuse "$*: is not refused"
    grep -q "$words" err || refuse "$*: says no '$words': $(cat err)"
}

# The example, with given first centroids, one of which has no points.
"$kmgen" -q "$root/examples/elbow.yaml" --target "$target" || refuse "the example's spec"
cp "$root/examples/elbow_main.c" .
build elbow -- elbow -- elbow_main.c
python3 "$root/tests/emitted.py" make .
if run elbow points.f32 first.f32 labels.i32; then
    cp out elbow.txt
    "$kmgen" fit -q points.f32 --features 4 -k 2..6 --init first.npy -t "$target" --json fit.json --labels fit.npy \
        --labels-of all >fit.txt || refuse "kmgen fit"
    python3 "$root/tests/emitted.py" compare fit.json elbow.txt fit.npy labels.i32 ||
        refuse "other results than kmgen fit"
    # Drawn ones: kmgen's first restart, for the same seed.
    "$kmgen" fit -q points.f32 --features 4 -k 2..6 --n-init 1 --refine none -t "$target" \
        --json fit.json >fit.txt ||
        refuse "kmgen fit"
    run elbow points.f32 && cp out elbow.txt
    python3 "$root/tests/emitted.py" compare fit.json elbow.txt || refuse "other results than kmgen fit, seeded"
fi

# The program of a file: it checks itself against a plain loop.
for spec in "$root"/specs/{small,float64,many_features,high_d}.yaml; do
    name=$(basename "$spec" .yaml)
    [ "$target" = cpu ] || [ "$name" != many_features ] || continue
    [ "$target" = cpu ] || [ $has_device = 1 ] || [ "$name" = small ] || continue
    "$kmgen" -q "$spec" --target "$target" || refuse "$name is not emitted"
    build "$name" "-D${name^^}_MAIN" -- "$name" --
    run "$name" 3001 || continue
    grep -q 'every label the nearest: right' out || refuse "$name: $(cat out)"
    grep -q '^pass: ' out || refuse "$name: $(cat out)"
done

# What is refused, before and after there are points.
head -c 64 points.f32 >few.f32
head -c 66 points.f32 >cut.f32
if run small points.f32; then
    grep -q 'every label the nearest: right' out || refuse "a raw file: $(cat out)"
    refuses '4 points are fewer than the largest K, 5' small few.f32
    refuses '66 bytes are no whole number of points' small cut.f32
    refuses 'cannot open missing' small missing
    python3 -c 'import struct; open("nan.f32", "wb").write(struct.pack("<40f", *[1.0] * 33, float("nan"), *[2.0] * 6))'
    refuses 'feature 1 of point 8 is no finite number' small nan.f32
    cp first.npy points.npy && run small points.npy
    refuses 'expected double in C order, n rows of 4 columns' float64 points.npy
fi

# Several files in one program, C++.
several=(small wide high_d300 heavy)
for name in "${several[@]:0:3}"; do "$kmgen" -q "$root/specs/$name.yaml" --target "$target" || refuse "$name"; done
printf 'name: heavy\nfeatures: 4\nclusters: 3..5\n' >heavy.yaml
"$kmgen" -q heavy.yaml --target "$target" --weighted || refuse "heavy"
cat >several.cpp <<'END'
#include "heavy.h"
#include "high_d300.h"
#include "small.h"
#include "wide.h"
#include <cmath>
#include <cstdio>
#include <vector>
int main() {
    std::vector<float> points(256 * 4096);
    std::vector<double> weights(8192, 2.0);
    for (size_t i = 0; i < points.size(); i++) points[i] = (float)(i * 7919 % 1009);
    small_fit *a = nullptr;
    wide_fit *b = nullptr;
    high_d300_fit *c = nullptr;
    small_model one = {};
    wide_model two = {};
    high_d300_model three = {};
    heavy_fit *h = nullptr;
    heavy_model four = {};
    int failed = small_create(&a, points.data(), nullptr, 8192);
    if (failed) std::fprintf(stderr, "%s\n", small_error());
    if (failed) return 1;
    failed = wide_create(&b, points.data(), nullptr, 3000) || high_d300_create(&c, points.data(), nullptr, 3000) ||
             small_seed(a, 1) || wide_seed(b, 1) || high_d300_seed(c, 1) || small_run(a, 20, 0, nullptr) ||
             wide_run(b, 20, 0, nullptr) || high_d300_run(c, 20, 0, nullptr) || small_result(a, 0, &one) ||
             wide_result(b, 0, &two) || high_d300_result(c, 0, &three);
    failed = failed || heavy_create(&h, points.data(), weights.data(), 8192) || heavy_seed(h, 1) ||
             heavy_run(h, 20, 0, nullptr) || heavy_result(h, 0, &four);
    heavy_destroy(&h);
    weights[77] = -1; // refused
    if (heavy_create(&h, points.data(), weights.data(), 8192) != HEAVY_DATA || h) failed = 1;
    std::printf("%s\n", heavy_error());
    if (!(std::fabs(four.inertia / one.inertia - 2) < 1e-6)) failed = 1; // twice the weight
    if (small_result(a, SMALL_KS, &one) != SMALL_ARGUMENT) failed = 1;
    std::printf("%g %g %g %s\n", one.inertia, two.inertia, three.inertia, small_error());
    small_destroy(&a);
    wide_destroy(&b);
    high_d300_destroy(&c);
    return failed || !(one.inertia > 0) || !(two.inertia > 0) || !(three.inertia > 0) || a || b || c;
}
END
if [ "$target" = cpu ]; then
    for name in "${several[@]}"; do cc -c -O1 "$name.c" || refuse "$name.c"; done
    g++ -std=c++17 "${warnings[@]}" several.cpp "${several[@]/%/.o}" -o several -lm || refuse "they do not link"
else
    "$nvcc" -arch=sm_90 "${quick[@]}" -Werror all-warnings several.cpp "${several[@]/%/.cu}" -o several ||
        refuse "they do not link"
fi
run several && ! grep -q 'entry 3 of a list of 3 K: the first is 0' out && refuse "several: $(cat out)"
[ -s out ] && ! grep -q 'the weight of point 77 is negative or no finite number' out && refuse "several: $(cat out)"

# The header alone, as both languages.
for compiler in "cc -std=c11 -x c" "g++ -std=c++17 -x c++"; do
    $compiler -Wall -Wextra -pedantic -Werror -fsyntax-only small.h || refuse "small.h by $compiler"
done
[ "$target" = cpu ] || [ $has_device = 1 ] || echo "compiled and linked only: no device"
exit $((wrong != 0))
