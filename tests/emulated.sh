#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a test of the CUDA engine on emulated GPUs (emulate/cuda.c says what they do, and what may be set).
#     tests/emulated.sh BUILD PROGRAM ARGUMENTS...
#     CK_RUN_CASE=run tests/emulated.sh build build/tests/test_backend cuda-registers
# Exits 77 (skipped) where there is no C++ compiler, or the processor is another one than they are for.
set -euo pipefail

folder=$1/tests/emulate
shift
if [ ! -e "$folder/libcuda.so.1" ]; then
    echo "skipped: GPUs are emulated on x86-64 only"
    exit 77
fi
if ! command -v "${EMULATED_CUDA_CXX:-g++}" >/dev/null; then
    echo "skipped: there is no ${EMULATED_CUDA_CXX:-g++}"
    exit 77
fi
if [ -n "${EMULATED_WHOLE:-}" ] && [ -z "${KMGEN_TEST_ALL:-}" ]; then
    echo "skipped: it takes long, scripts/test --all runs it"
    exit 77
fi
folder=$(cd "$folder" && pwd)
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KMGEN_TEST_EMULATED=1
export KMGEN_TEST_CACHE=${KMGEN_TEST_CACHE:-$folder/kernels}
# The whole form is all cases, not that of the short one.
[ -z "${KMGEN_TEST_ALL:-}" ] || [ "${CK_RUN_CASE:-}" != few ] || unset CK_RUN_CASE
exec "$@"
