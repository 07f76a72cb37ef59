#!/bin/sh
# SPDX-License-Identifier: MIT
# A compiler of emitted texts for tests, which call it many times: half of its time goes into reading <immintrin.h>.
# A text that includes it before it names any of its words gets it precompiled, made once and kept in KMGEN_TEST_CACHE;
# compilers pass one by that another version or other options have made.
# usage: vector_cc.sh COMPILER "OPTION..." ARGUMENT...
compiler=$1 last=$2 options="" text=""
shift 2
for word; do
    case $word in
        *.c) text=$word ;;
        -fsyntax-only) ;;
        -std=* | -O* | -f* | -D* | -g*) options="$options $word" ;;
    esac
done
options="$options $last"
before_use='/^#include <immintrin.h>$/ { exit found = 1 } /_mm[0-9]*_|__m[0-9]/ { exit } END { exit !found }'
if [ -d "$KMGEN_TEST_CACHE" ] && awk "$before_use" "$text"; then
    key=$({ $compiler --version; echo "$compiler $options"; } | cksum)
    header=$KMGEN_TEST_CACHE/vectors-${key%% *}.h
    if [ ! -e "$header.gch" ]; then
        case $compiler in *++) language=c++-header ;; *) language=c-header ;; esac
        echo '#include <immintrin.h>' >"$header.$$"
        mv "$header.$$" "$header" # suites run side by side
        # shellcheck disable=SC2086 # words
        $compiler -x $language $options "$header" -o "$header.$$" && mv "$header.$$" "$header.gch"
    fi
    set -- -include "$header" "$@"
fi
# shellcheck disable=SC2086 # words
exec $compiler "$@" $last
