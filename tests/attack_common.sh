# SPDX-License-Identifier: MIT
# Shared by the attacks: a folder of their own, counting, and the short or the whole form (KMGEN_TEST_ALL=1).
# Usage of each: attack_NAME.sh KMGEN SOURCE_ROOT
# shellcheck shell=bash disable=SC2034
set -uo pipefail
kmgen=$(realpath "$1") source_root=$(realpath "$2")
iris=$source_root/tests/data/iris.csv
all=${KMGEN_TEST_ALL:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/kmgen-attack.XXXXXX")
mounted=()
finish() {
    local point
    for point in "${mounted[@]}"; do umount "$point" 2>/dev/null; done
    rm -rf "$work"
}
trap finish EXIT
cd "$work" || exit 1
export XDG_DATA_HOME=$work/data
export KMGEN_CACHE_DIR=$work/cache CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-}" LC_ALL=C OMP_NUM_THREADS=2
checks=0 wrong=0

# One check; MESSAGE is said when the command fails.
expect() { # MESSAGE COMMAND...
    local message=$1
    shift
    checks=$((checks + 1))
    "$@" && return
    wrong=$((wrong + 1))
    printf 'not ok: %s\n' "$message"
    [ -s stderr ] && sed 's/^/    stderr: /' stderr | head -n 3
    return 0
}
not() { ! "$@"; }
# Runs kmgen; its status is in $status, what it says in stdout and stderr.
run() {
    "$kmgen" "$@" >stdout 2>stderr </dev/null
    status=$?
}
run_ok() { # WHAT ARGUMENTS...
    local what=$1
    shift
    run "$@"
    expect "$what: exit status $status" [ "$status" = 0 ]
}
said() { grep -qE -- "$1" stderr; }
# One warning that is not about the choice of K.
warned_once() { [ "$(grep warning stderr | grep -vc 'criteria prefer')" = 1 ]; }
# No file that kmgen makes for a while is left in these folders.
nothing_left() {
    [ -z "$(find "$@" -name '.kmgen-*' -o -name '*.tmp' -o -name '*.lock')" ]
}
# Waits until a command succeeds: what it waits for comes after any time, on a busy machine too. Five minutes without it
# are a fault of its own.
await() { # COMMAND...
    local i
    for ((i = 0; i < 6000; i++)); do
        "$@" && return
        sleep 0.05
    done
    return 1
}
# Locks a file, until `let_go`.
hold() { # FILE
    (exec 9>>"$1" && flock 9 && touch held && await [ -e let_go ]) &
    holder=$!
    await [ -e held ]
}
let_go() {
    touch let_go
    wait "$holder"
    rm held let_go
}
report() {
    echo "$checks checks, $wrong wrong"
    [ "$wrong" = 0 ]
}
# Points as raw floats: FILE N D.
points() {
    python3 -c '
import array, random, sys
random.seed(1)
n, d = int(sys.argv[2]), int(sys.argv[3])
block = array.array("f", (random.gauss((i // d) % 7, 0.5) for i in range(min(n, 50000) * d)))
with open(sys.argv[1], "wb") as f:
    while n > 0:
        block[:min(n, 50000) * d].tofile(f)
        n -= 50000' "$1" "$2" "$3"
}
