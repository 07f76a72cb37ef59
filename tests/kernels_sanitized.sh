#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Emitted CPU kernels of the designs lanes and gemm, instrumented by clang's AddressSanitizer and UBSan, against plain
# double loops, on memory whose guard zones they may neither read nor write. With KMGEN_TEST_ALL=1 every shape.
# usage: kernels_sanitized.sh TEST_CPU_KERNELS
set -uo pipefail
runtime=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so" 2>/dev/null)
[ -f "$runtime" ] || { echo "no clang with AddressSanitizer's runtime"; exit 77; }
# Cached kernels are told apart by their compiler's path, size and time.
folder=${KMGEN_TEST_CACHE:-$(mktemp -d)}
mkdir -p "$folder"
compiler=$folder/sanitizing-clang
new=$(cat <<END
#!/bin/sh
# What emitted text is compiled with, and instrumented on top. The runtime is the running program's.
unset LD_PRELOAD
exec "$(realpath "${0%/*}/vector_cc.sh")" clang \
    "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -shared-libsan" "\$@"
END
)
if [ ! -x "$compiler" ] || [ "$(cat "$compiler")" != "$new" ]; then
    printf '%s\n' "$new" >"$compiler.$$" && chmod +x "$compiler.$$" && mv "$compiler.$$" "$compiler" || exit 1
fi
# Leaks are the other sanitizer build's to find: here the program itself is not instrumented.
KMGEN_TEST_COMPILER=$compiler LD_PRELOAD=$runtime \
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:exitcode=23 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 "$1"
