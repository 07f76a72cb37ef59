#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The cache of compiled modules under attack: many cold processes, containers that share it, a full disk, folders of
# others, links, damaged entries, compilers that lie. Usage: attack_cache.sh KMGEN SOURCE_ROOT
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
export CUDA_VISIBLE_DEVICES=
compiler=$(command -v cc || command -v gcc || command -v clang) || exit 77
fit=(fit "$iris" -k 2..5 --criterion calinski_harabasz --target cpu --set design=lanes --json) # warns of nothing else
models() { python3 -c 'import json,sys; print(json.dumps(json.load(open(sys.argv[1]))["models"]))' "$1"; }
same_models() {
    [ -n "${first_models:-}" ] || first_models=$(models first.json)
    [ "$(models "$1")" = "$first_models" ]
}

# Counts how often it is called. All compile the same text, so it compiles once and copies then.
cat >counting-cc <<SCRIPT
#!/bin/sh
echo x >>"$work/compiled"
for word; do
    [ "\$last" = -o ] && out=\$word
    case \$word in *.c) text=\$word ;; esac
    last=\$word
done
if cmp -s "\$text" "$work/kept.c"; then
    sleep 0.3
    exec cp "$work/kept.so" "\$out"
fi
$compiler "\$@" || exit 1
cp "\$out" "$work/kept.so" && cp "\$text" "$work/kept.c"
SCRIPT
printf '#!/bin/sh\nexit 0\n' >silent-cc
printf '#!/bin/sh\nkill -9 $$\n' >dying-cc
chmod +x counting-cc silent-cc dying-cc

# Cold processes compile once, the others wait for it.
herd() { # COUNT PREFIX...: starts them together
    local count=$1 i pids=()
    shift
    : >compiled
    for ((i = 0; i < count; i++)); do
        "$@" "$kmgen" "${fit[@]}" "herd$i.json" --compiler "$work/counting-cc" >/dev/null 2>"herd$i.err" &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do
        wait "${pids[$i]}"
        status=$?
        expect "cold process $i of $count $*: status $status, $(head -c 300 "herd$i.err")" [ "$status" = 0 ]
        [ -e first.json ] || cp "herd$i.json" first.json
        expect "cold process $i of $count $*: another result" same_models "herd$i.json"
        expect "cold process $i of $count $*: it warned: $(head -c 300 "herd$i.err")" \
            not grep -q 'warning: .*cache' "herd$i.err"
    done
    expect "$count cold processes $* compiled $(wc -l <compiled) times" [ "$(wc -l <compiled)" = 1 ]
    expect "cold processes $* left something in the cache" nothing_left cache
}
if [ -n "$all" ]; then herd 32; else herd 5; fi
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    rounds=1
    [ -n "$all" ] && rounds=6
    for ((round = 0; round < rounds; round++)); do
        rm -rf cache
        herd "$([ -n "$all" ] && echo 24 || echo 4)" unshare --pid --fork --mount-proc
    done
else
    echo "unshare is not permitted here: no processes that have the same number"
fi

# What a killed build leaves is removed by any later one, and its lock is not waited for.
key=0123456789abcdef0123456789abcdef
binary=$(ls cache/*.bin)
: >"cache/$key.1.tmp"; : >"cache/$key.lock"; : >"${binary%.bin}.1.tmp"; : >"${binary%.bin}.lock"; rm "$binary"
run_ok "after a killed build" "${fit[@]}" r.json --compiler "$work/counting-cc"
expect "a killed build's files stay" nothing_left cache
# A lock that is held is waited for.
hold "${binary%.bin}.lock"
rm "$binary"
: >compiled
(run "${fit[@]}" r.json --compiler "$work/counting-cc" -v; echo "$status" >ended) &
waiting=$!
await grep -q 'fit: planned' stderr
sleep 0.3
expect "a lock was not waited for" [ ! -e ended ]
expect "what waits for a lock compiles" [ ! -s compiled ]
let_go
wait "$waiting"
expect "behind a lock: exit status $(cat ended)" [ "$(cat ended)" = 0 ]
rm ended

# Damaged entries are built again, with one warning.
damage() { # NUMBER FILE
    local size
    size=$(stat -c %s "$2")
    case $(($1 % 4)) in
        0) truncate -s $((size * ($1 + 1) / 30)) "$2" ;;
        1) printf '\377' | dd of="$2" bs=1 seek=$((size * $1 / 26)) conv=notrunc 2>/dev/null ;;
        2) dd if=/dev/zero of="$2" bs=64 count=1 seek=$((size * $1 / 26 / 64)) conv=notrunc 2>/dev/null ;;
        3) printf 'KMGENSUM%056d' 0 >"$2" ;;
    esac
}
damages=4
[ -n "$all" ] && damages=24
for ((i = 0; i < damages; i++)); do
    cp "$binary" whole.bin
    damage $i "$binary"
    cmp -s "$binary" whole.bin && continue
    run_ok "damage $i" "${fit[@]}" r.json --compiler "$work/counting-cc"
    expect "damage $i: another result" same_models r.json
    expect "damage $i: no warning" said 'is damaged'
    expect "damage $i: not built again" cmp -s "$binary" whole.bin
done

# An entry that was planted: its constructor must not run. The checksum has no key, so it is right.
cat >evil.c <<SOURCE
__attribute__((constructor)) static void run(void) { __builtin_printf("EVIL\n"); }
SOURCE
"$compiler" -shared -fPIC -o evil.so evil.c
"$compiler" -x c -o seal - -lxxhash <<'SOURCE' 2>/dev/null
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>
int main(int argc, char **argv) {
    static char bytes[1 << 22];
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    size_t size = in && argc ? fread(bytes, 1, sizeof bytes, in) : 0;
    XXH128_hash_t hash = XXH3_128bits(bytes, size);
    fwrite(bytes, 1, size, out);
    fprintf(out, "KMGENSUM%016llx%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64,
            (unsigned long long)size);
    return fclose(out);
}
SOURCE
not_evil() { # WHAT
    expect "$1: code of others was run" not grep -q EVIL stdout
    expect "$1: another result" same_models r.json
}
name=$(basename "$binary") plain=()
[ -x seal ] && ./seal evil.so evil.bin && plain=(evil.bin)
hostile() { # WHAT FOLDER: not used, one warning, and the job is done
    KMGEN_CACHE_DIR=$work/$2 run_ok "$1" "${fit[@]}" r.json --compiler "$work/counting-cc"
    expect "$1: not one warning" warned_once
    expect "$1: the warning does not say why" said 'others may have written|belongs to user'
    not_evil "$1"
}
plant() { # FOLDER
    mkdir -p "$1"
    [ -z "${plain[*]}" ] || cp evil.bin "$1/$name"
}
plant open && chmod 1777 open
hostile "a folder that all may write to" open
plant upper/open && chmod 777 upper
hostile "a folder in one that all may write to" upper/open
if [ "$(id -u)" = 0 ]; then
    plant group && chgrp 12345 group && chmod 770 group
    hostile "a folder that a group may write to" group
    plant foreign && chown 12345 foreign
    hostile "a folder of another user" foreign
    plant foreign2/mine && chown 12345 foreign2
    hostile "a folder in another user's" foreign2/mine
    ln -s "$work/foreign" to-foreign
    hostile "a link to another user's folder" to-foreign
    plant mine && chmod 700 mine && chown 12345 "mine/$name"
    if [ -e "mine/$name" ]; then
        KMGEN_CACHE_DIR=$work/mine run_ok "an entry of another user" "${fit[@]}" r.json --compiler "$work/counting-cc"
        not_evil "an entry of another user"
    fi
fi
mkdir sticky && chmod 1777 sticky && mkdir -m 700 sticky/mine
KMGEN_CACHE_DIR=$work/sticky/mine run_ok "a folder in a sticky one" "${fit[@]}" r.json --compiler "$work/counting-cc"
expect "a folder of one's own in a sticky one is not used" test -s "sticky/mine/$name"
run "${fit[@]}" r.json --cache-dir open --compiler "$work/counting-cc"
expect "--cache-dir of others: status $status" [ "$status" = 0 ]
expect "--cache-dir of others: no warning" warned_once

# Links in the cache are replaced, not followed.
echo precious >victim
for end in .bin .log .c .lock; do
    rm -f "$binary" "${binary%.bin}"$end
    ln -s "$work/victim" "${binary%.bin}$end"
    run_ok "a link as $end" "${fit[@]}" r.json --compiler "$work/counting-cc"
    expect "a link as $end was followed" [ "$(cat victim)" = precious ]
    expect "a link as $end: another result" same_models r.json
    rm -f "${binary%.bin}.lock"
done
if [ -n "${plain[*]}" ]; then
    rm -f "$binary" && ln -s "$work/evil.bin" "$binary"
    run_ok "a link to an entry" "${fit[@]}" r.json --compiler "$work/counting-cc"
    not_evil "a link to an entry"
fi
# A folder where a file should be.
for end in .bin .c .log .lock; do
    rm -rf "$binary" "${binary%.bin}"$end
    mkdir "${binary%.bin}$end"
    run_ok "a folder as $end" "${fit[@]}" r.json --compiler "$work/counting-cc"
    expect "a folder as $end: another result" same_models r.json
    case $end in .bin | .c) expect "a folder as $end: not one warning" warned_once ;; esac
    rmdir "${binary%.bin}$end"
done

# Disks that are full or fail.
mkdir small
for size in 4k 16k 64k; do
    mount -t tmpfs -o "size=$size,mode=700" kmgen small 2>/dev/null || { echo "mounting is not permitted here"; break; }
    mounted+=("$PWD/small")
    head -c 4096 /dev/zero >small/filler
    KMGEN_CACHE_DIR=$work/small run_ok "a full disk of $size" "${fit[@]}" r.json --compiler "$work/counting-cc"
    expect "a full disk of $size: not one warning" warned_once
    expect "a full disk of $size: no reason" said 'No space left on device'
    expect "a full disk of $size: another design" not said 'prebuilt'
    expect "a full disk of $size: another result" same_models r.json
    expect "a full disk of $size: something is left" nothing_left small
    umount small
done
KMGEN_CACHE_DIR=/proc/none run_ok "no cache" "${fit[@]}" r.json --compiler "$work/counting-cc"
expect "no cache: not one warning" warned_once
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016
    KMGEN_CACHE_DIR=/proc/none unshare --mount sh -c \
        'mount -t tmpfs kmgen /tmp && "$@" >/dev/null 2>&1; ls -A /tmp' sh "$kmgen" "${fit[@]}" /dev/null >left
    expect "a private folder is left: $(head -n 1 left)" [ ! -s left ]
fi

# Without /proc there is neither a file without a name nor memory that looks like one: named files serve, and go.
if unshare --mount true 2>/dev/null; then
    rm -rf cache out && mkdir out
    libraries=$(dirname "$(ldd "$kmgen" | awk '/libkmgen/ { print $3 }')") # as $ORIGIN is told by /proc
    # shellcheck disable=SC2016
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        unshare --mount sh -c 'mount -t tmpfs kmgen /proc && exec "$@"' sh \
        "$kmgen" "${fit[@]}" out/r.json --compiler "$compiler" >stdout 2>stderr
    status=$?
    expect "without /proc: exit status $status" [ "$status" = 0 ]
    expect "without /proc: another result" same_models out/r.json
    expect "without /proc: another design" not said 'prebuilt'
    expect "without /proc: the module is not cached" [ -n "$(find cache -name "*.bin" -size +0)" ]
    expect "without /proc: something is left" nothing_left out cache
fi

# Compilers that lie or die: the prebuilt kernels, with one warning.
for liar in silent-cc dying-cc; do
    run_ok "$liar" "${fit[@]}" r.json --compiler "$work/$liar"
    expect "$liar: not one warning" warned_once
    expect "$liar: no word of the prebuilt kernels" said 'prebuilt'
    expect "$liar: something is left" nothing_left cache
done
report
