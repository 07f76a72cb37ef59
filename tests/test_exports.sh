#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The shared library exports the functions of the public headers, all of them and nothing else; and what COMMAND
# (abi.py) says of them.
# usage: test_exports.sh LIBRARY INCLUDE_DIR [COMMAND...]
set -euo pipefail
library=$1 include=$2
shift 2
command -v nm >/dev/null || exit 77
exported() { nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort; }
declared() { # code without comments on one line, cut at each KM_API
    sed 's|//.*||; /^#/d' "$include"/kmgen/*.h | tr '\n' ' ' | grep -oE 'KM_API [^(;]*\(' |
        sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' | sort
}
declared=$(declared) exported=$(exported)
[ -n "$declared" ]
echo "$(wc -l <<<"$declared") functions; < in a header only, > in the library only:"
diff <(echo "$declared") <(echo "$exported")
[ $# = 0 ] || "$@"
