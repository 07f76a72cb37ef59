#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kmgen-mpi on several processes: what one process finds, to the last bit; one file of labels; one sentence where a rank
# fails, and an end within seconds where one is killed. Usage: ranks_mpi.sh KMGEN SOURCE_ROOT [KMGEN_MPI]
mpirun=${KMGEN_MPIRUN:-mpirun}
[ -n "${3:-}" ] && command -v "$mpirun" >/dev/null || exit 77 # built without MPI
kmgen_mpi=$(realpath "$3")
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
export CUDA_VISIBLE_DEVICES='' OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMP_NUM_THREADS
launch=("$mpirun")
"$mpirun" --version | grep -q 'Open MPI' && launch+=(--oversubscribe --bind-to none)
# 200,011 points of 4 features: four shares of 65,536, the last not whole.
python3 - <<'PYTHON'
import array, random
random.seed(5)
centres = [[random.gauss(0, 6) for _ in range(4)] for _ in range(5)]
values = array.array("f")
for _ in range(200011):
    values.extend(c + random.gauss(0, 1) for c in random.choice(centres))
open("x.f32", "wb").write(values.tobytes())
open("w.f64", "wb").write(array.array("d", (random.choice((0, 0.5, 1, 2)) for _ in range(200011))).tobytes())
def text(name, first, count, end, quoted, bad=None):
    """Rows first.. of the points, with quoted words, blank lines, and no newline at the end."""
    words = ('w', '"a\n,b"', '"\n""c"') if quoted else ("w", "v")
    with open(name, "w", newline="") as out:
        out.write("word,x,y,z,t" + end)
        for i in range(first, first + count):
            if i == bad:
                out.write("w,1,2,oops,4" + end)
            row = ",".join(f"{v:.4g}" for v in values[4 * i:4 * i + 4])
            out.write(f"{words[i % len(words)]},{row}" + (end if i + 1 < first + count else ""))
            if i % 1000 == 7:
                out.write(end + " " + end)
text("x.csv", 0, 200011, "\n", True)
text("part-0.csv", 0, 90000, "\r\n", False)
text("part-1.csv", 90000, 110011, "\n", True)
text("bad.csv", 0, 200011, "\n", True, 150000)
text("few.csv", 0, 40, "\n", False)
values[4 * 150000 + 2] = float("nan")
open("bad.f32", "wb").write(values.tobytes())
PYTHON
fit=(fit --features 4 -k '2..5' --n-init 2 --max-iter 10)

ranks() { # N ARGUMENTS...
    local count=$1
    shift
    timeout 100 "${launch[@]}" -n "$count" "$kmgen_mpi" "$@" >stdout 2>stderr </dev/null
    status=$?
}
# The processes of a run, by name: its files are in this folder.
find_ranks() {
    local process
    victims=()
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe" 2>/dev/null)" = "$kmgen_mpi" ] || continue
        [ "$(readlink "$process/cwd" 2>/dev/null)" = "$work" ] && victims+=("${process#/proc/}")
    done
}
digest() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["digest"])' "$1"; }
says_once() { [ "$(grep -c "$1" stderr)" = 1 ]; }

# The same as one process that goes through the points in order.
compare() { # NAME DATA OPTIONS...
    local name=$1 count threads
    shift
    run "${fit[@]}" "$@" --target cpu --algorithm lloyd --json one.json --labels one.npy --model one.model
    expect "$name: one process" [ "$status" = 0 ]
    for count in "${counts[@]}"; do
        for threads in 1 3; do
            case $all$count-$threads in # the short form: two ranks of three threads, three of one
                2-1 | 3-3) continue ;;
            esac
            rm -f many.*
            ranks "$count" "${fit[@]}" "$@" --threads "$threads" --json many.json --labels many.npy --model many.model
            expect "$name: $count ranks of $threads threads" [ "$status" = 0 ]
            expect "$name: $count ranks, another digest" [ "$(digest one.json)" = "$(digest many.json)" ]
            expect "$name: $count ranks, other labels" cmp -s one.npy many.npy
            expect "$name: $count ranks, another model" cmp -s one.model many.model
            expect "$name: $count ranks: one table" [ "$(grep -c '^ *best' stdout)" -le 1 ]
        done
    done
}
counts=(2 3)
[ -n "$all" ] && counts=(1 2 3 7)
compare plain x.f32
head -c 1600016 x.f32 >part-0.f32
tail -c +1600017 x.f32 >part-1.f32
compare files 'part-?.f32'
compare weights x.f32 --weights w.f64 --labels-of all
[ -n "$all" ] && compare cosine x.f32 --metric cosine
binary=("${fit[@]}")
fit=(fit -k '2..5' --n-init 2 --max-iter 10)
compare text x.csv
compare 'texts' 'part-?.csv' --one-hot word
compare 'few lines' few.csv
fit=("${binary[@]}")

# A fit that ranks began goes on alone, and the other way round: the digest is that of one that was never ended.
long=(fit --features 4 -k 2..5 --n-init 30 --max-iter 10 x.f32 --set concurrent_restarts=1)
run "${long[@]}" --target cpu --algorithm lloyd --json one.json
has_begun() { [ -s runs.kept ] || not kill -0 "$1"; } # that run, which keeps the runs of its fit
# Until some runs are in the file.
ended() { # COMMAND... -- OPTIONS...
    local command=()
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    "${command[@]}" "${long[@]}" "$@" --checkpoint runs.kept --checkpoint-every 0 --json never.json \
        >stdout 2>stderr </dev/null &
    local id=$!
    await has_begun "$id"
    kill -INT "$id"
    wait "$id"
    grep -q '"interrupted": true' never.json || echo "it was done before" # then all runs are in the file
}
ended "${launch[@]}" -n 2 "$kmgen_mpi" --
run "${long[@]}" --target cpu --algorithm lloyd --resume runs.kept --json two.json
expect 'what ranks began goes on alone' [ "$status" = 0 ]
expect 'what ranks began: another digest' [ "$(digest one.json)" = "$(digest two.json)" ]
rm -f runs.kept never.json
ended "$kmgen" -- --target cpu --algorithm lloyd
ranks 3 "${long[@]}" --resume runs.kept --json three.json
expect 'what one process began goes on by ranks' [ "$status" = 0 ]
expect 'what one process began: another digest' [ "$(digest one.json)" = "$(digest three.json)" ]
ranks 2 "${long[@]}" --seed 1 --resume runs.kept
expect 'the checkpoint of another fit: one sentence' says_once 'runs.kept is the checkpoint of another fit'

# A signal to any rank, or to the launcher, stops all with a result, whose labels are those of its models. mpirun of
# Open MPI ends ranks itself at SIGINT and SIGTERM, a second later; SIGUSR1 it hands on.
stopped() { # SIGNAL STATUS WHOM
    local id
    rm -f runs.kept many.*
    "${launch[@]}" -n 3 "$kmgen_mpi" "${long[@]/#30/300}" --checkpoint runs.kept --checkpoint-every 0 \
        --json many.json --labels many.npy --model many.model >stdout 2>stderr </dev/null &
    id=$!
    await has_begun "$id"
    find_ranks
    if [ "$3" = launcher ]; then
        kill "-$1" "$id"
    else
        kill "-$1" "${victims[RANDOM % ${#victims[@]}]}"
    fi
    wait "$id"
    status=$?
    [ "$3$status" = launcher0 ] && [ "${#launch[@]}" = 1 ] && status=$2 # MPICH loses the ranks' own now and then
    expect "SIG$1 to the $3: exit status $status" [ "$status" = "$2" ]
    expect "SIG$1 to the $3: a result that says so" grep -q '"interrupted": true' many.json
    expect "SIG$1 to the $3: one warning says so" says_once 'the fit was interrupted'
    run predict many.model x.f32 --labels again.npy
    expect "SIG$1 to the $3: labels of its model" cmp -s again.npy many.npy
}
stopped TERM 143 rank
stopped INT 130 rank
stopped USR1 138 launcher
[ "${#launch[@]}" -gt 1 ] || stopped TERM 143 launcher

# One sentence names the rank and the cause; nothing is written.
rm -f many.*
ranks 3 "${fit[@]}" bad.f32 --json many.json
expect 'a bad row: exit status' [ "$status" = 1 ]
expect 'a bad row: one sentence, by rank and row' says_once 'rank 1 of 3: .*row 150001, column 3: the value is missing'
expect 'a bad row: nothing is written' [ ! -e many.json ]
run fit -k 2 bad.csv
line=$(grep -o 'row [0-9]*' stderr)
ranks 3 fit -k 2 bad.csv --json many.json
expect 'a bad line: exit status' [ "$status" = 1 ]
expect 'a bad line: one sentence, by rank and line' \
    says_once "rank [12] of 3: bad.csv: $line, column 4 (z): \"oops\" is no number"
expect 'a bad line: nothing is written' [ ! -e many.json ]
ranks 3 "${fit[@]}" none.f32
expect 'no file: one sentence' says_once 'none.f32'
ranks 2 "${fit[@]}" x.f32 -o t.csv
expect 'usage: exit status' [ "$status" = 2 ]
expect 'usage: one sentence' says_once 'several ranks write no --output'
ranks 2 "${fit[@]}" x.f32 --algorithm tiles
expect 'an algorithm that ranks do not have: one sentence' says_once 'several ranks: their algorithm is lloyd'
ranks 2 predict m.json x.f32
expect 'another subcommand is refused' says_once "several ranks do 'fit' alone"

# A rank that is killed at any moment ends all, soon; labels are the old or the new ones, whole.
kills=2
[ -n "$all" ] && kills=50
many=(fit --features 4 -k 2..8 --n-init 10 x.f32 --labels killed.npy --threads 1 --json killed.json)
begin=$(date +%s%N)
ranks 3 "${many[@]}"
took_ms=$((($(date +%s%N) - begin) / 1000000))
expect 'before the kills: done' [ "$status" = 0 ]
cp killed.npy whole.npy
for ((k = 0; k < kills; k++)); do
    "${launch[@]}" -n 3 "$kmgen_mpi" "${many[@]}" >stdout 2>stderr </dev/null &
    id=$!
    wait_ms=$((RANDOM % (took_ms + 1)))
    sleep "$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))"
    find_ranks
    killed=
    [ ${#victims[@]} -gt 0 ] && kill -9 "${victims[RANDOM % ${#victims[@]}]}" 2>/dev/null && killed=1
    for ((waited = 0; waited < 300; waited++)); do
        kill -0 "$id" 2>/dev/null || break
        sleep .1
    done
    expect "kill $k after $wait_ms ms: all end within 30 s" not kill -0 "$id" 2>/dev/null
    kill -9 "$id" 2>/dev/null
    wait "$id" 2>/dev/null
    status=$?
    [ -z "$killed" ] || [ "$status" = 0 ] ||
        expect "kill $k: the launcher says so" grep -qiE 'signal:? 9|rank [0-9]+' stdout stderr
    expect "kill $k: labels are whole" cmp -s killed.npy whole.npy
done
ranks 3 "${many[@]}"
expect 'after the kills: done' [ "$status" = 0 ]
expect 'after the kills: nothing is left' [ -z "$(find . -name '.kmgen-*')" ]
report
