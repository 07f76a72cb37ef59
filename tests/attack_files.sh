#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Inputs and outputs that turn bad: full disks, links, modes, stale names, files that become shorter, input without
# an end, a compiler's silence. Usage: attack_files.sh KMGEN SOURCE_ROOT
# shellcheck source=tests/attack_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/attack_common.sh"
"$kmgen" info | grep -q '^cairo .*none' && exit 77 # a picture is one of the outputs
export CUDA_VISIBLE_DEVICES=
outputs="--json --model --labels --centroids --plot --report"
name_of() {
    case $1 in
        --plot) echo p.svg ;;
        --labels | --centroids) echo "${1#--}.npy" ;;
        *) echo "${1#--}.out" ;;
    esac
}
fit=(fit "$iris" -k 2..4 --target cpu -q)
mkdir out

# A full disk is called so, by every output.
if [ -c /dev/full ]; then
    for option in --json --labels --centroids --model --report; do
        run "${fit[@]}" "$option" /dev/full
        expect "$option on a full device: status $status" [ "$status" = 1 ]
        expect "$option on a full device has no reason" said 'No space left on device'
    done
    "$kmgen" "${fit[@]}" --json - >/dev/full 2>stderr
    expect "a full standard output has no reason" said 'No space left on device'
    "$kmgen" fit "$iris" -k 2 --target cpu >/dev/full 2>stderr
    expect "a full standard output (table) has no reason" said 'No space left on device'
fi
mkdir small
if mount -t tmpfs -o size=16k kmgen small 2>/dev/null; then
    mounted+=("$PWD/small")
    head -c 16384 /dev/zero >small/filler
    for option in $outputs; do
        file=small/$(name_of "$option")
        run "${fit[@]}" "$option" "$file"
        expect "$option on a full disk: status $status" [ "$status" = 1 ]
        expect "$option on a full disk has no reason" said 'No space left on device'
        expect "$option on a full disk left a file" [ ! -e "$file" ]
        expect "something is left on the full disk" nothing_left small
    done
    # Rows that threads put to their places: the pages are asked for first.
    mount -o remount,size=3m small
    head -c 4800000 /dev/zero >zeros.f32
    run fit zeros.f32 --features 1 -k 1 --target cpu -q --labels small/rows.npy
    expect "rows on a full disk: status $status" [ "$status" = 1 ]
    expect "rows on a full disk have no reason" said 'No space left on device'
    expect "rows on a full disk left a file" [ ! -e small/rows.npy ]
    expect "something of rows is left on the full disk" nothing_left small
else
    echo "mounting is not permitted here: no full disk"
fi

# Names as other versions and other processes of this number would leave them are no obstacle, and ours go.
for id in 1 $$; do touch "out/p.svg.$id.tmp"; done
touch out/.kmgen-0123456789ab
run_ok "stale names" "${fit[@]}" --plot out/p.svg
expect "a stale temporary file is left" [ ! -e out/.kmgen-0123456789ab ]
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    touch out/q.svg.1.tmp out/q.svg.2.tmp
    unshare --pid --fork --mount-proc "$kmgen" "${fit[@]}" --plot out/q.svg >/dev/null 2>stderr
    expect "process 1 trips over a stale name" [ -s out/q.svg ]
fi
# One that is being written is not taken for stale.
hold out/.kmgen-ba9876543210
run_ok "beside another writer" "${fit[@]}" --json out/r.json
expect "another writer's file was swept" [ -e out/.kmgen-ba9876543210 ]
let_go
rm -f out/.kmgen-* out/*.tmp

# Links are followed and stay; modes are kept.
mkdir far
echo old >far/real.json
ln -s far/real.json link.json
ln -s link.json twice.json
ln -s far/new.json dangling.json
ln -s loop.json loop.json
chmod 600 far/real.json
run_ok "a link" "${fit[@]}" --json twice.json
expect "the link is no link any more" [ -L twice.json ]
expect "the second link is no link any more" [ -L link.json ]
expect "the target is stale" grep -q inertia far/real.json
expect "the mode was changed" [ "$(stat -c %a far/real.json)" = 600 ]
run_ok "a link to nothing" "${fit[@]}" --json dangling.json
expect "the target was not made" grep -q inertia far/new.json
expect "the link to nothing is no link any more" [ -L dangling.json ]
run "${fit[@]}" --json loop.json
expect "a loop of links is no failure" [ "$status" = 1 ]
for mode in 640 664 600 444; do
    echo old >"m$mode.npy" && chmod "$mode" "m$mode.npy"
    run_ok "mode $mode" "${fit[@]}" --labels "m$mode.npy"
    expect "mode $mode was changed" [ "$(stat -c %a "m$mode.npy")" = "$mode" ]
done
(umask 027 && "$kmgen" "${fit[@]}" --json new.json >stdout 2>stderr)
expect "a new file does not follow the umask" [ "$(stat -c %a new.json)" = 640 ]
if [ "$(id -u)" = 0 ]; then
    echo old >owned && chown 12345:23456 owned && chmod 660 owned
    run_ok "another's file" "${fit[@]}" --json owned
    expect "the owner was changed" [ "$(stat -c %u:%g:%a owned)" = 12345:23456:660 ]
fi
# What has no place of its own is written in place.
run_ok "/dev/null" "${fit[@]}" --json /dev/null
expect "/dev/null was replaced" [ -c /dev/null ]
mkfifo pipe && (cat pipe >piped) &
reader=$!
until [ -p pipe ]; do sleep 0.02; done
run_ok "a named pipe" "${fit[@]}" --json pipe
wait "$reader"
expect "nothing came through the pipe" grep -q inertia piped
# In a name space of its own, so that a wrong program does not replace the machine's /dev/stdout.
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount -t tmpfs kmgen /dev && ln -s /proc/self/fd /dev/fd && mknod -m 666 /dev/null c 1 3 &&
        ln -s /proc/self/fd/1 /dev/stdout && "$@" >redirected && test -L /dev/stdout' sh \
        "$kmgen" "${fit[@]}" --json /dev/stdout 2>stderr
    expect "/dev/stdout was replaced" [ $? = 0 ]
    expect "nothing came to /dev/stdout" grep -q inertia redirected
fi
expect "something is left" nothing_left .

# A file that becomes shorter: the right result, or a sentence; never a signal, never a result of zeros.
shrink() { # WHAT DELAY FILE ARGUMENTS...
    local what=$1 delay=$2 file=$3 size
    shift 3
    cp whole "$file"
    size=$(stat -c %s "$file")
    (sleep "$delay" && truncate -s $((size / 64 / 64 * 64)) "$file") &
    local cutter=$!
    run "$@"
    wait "$cutter"
    case $status in
        0) ;; # before or after its time
        1) expect "$what, cut after $delay s: no sentence" \
            said 'became shorter|changed while it was read|cut short|is no multiple|is empty' ;;
        *) expect "$what, cut after $delay s: status $status" false ;;
    esac
    [ "$status" = 1 ] && cuts=$((cuts + 1))
}
cuts=0
points whole "$([ -n "$all" ] && echo 2000000 || echo 300000)" 4
delays="0.02 0.05 0.1"
[ -n "$all" ] && delays="0.01 0.02 0.03 0.05 0.08 0.1 0.15 0.2 0.3 0.4 0.5 0.7 1 1.5 2"
for delay in $delays; do
    shrink "a fit" "$delay" s.f32 fit s.f32 --features 4 -k 2..12 --target cpu -q --set design=prebuilt --json s.json
done
run_ok "a model" fit whole --format f32 --features 4 -k 5 --target cpu -q --model m.json
for delay in 0.01 $delays; do
    shrink "predict" "$delay" s.f32 predict m.json s.f32 --format f32 --features 4 --labels l.npy
done
expect "no file was cut in time" [ "$cuts" -gt 0 ]

# Memory ends before the input does: at once, not never.
if [ -c /dev/zero ]; then
    endless() { # WHAT COMMAND...
        local what=$1
        shift
        (ulimit -v 1000000 && exec timeout 120 "$@") >stdout 2>stderr </dev/zero
        status=$?
        expect "$what: status $status" [ "$status" = 1 ]
        expect "$what: no reason" said 'no memory|at most|larger than|less than'
    }
    endless "standard input without an end" "$kmgen" fit - --format f32 --features 4 -k 2
    endless "a device without an end" "$kmgen" fit /dev/zero --format f64 --features 4 -k 2
    endless "a model without an end" "$kmgen" predict /dev/zero "$iris"
    endless "predicting points without an end" "$kmgen" predict m.json - --format f32 --features 4
    endless "a spec without an end" "$kmgen" explain /dev/zero
    endless "a source without an end" "$kmgen" fit "$iris" -k 2 --source /dev/zero
fi
report
