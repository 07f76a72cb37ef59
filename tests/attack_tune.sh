#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tuning beside a compiler that refuses, breaks, or hangs some of the candidates, killed, stopped, out of time, and with
# a table that is none. Usage: attack_tune.sh KMGEN SOURCE_ROOT
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
export CUDA_VISIBLE_DEVICES=
mkdir cache
export VECTOR_CC=$source_root/tests/vector_cc.sh KMGEN_TEST_CACHE=$work
tables=$XDG_DATA_HOME/kmgen/tuning

# Candidates of TILE 2 end their process, 3 are refused, 5 (with 8 vectors) hang, 6 give wrong labels.
cat >cc.sh <<'END'
#!/bin/bash
for file in "$@"; do case $file in *.c) source=$file ;; esac; done
[ -n "${source:-}" ] || exec cc "$@"
number() { sed -nE "s/^ *$1 = ([0-9]+),.*/\1/p" "$source" | head -n 1; }
edited=$(mktemp --suffix=.c)
trap 'rm -f "$edited"' EXIT
cp "$source" "$edited"
case $(number TILE)-$(number VECTORS) in
    "${REFUSE:-}"-*) echo "error: refused too" >&2; exit 1 ;;
    2-*) echo '__attribute__((constructor)) static void end(void) { __builtin_trap(); }' >>"$edited" ;;
    3-*) echo "error: this one is refused" >&2; exit 1 ;;
    5-8) echo 'unsigned sleep(unsigned);' \
        '__attribute__((constructor)) static void hang(void) { for (;;) sleep(9); }' >>"$edited" ;;
    6-*) sed -i 's/_CMP_GT_OQ/_CMP_LT_OQ/; s/\ba > b\b/a < b/' "$edited" ;;
esac
arguments=()
for argument in "$@"; do [ "$argument" = "$source" ] && argument=$edited; arguments+=("$argument"); done
"$VECTOR_CC" cc -O0 "${arguments[@]}" # no time is looked at
END
chmod +x cc.sh
shape=(--features 3 --clusters 2..5 --target cpu:avx2 --points 20000 --set design=lanes)
grep -qw avx2 /proc/cpuinfo || exit 77
tune=(tune "${shape[@]}" --compiler "$work/cc.sh" -q)
lines() { wc -l <"$tables"/*.journal; }
measured() { [ -s "$(echo "$tables"/*.journal)" ] && [ "$(lines)" -ge "$1" ]; } # LINES: so many, or more
no_workers() { # of those that were started here
    python3 - <<'PYTHON'
import glob, os, sys
mine = ("XDG_DATA_HOME=" + os.environ["XDG_DATA_HOME"]).encode()
for folder in glob.glob("/proc/[0-9]*"):
    try:
        command = open(folder + "/cmdline", "rb").read().split(b"\0")
        if b"--worker" in command and mine in open(folder + "/environ", "rb").read().split(b"\0"):
            sys.exit(1)
    except OSError:
        pass
PYTHON
}
outcomes() { # of the candidates with this tile and these vectors (any: -)
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
tile, vectors = sys.argv[1:]
found = {c["outcome"] for c in json.load(open("r.json"))["candidates"]
         if c["plan"]["tile_clusters"] == int(tile) and vectors in ("-", str(c["plan"]["vectors"]))}
print(" ".join(sorted(found)))
PYTHON
}

# Killed in its midst: what was written down is whole, its processes end, and the next run goes on.
"$kmgen" "${tune[@]}" >/dev/null 2>&1 &
process=$!
await measured 3
"$kmgen" "${tune[@]}" >stdout 2>stderr
expect "a second tuning is refused" [ $? = 2 ]
expect "it says why" said 'another tuning measures on this device'
kill -9 $process
wait $process 2>/dev/null
expect "no worker outlives a tuning that is killed" await no_workers
known=$(lines)
expect "it had measured some" [ "$known" -ge 3 ]

run "${tune[@]}" --budget 1s --json r.json
expect "out of time is no error" [ "$status" = 0 ]
run_ok "the rest" "${tune[@]}" --json r.json
expect "nothing is measured twice" [ "$(sort "$tables"/*.journal | uniq -d | wc -l)" = 0 ]
expect "measured: $(outcomes 4 -)" [ "$(outcomes 4 -)" = measured ]
expect "ended: $(outcomes 2 -)" [ "$(outcomes 2 -)" = failed ]
expect "refused: $(outcomes 3 -)" [ "$(outcomes 3 -)" = refused ]
expect "hung: $(outcomes 5 8)" [ "$(outcomes 5 8)" = hung ]
expect "wrong: $(outcomes 6 -)" [ "$(outcomes 6 -)" = wrong ]
expect "no worker is left" await no_workers
expect "no entry where numbers were fixed" not test -e "$tables"/*.yaml

# Nothing fixed, for one instruction set, until there is a table: a busy machine takes longer for it.
tune_whole() { # ISA
    local seconds
    for seconds in 1 3 6 12 24 48 96; do
        run_ok "another shape, $1" tune spec.yaml --target "cpu:$1" --points 20000 --compiler "$work/cc.sh" \
            --budget "${seconds}s" -q
        compgen -G "$tables/*_$1.yaml" >/dev/null && return
    done
}

# All is known: the next run only compares with the default.
known=$(lines)
run_ok "again" "${tune[@]}"
expect "nothing was measured again" [ "$(lines)" = "$known" ]
printf 'features: 3\nclusters: 3..4\ntarget: cpu\n' >spec.yaml
tune_whole avx2
expect "the table has the shape" grep -q 'clusters: 3..4' "$tables"/*.yaml
# The table is of the instruction set that was tuned, whatever this processor has.
table=$(echo "$tables"/*.yaml)
expect "the table is named by the instruction set: $table" [ "$(echo "$table" | grep -c '_avx2[.]yaml$')" = 1 ]
expect "and says it" grep -qx 'target: cpu:avx2' "$table"
run explain spec.yaml --target cpu:avx2 --device -n 20000
expect "explain --device names the table" grep -q "$tables" stdout
# What a table has of the shape, stale or not, is measured next to the default: it was the fastest once.
cp "$table" kept.yaml
sed -i 's/plan: .*/plan: {design: lanes, tile_clusters: 8, vectors: 2}/' "$table"
sed -i 's/templates: .*/templates: "0000000000000000"/' "$table"
for seconds in 1 3 6 12 24 48 96; do
    run_ok "with a table" tune spec.yaml --target cpu:avx2 --points 20000 --compiler "$work/cc.sh" --fresh -q \
        --budget "${seconds}s"
    second=$(python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
mine = [line for line in lines if line["key"] == lines[-1]["key"] and line["outcome"] == "measured"]
print([line["plan"] for line in mine[1:2]])' "$tables"/*.journal)
    [ "$second" != "[]" ] && break
done
expect "its plan is measured second: $second" grep -q "'tile_clusters': 8, 'vectors': 2" <<<"$second"
mv kept.yaml "$table"
grep -qw avx512vl /proc/cpuinfo && {
    run explain spec.yaml --target cpu:avx512 --device -n 20000
    expect "another instruction set is not planned by it" not grep -q "$tables" stdout
    tune_whole avx512
    expect "each has a table of its own" grep -qx 'target: cpu:avx512' "$tables"/*_avx512.yaml
    expect "the first is as it was" grep -qx 'target: cpu:avx2' "$table"
    run explain spec.yaml --target cpu:avx512 --device -n 20000
    expect "explain --device names the second" grep -q "_avx512[.]yaml" stdout
    rm "$tables"/*_avx512.yaml
}

# A default that the compiler refuses is passed over, as a fit does: the next one is what others are compared with.
REFUSE=1 run_ok "the default is refused" "${tune[@]}" --set vectors=4 --cache-dir "$work/empty" --json refused.json
expect "the next is the default" python3 -c 'import json; r = json.load(open("refused.json")); c = r["candidates"]
assert min(c, key=lambda x: x["predicted_ms"])["outcome"] == "refused"
assert c[r["default"]] == min((x for x in c if x["outcome"] == "measured"), key=lambda x: x["predicted_ms"])'

# Stopped by Ctrl-C: what was found is written, and the signal ends the program.
rm -rf "$tables"
"$kmgen" "${tune[@]}" --json stopped.json >/dev/null 2>&1 &
process=$!
await measured 2
kill -TERM $process
wait $process
expect "a signal ends it: $?" [ $? != 1 ]
expect "what was found is written" python3 -c 'import json; assert json.load(open("stopped.json"))["stopped"]'
expect "no worker outlives the signal" await no_workers

# Where its folder cannot be made, a table that is named elsewhere is enough.
echo >file
unmade() {
    XDG_DATA_HOME=$work/file/none run tune spec.yaml --target cpu:avx2 --points 20000 --compiler "$work/cc.sh" "$@"
}
unmade -q
expect "without a folder nothing is measured" [ "$status" = 1 ]
expect "the way out is named" said 'cannot make the folder .*--output'
for seconds in 1 3 6 12 24 48 96; do
    unmade --budget "${seconds}s" --output named.yaml
    [ -s named.yaml ] && break
done
expect "a table that is named is written" grep -q 'clusters: 3..4' named.yaml
expect "and what is lost is said" said 'warning: tune: nothing is kept for a later run: '

# A table that is none is left alone, and nothing is measured.
known=$(lines)
table=$(echo "$tables"/*.journal | sed 's/[.]journal$/_avx2.yaml/')
for text in 'kmgen tuning: 1' 'kmgen tuning: 7' '{' ''; do
    echo "$text" >"$table"
    run "${tune[@]}"
    expect "a table that is none is refused: $text" [ "$status" = 1 ]
    expect "its file and line are named" said 'yaml:[0-9]+:[0-9]+: '
    expect "it is left as it was" grep -qxF -- "$text" "$table"
done
expect "nothing was measured" [ "$(lines)" = "$known" ]
rm "$table"
mkdir "$table"
run "${tune[@]}"
expect "a folder in the table's place is refused" [ "$status" = 1 ]
expect "before anything is measured" [ "$(lines)" = "$known" ]
rmdir "$table"
mkfifo "$table"
timeout -k 1 120 "$kmgen" explain spec.yaml --target cpu:avx2 --device -n 20000 >stdout 2>stderr
expect "a pipe in the table's place keeps nobody waiting" [ $? = 0 ]
expect "and is named" said 'avx2[.]yaml is no file'
rm "$table"
printf 'kmgen tuning: 1\nentries: []\n\0{' >"$table"
"$kmgen" explain spec.yaml --target cpu:avx2 --device -n 20000 >stdout 2>stderr
expect "a table with a zero byte is no text, which a warning says" said 'avx2[.]yaml is no text: .*not used'
rm "$table"
truncate -s 2M "$table"
run "${tune[@]}"
expect "a table that is too large is refused, not replaced" [ "$status$(stat -c %s "$table")" = 12097152 ]

# A worker that has no memory for a candidate says so, and goes on.
cat >questions <<'END'
{"do":"open","spec":"features: 40\nclusters: 3..4\ntarget: cpu\n","device":-1,"points":30000,"threads":1}
{"do":"measure","samples":1,"plan":{"design":"prebuilt"}}
{"do":"measure","samples":1,"plan":{"design":"prebuilt"}}
END
died=0 short=0
step=6000
[ -n "$all" ] && step=3000
for kib in $(seq 60000 $step 150000); do
    (ulimit -v "$kib" && OMP_NUM_THREADS=1 exec "$kmgen" tune --worker <questions) >stdout 2>stderr
    [ $? -lt 128 ] || died=$((died + 1))
    [ "$(grep -c '"outcome":"memory"' stdout)" = 2 ] && short=$((short + 1))
done
expect "$died workers died for want of memory" [ "$died" = 0 ]
expect "some had too little" [ "$short" -ge 1 ]
report
