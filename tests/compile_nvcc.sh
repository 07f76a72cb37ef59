#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nvcc accepts emitted files alone, without a warning: the first that is named, with KMGEN_TEST_ALL=1 all, which
# emitted.sh has compiled otherwise. usage: compile_nvcc.sh GOLDEN_PROGRAM SPECS_FOLDER NAME...
set -uo pipefail
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo "no nvcc"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
KMGEN_TEST_ALL=1 "$1" texts "$2" "$work" cuda:sm_90 && cd "$work" || exit 1
names=("${@:3}")
[ -n "${KMGEN_TEST_ALL:-}" ] || names=("$3")
for name in "${names[@]}"; do
    said=$("$nvcc" -c -arch=sm_90 -Werror all-warnings "$name.cu" -o "$name.o" 2>&1) || failed=1
    [ -z "$said" ] || { echo "$name.cu: $said"; failed=1; }
done
exit $failed
