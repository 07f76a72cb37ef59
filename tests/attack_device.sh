#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What only a GPU shows: damaged cubins, two processes on one GPU that share a cold cache, kill -9 in mid-fit, a file
# that becomes shorter while its points are sent. Exits 77 without a GPU. Usage: attack_device.sh KMGEN SOURCE_ROOT
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
[ -n "$CUDA_VISIBLE_DEVICES" ] || unset CUDA_VISIBLE_DEVICES
fit=(fit x.f32 --features 8 -k 2..12 --n-init 4 --target cuda -q --json)
"$kmgen" fit "$iris" -k 2 --target cuda -q >stdout 2>stderr || { cat stderr; exit 77; }
models() { python3 -c 'import json,sys; print(json.dumps(json.load(open(sys.argv[1]))["models"]))' "$1"; }
same_models() { [ "$(models "$1")" = "$(models first.json)" ]; }
points x.f32 2000000 8
rm -rf cache

# Two cold processes on one GPU: both are right, and the module is built once.
two() { # PREFIX...
    local i pids=()
    for i in 1 2; do
        "$@" "$kmgen" "${fit[@]}" "two$i.json" >/dev/null 2>"two$i.err" &
        pids+=($!)
    done
    for i in 1 2; do
        wait "${pids[$((i - 1))]}"
        status=$?
        expect "process $i of two $*: status $status, $(head -c 300 "two$i.err")" [ "$status" = 0 ]
        [ -e first.json ] || cp "two$i.json" first.json
        expect "process $i of two $*: another result" same_models "two$i.json"
    done
    expect "two processes $*: something is left" nothing_left cache
    expect "two processes $*: $(find cache -name '*.bin' | wc -l) modules" [ "$(find cache -name '*.bin' | wc -l)" = 1 ]
}
two
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    rm -rf cache
    two unshare --pid --fork --mount-proc
fi

# Damaged cubins: built again, the same result.
binary=$(find cache -name '*.bin' | head -n 1)
size=$(stat -c %s "$binary")
cp "$binary" whole.bin
damages=8
[ -n "$all" ] && damages=24
for ((i = 0; i < damages; i++)); do
    case $((i % 4)) in
        0) truncate -s $((size * (i + 1) / 30)) "$binary" ;;
        1) printf '\377' | dd of="$binary" bs=1 seek=$((size * i / 26)) conv=notrunc 2>/dev/null ;;
        2) dd if=/dev/zero of="$binary" bs=64 count=4 seek=$((size * i / 26 / 64)) conv=notrunc 2>/dev/null ;;
        3) printf 'KMGENSUM%056d' 0 >"$binary" ;;
    esac
    cmp -s "$binary" whole.bin && continue
    run_ok "damaged cubin $i" "${fit[@]}" r.json
    expect "damaged cubin $i: another result" same_models r.json
    expect "damaged cubin $i: not built again" [ "$(stat -c %s "$binary")" = "$size" ]
done

# kill -9 in mid-fit: outputs old or new, nothing left, and the GPU serves the next run as before.
before=$(date +%s%N)
run_ok "an undisturbed run" "${fit[@]}" r.json
took_ms=$((($(date +%s%N) - before) / 1000000 + 1))
kills=6
[ -n "$all" ] && kills=30
hits=0
for ((i = 1; i <= kills; i++)); do
    ms=$((took_ms * i / kills))
    "$kmgen" "${fit[@]}" r.json >/dev/null 2>&1 &
    id=$!
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    kill -9 "$id" 2>/dev/null
    wait "$id" 2>/dev/null
    [ $? = 137 ] && hits=$((hits + 1))
    expect "killed after $ms of $took_ms ms: the output is not whole" same_models r.json
    expect "killed after $ms ms: something is left" nothing_left .
done
expect "no run was killed in time" [ "$hits" -gt 0 ]
run_ok "after all kills" "${fit[@]}" r.json
expect "after all kills: another result" same_models r.json

# A file that becomes shorter while its points travel.
for delay in 0.05 0.1 0.2 0.3 0.5; do
    cp x.f32 s.f32
    (sleep "$delay" && truncate -s 3200000 s.f32) &
    cutter=$!
    run fit s.f32 --features 8 -k 2..12 --n-init 4 --target cuda -q
    wait "$cutter"
    expect "cut after $delay s: status $status" [ "$status" -le 1 ]
    [ "$status" = 0 ] || expect "cut after $delay s: no sentence" said 'became shorter'
done
echo "$hits of $kills killed, a run takes $took_ms ms"
report
