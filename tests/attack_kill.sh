#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kill -9 at many moments: each output is the old or the new one, whole; nothing stale is left beside it; the next run
# is right. Usage: attack_kill.sh KMGEN SOURCE_ROOT
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
"$kmgen" info | grep -q '^cairo .*none' && exit 77 # a picture is one of the outputs
export CUDA_VISIBLE_DEVICES=
kills=6 # of each design
[ -n "$all" ] && kills=40
mkdir out cache
outputs=(--json out/r.json --model out/m.json --labels out/l.npy --centroids out/c.npy --plot out/p.svg
    --report out/r.html)
points x.f32 "$([ -n "$all" ] && echo 40000 || echo 15000)" 4
fit=(fit x.f32 --features 4 -k 2..8 --target cpu -q)

whole() { # each output that is there
    python3 - <<'PYTHON'
import ast, json, os, struct, sys
for name in ("r.json", "m.json"):
    if os.path.exists("out/" + name):
        json.load(open("out/" + name))
for name in ("l.npy", "c.npy"):
    if not os.path.exists("out/" + name):
        continue
    data = open("out/" + name, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    count = 1
    for n in head["shape"]:
        count *= n
    assert len(data) == 10 + size + count * int(head["descr"][2:]), name
if os.path.exists("out/p.svg"):
    assert open("out/p.svg").read().rstrip().endswith("</svg>")
PYTHON
}
only_outputs() { ! find out -mindepth 1 | grep -qvE '/(r.json|m.json|l.npy|c.npy|p.svg|r.html)$'; }
models() { python3 -c 'import json; print(json.dumps(json.load(open("out/r.json"))["models"]))'; }

no_compilers() { # that write into this cache; the brackets are there so that grep does not find itself
    ! grep -qsz "$work/[c]ache/" /proc/[0-9]*/cmdline
}

# Kills one run after so many milliseconds; 1: it was done before.
kill_after() { # MS ARGUMENTS...
    local ms=$1
    shift
    "$kmgen" "$@" >stdout 2>stderr &
    local id=$!
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    kill -9 "$id" 2>/dev/null
    wait "$id" 2>/dev/null
    [ $? = 137 ]
}

for design in prebuilt lanes; do
    arguments=("${fit[@]}" "${outputs[@]}" --set "design=$design")
    rm -rf out/* cache/*
    before=$(date +%s%N)
    run_ok "$design" "${arguments[@]}"
    took_ms=$((($(date +%s%N) - before) / 1000000 + 1))
    expected=$(models)
    hits=0
    for ((i = 0; i < kills; i++)); do
        if [ $((i % 3)) = 0 ]; then rm -f out/*; fi
        [ "$design" = lanes ] && [ $((i % 2)) = 0 ] && rm -f cache/*.bin
        # Half of them near the end, where files are written.
        ms=$((took_ms * (70 + 50 * i / kills) / 100))
        if [ $((i % 2)) = 0 ]; then ms=$((took_ms * (i + 1) / kills)); fi
        kill_after "$ms" "${arguments[@]}" && hits=$((hits + 1))
        expect "$design, killed after $ms ms of $took_ms: an output is not whole" whole
        expect "$design, killed after $ms ms: left $(find out -name '.*' -o -name '*.tmp' | head -n 1)" only_outputs
    done
    # A machine may be several times as fast as it was in the run that was timed.
    for ((ms = took_ms / 3; hits == 0 && ms > 0; ms /= 2)); do
        rm -f cache/*.bin
        kill_after "$ms" "${arguments[@]}" && hits=$((hits + 1))
        expect "$design, killed after $ms ms of $took_ms ms: an output is not whole" whole
    done
    expect "$design: no run was killed in time" [ "$hits" -gt 0 ]
    await no_compilers # that lost their parents
    rm -f cache/*.bin
    run_ok "$design: after all kills" "${arguments[@]}"
    expect "$design: after all kills: another result" [ "$(models)" = "$expected" ]
    expect "$design: something stale is left in the cache" nothing_left cache out
    echo "$design: $hits of $kills killed, a run takes $took_ms ms"
done
# A probe of outputs, killed before the job: still nothing.
rm -rf out/*
kill_after 30 "${fit[@]}" "${outputs[@]}" --n-init 200
expect "a probe left something" only_outputs
report
