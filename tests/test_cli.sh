#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The program as a person meets it: exit statuses, messages, what stands on which stream, and which files are
# there afterwards. Usage: test_cli.sh GROUP KMGEN SOURCE_ROOT [BUILD_ROOT]
# shellcheck disable=SC2012
set -uo pipefail
group=$1 kmgen=$(realpath "$2") source_root=$(realpath "$3") build_root=$(realpath "${4:-.}")
iris=$source_root/tests/data/iris.csv
faithful=$source_root/tests/data/faithful.csv
sparse=$source_root/tests/data/sparse
work=$(mktemp -d "${TMPDIR:-/tmp}/kmgen-cli.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/in" "$work/out" "$work/cache"
cd "$work/out" || exit 1
export KMGEN_CACHE_DIR=$work/cache XDG_DATA_HOME=$work/data CUDA_VISIBLE_DEVICES='' LC_ALL=C
unset NO_COLOR
checks=0 wrong=0 exit_status=0 what=
built_with() { "$kmgen" info | grep -E "^$1 " | grep -qv none; } # PART
picture=()
if built_with cairo; then picture=(--plot p.svg); fi

refuse() {
    wrong=$((wrong + 1))
    printf 'not ok: %s\n    %s\n' "$what" "$1"
    sed 's/^/    stdout: /' "$work/stdout" | head -n 5
    sed 's/^/    stderr: /' "$work/stderr" | head -n 5
}

# Runs kmgen and expects its exit status. Sets $what for the checks that follow.
run() { # STATUS ARGUMENTS...
    local expected=$1
    shift
    what="kmgen $*"
    checks=$((checks + 1))
    "$kmgen" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
    exit_status=$?
    [ "$exit_status" = "$expected" ] || refuse "exit status $exit_status, expected $expected"
}
run_on() { # STDIN-FILE STATUS ARGUMENTS...
    local input=$1 expected=$2
    shift 2
    what="kmgen $* <$input"
    checks=$((checks + 1))
    "$kmgen" "$@" >"$work/stdout" 2>"$work/stderr" <"$input"
    exit_status=$?
    [ "$exit_status" = "$expected" ] || refuse "exit status $exit_status, expected $expected"
}
expect() { # MESSAGE COMMAND...
    local message=$1
    shift
    checks=$((checks + 1))
    "$@" || refuse "$message"
}
in_stderr() { expect "no /$1/ on standard error" grep -qE -- "$1" "$work/stderr"; }
in_stdout() { expect "no /$1/ on standard output" grep -qE -- "$1" "$work/stdout"; }
silent_stdout() { expect "standard output is not empty" test ! -s "$work/stdout"; }
silent_stderr() { expect "standard error is not empty" test ! -s "$work/stderr"; }
one_line_error() { # one sentence, and no more
    expect "standard error is not one line" test "$(wc -l <"$work/stderr")" = 1
    silent_stdout
}
holds_files() { # exactly these are in the current folder
    expect "files are $(ls -A | tr '\n' ' ')instead of $*" test "$(ls -A | sort | tr '\n' ' ')" = \
        "$(printf '%s\n' "$@" | sort | tr '\n' ' ' | sed 's/^ $//')"
}
there() { ls -- "$@" >/dev/null 2>&1; }
no_files() { expect "files are left: $(ls -A | tr '\n' ' ')" test -z "$(ls -A)"; }
# shellcheck disable=SC2059
file() { printf "$2" >"$work/in/$1"; } # NAME CONTENT-AS-PRINTF-FORMAT
python() { python3 -c "$@"; }
blobs() { # FILE.f32 N D: round clusters without numpy
    python '
import array, random, sys
random.seed(1)
n, d = int(sys.argv[2]), int(sys.argv[3])
a = array.array("f", (random.gauss((i // d) % 7, 0.5) for i in range(n * d)))
a.tofile(open(sys.argv[1], "wb"))' "$1" "$2" "$3"
}
npy() { # FILE DESCR SHAPE: a version 1.0 file that claims this, with 64 bytes of values
    python '
import struct, sys
h = sys.argv[2].encode()
h += b" " * (-(len(h) + 11) % 64) + b"\n"
b = b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h + bytes(64)
open(sys.argv[1], "wb").write(b)' "$1" "{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
}

usage() {
    run 2
    in_stderr 'subcommand'
    run 0 --help
    in_stdout 'kmgen fit DATA.csv -k 2..10'
    silent_stderr
    run 0 --version
    in_stdout '^kmgen [0-9]+\.[0-9]+\.[0-9]+$'
    for command in emit explain fit predict score explore info cache help version; do
        run 0 "$command" --help
        in_stdout "^Usage: kmgen $command"
        run 0 help "$command"
    done
    # Every option that the help names is known: what is wrong with these is never the option itself, in silence.
    for command in emit explain fit predict score explore info cache; do
        for option in $("$kmgen" $command --help | grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--.*'); do
            [ "$option" = --help ] && continue
            what="kmgen $command $option"
            "$kmgen" "$command" "$option" 1 none none none none >"$work/stdout" 2>"$work/stderr"
            expect "$option is refused in silence" test -s "$work/stderr"
            expect "$option is unknown" test -z "$(grep -E 'unknown option' "$work/stderr")"
        done
    done
    run 2 fti
    in_stderr "did you mean 'fit'"
    run 2 help exlpain
    in_stderr "did you mean 'explain'"
    run 2 "$iris"
    in_stderr "kmgen fit $iris"
    run 2 fit "$iris" --modle x
    in_stderr 'unknown option --modle; did you mean --model\?'
    run 2 fit "$iris" --lab x
    in_stderr '--lab may mean --labels, --labels-of'
    run 2 fit "$iris" -x
    in_stderr 'unknown option -x'
    run 2 fit "$iris" --json
    in_stderr '--json needs a value'
    run 2 fit "$iris" --quiet=yes
    in_stderr '--quiet takes no value'
    run 2 fit
    in_stderr 'DATA is missing'
    run 2 predict a b c
    in_stderr "unexpected argument 'c'"
    run 2 fit spec.yaml
    in_stderr 'SPEC.yaml DATA'
    run 2 fit "$iris" spec.yaml
    in_stderr 'stands first'
    run 2 predict model.json
    in_stderr 'DATA is missing'
    run 2 fit "$iris" -k 5..2
    run 2 fit "$iris" -k 0
    run 2 fit "$iris" -k two
    in_stderr '^kmgen fit: -k'
    run 2 fit "$iris" -k 99999999999999999999
    for option in --n-init --max-iter --threads; do
        for value in 0 -1 x 1e3 99999999999999999999999; do
            run 2 fit "$iris" $option $value
            in_stderr "$option must be a whole number"
        done
    done
    for value in -1 x autos 1e3 1000000001; do
        run 2 fit "$iris" --refine "$value"
        in_stderr '--refine must be'
    done
    for value in -1 nan inf x; do
        run 2 fit "$iris" --tol $value
        in_stderr '--tol must be a number'
    done
    run 2 fit "$iris" --seed -3
    run 2 fit "$iris" --type f16
    in_stderr 'f32 or f64'
    run 2 fit "$iris" --scale standart
    in_stderr 'did you mean standard\?'
    run 2 fit "$iris" --criterion calinski
    in_stderr 'calinski_harabasz, davies_bouldin'
    run 0 fit --criterion list
    in_stdout '^auto$'
    in_stdout '^krzanowski_lai$'
    run 2 fit "$iris" --gap-references 1
    in_stderr '--gap-references must be'
    run 2 fit "$iris" --gap-box round
    in_stderr 'uniform, principal'
    run 2 fit "$iris" --target gpu
    in_stderr 'cuda'
    run 2 fit "$iris" --plot picture.gif
    in_stderr '\.svg, \.png or \.pdf'
    run 2 fit "$iris" --labels-of all
    in_stderr 'needs --labels'
    run 2 fit missing.csv --id name --labels l.npy
    in_stderr '--id needs --labels FILE.csv'
    # Nothing is passed over in silence, and what is wrong is said before the data, which do not exist, are read.
    for option in --columns --seed --tol --json --model --labels --centroids --report --weights --cache-dir \
        --init -k; do
        run 2 fit missing.csv $option 3 $option 3
        in_stderr 'is given twice'
        run 2 fit missing.csv $option ''
        in_stderr "needs a value, got ''"
    done
    run 2 fit missing.csv --plot a.svg --plot b.eps # all are obeyed, and looked at
    in_stderr "got 'b.eps'"
    run 2 fit missing.csv --plot a.svg --plot ./a.svg
    in_stderr '--plot and --plot both write to ./a.svg'
    # No help is wider than 80 columns, nor what a terminal of 80 gets.
    for name in emit explain fit predict score explore data tune info cache completion help version; do
        run 0 $name --help
        expect "lines of more than 80 columns" test -z "$(grep -E '.{81}' "$work/stdout")"
    done
    run 0 help
    expect "lines of more than 80 columns" test -z "$(grep -E '.{81}' "$work/stdout")"
    for name in small wide many; do
        what="explain $name"
        COLUMNS=80 "$kmgen" explain "$source_root/specs/$name.yaml" >"$work/stdout" 2>"$work/stderr"
        expect "lines of more than 80 columns" test -z "$(grep -E '.{81}' "$work/stdout")"
        "$kmgen" explain "$source_root/specs/$name.yaml" >"$work/whole" 2>"$work/stderr"
        expect "other words" cmp -s <(tr -s ' \n' '\n' <"$work/stdout") <(tr -s ' \n' '\n' <"$work/whole")
    done
    what='votes in 80 columns'
    COLUMNS=80 "$kmgen" fit "$iris" -k 2..12 -v >"$work/stdout" 2>"$work/stderr"
    expect "lines of more than 80 columns" test -z "$(grep -E '.{81}' "$work/stdout")"
    expect "lines of -v of more than 80 columns" test -z "$(grep -v '^kmgen: ' "$work/stderr" | grep -E '.{81}')"
    for name in "explain $source_root/specs/small.yaml --device" info "data $iris" "explore $iris --choose 2 -k 3" \
        "score $iris --labels $work/in/l80.csv" "fit $iris -k 3 --dry-run"; do
        what="$name in 80 columns"
        seq 150 | sed 's/.*/&,1/; 1,75s/1$/0/; s/.*,//' >"$work/in/l80.csv"
        # shellcheck disable=SC2086
        COLUMNS=80 "$kmgen" $name >"$work/stdout" 2>"$work/stderr"
        expect "lines of more than 80 columns" test -z "$(grep -E '.{81}' "$work/stdout")"
        expect "something" test -s "$work/stdout"
    done
    # Completions come from the same tables.
    for name in bash zsh fish; do
        run 0 completion $name
        in_stdout 'labels-of'
        for option in $("$kmgen" fit --help | grep -oE -- '--[a-z-]+ ' | sort -u); do
            expect "no $option for $name" grep -qE -- "(-l |--)${option#--}" "$work/stdout"
        done
    done
    run 2 completion tcsh
    in_stderr "are for bash, zsh and fish, got 'tcsh'"
    "$kmgen" completion bash >complete.bash
    completes() { # EXPECTED WORDS...
        what="completion of ${*:2}"
        expect "completes to '$(complete_words "${@:2}")' instead of '$1'" test "$(complete_words "${@:2}")" = "$1"
    }
    complete_words() {
        # shellcheck disable=SC2016
        bash --norc -c 'source ./complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _kmgen; echo "${COMPREPLY[*]}"' - kmgen "$@" 2>/dev/null
    }
    completes fit 'fi'
    completes '--labels --labels-of' fit --lab
    completes 'best all' fit --labels-of ''
    completes 'none auto' fit x.csv --refine ''
    completes 'gap gap_2001' fit --criterion gap
    completes 'silhouette silhouette_euclidean' fit --criteria silh
    completes complete.bash fit comp
    rm complete.bash
    # Criteria by the names that people use; threads as every program of OpenMP counts them.
    run 0 fit "$iris" -k 2..5 --criterion ch --criteria db,silhouette --json -
    in_stdout '"criterion": "calinski_harabasz"'
    run 0 fit "$iris" -k 2..5 --criterion davies-bouldin --json -
    in_stdout '"criterion": "davies_bouldin"'
    what=OMP_NUM_THREADS
    # Without the line of free memory, which other programs take.
    planned() { "$kmgen" fit "$iris" --dry-run -t cpu "$@" | grep -v "^free "; }
    expect "OMP_NUM_THREADS is not obeyed" cmp -s <(OMP_NUM_THREADS=3,1 planned) <(planned --threads 3)
    expect "--threads does not win" cmp -s <(OMP_NUM_THREADS=3 planned --threads 5) <(planned --threads 5)
    run 2 predict model.json missing.csv --labels a.npy --labels b.npy
    in_stderr '--labels is given twice'
    run 2 emit missing.yaml -o a -o b
    in_stderr '--output is given twice'
    run 2 explain missing.yaml -t cpu --target cuda
    in_stderr '--target is given twice'
    run 2 fit missing.csv --set block=2 --set tile=3 --set block=4
    in_stderr '--set block=2 and --set block=4 fix the same number'
    run 2 fit missing.csv --set team=2 --set grid=3 --set lanes_per_point=4 # one number by its name of before
    in_stderr '--set team=2 and --set lanes_per_point=4 fix the same number'
    run 1 fit missing.csv --set block=64 --set concurrent_restarts=3 -v -v # two numbers
    run 2 fit missing.csv --set algorithm=elkan --algorithm elkan
    in_stderr 'say the same'
    run 2 fit missing.csv --init "$faithful" --n-init 5
    in_stderr 'means one restart; leave --n-init 5 out'
    printf 'name: own\nn_init: 10\n' >"$work/in/restarts.yaml"
    run 2 fit "$work/in/restarts.yaml" missing.csv --init "$faithful"
    in_stderr 'restarts.yaml asks for 10; add --n-init 1'
    run 1 fit "$work/in/restarts.yaml" missing.csv --init "$faithful" --n-init 1 # the way out
    run 1 fit "$work/in/restarts.yaml" missing.csv --init random --n-init 5
    run 2 fit missing.csv --init kmeans++
    in_stderr 'did you mean k-means\+\+\?'
    for name in table.parquet labels l.npy.gz .npy; do # refused before the data are looked for
        for option in --labels --centroids; do
            run 2 fit missing.csv $option $name
            in_stderr "$option writes .npy, .csv or .tsv, as the file's name says; got '$name'"
        done
        run 2 fit missing.csv --output $name
        in_stderr "--output writes .csv or .tsv, as the file's name says; got '$name'"
    done
    run 0 fit "$iris" -k 2 --labels /dev/null --centroids c.NPY
    rm c.NPY
    run 2 fit missing.csv --labels-of best
    in_stderr 'needs --labels'
    # Each format of the help is taken, and no other.
    run 2 fit missing --format xls
    local formats
    formats=$(sed -n 's/.*--format must be one of \(.*\), got .*/\1/p' "$work/stderr")
    run 0 fit --help
    expect "the help has other formats than $formats" grep -qF "${formats%, *} or ${formats##*, }; default" \
        <(tr -s ' \n' ' ' <"$work/stdout")
    for name in ${formats//,/}; do
        run 1 fit missing --format "$name"
        in_stderr 'cannot read missing: No such file'
    done
    run 2 fit missing.csv --features 4
    in_stderr 'missing.csv is csv'
    run 2 fit - --features 4
    in_stderr 'add --format f32, f64 or svmlight'
    run 2 fit missing.npz --features 4
    in_stderr 'missing.npz is npz, which says how many columns it has'
    run 2 fit missing.csv --base 0
    in_stderr '--base is for svmlight, and missing.csv is csv'
    run 2 fit - --base 0
    in_stderr 'add --format svmlight'
    run 2 fit missing.svm --base 2
    in_stderr '--base must be a whole number 0..1'
    run 2 predict model.json missing.npy --features 4
    in_stderr 'missing.npy is npy'
    for name in missing.npy missing.f32 missing.svm missing.npz missing.mtx; do
        run 2 fit $name --header yes
        in_stderr '--header is for text'
    done
    run 2 fit - --format csv --init -
    in_stderr 'data and --init cannot both be standard input'
    run 2 fit - --format csv --weights -
    in_stderr 'data and --weights cannot both be standard input'
    run 2 fit "$iris" --json - --labels -
    in_stderr 'both write to standard output'
    run 2 fit "$iris" --json same --model same
    in_stderr 'both write to same'
    cp "$iris" "$work/in/own.csv"
    run 2 fit "$work/in/own.csv" --json "$work/in/own.csv"
    in_stderr 'would overwrite'
    expect "the data are changed" cmp -s "$iris" "$work/in/own.csv"
    run_on "$work/in/own.csv" 2 fit - --format csv -k 3 --json "$work/in/own.csv"
    in_stderr 'would overwrite'
    expect "the data are changed by way of standard input" cmp -s "$iris" "$work/in/own.csv"
    ln -s "$work/in/there" "$work/in/link" && ln -s . "$work/in/here"
    run 2 fit "$iris" --json "$work/in/there" --model "$work/in/link"
    in_stderr 'both write to'
    run 2 fit "$iris" --json "$work/in/here/there" --model "$work/in/link"
    in_stderr 'both write to'
    rm "$work/in/link" "$work/in/here"
    # Each refusal names what was given, and what to give.
    local small=$source_root/specs/small.yaml
    refused() { # PATTERN ARGUMENTS...
        run 2 "${@:2}"
        in_stderr "$1"
    }
    refused '--holdout 1 leaves no row' explore "$iris" --choose 2 --outcome species --holdout 1
    refused '--checkpoint-every needs --checkpoint' fit "$iris" -k 2 --checkpoint-every 5
    refused '--checkpoint-every must be a number' fit "$iris" -k 2 --checkpoint x --checkpoint-every five
    refused 'standard input cannot be one of several files' fit "$iris" - -k 2
    refused '--output writes one file' fit "$iris" "$iris" -k 2 --output x.csv
    refused 'name specs, or shapes' tune
    refused '--features needs --clusters' tune --features 4
    refused '--features is a list of numbers' tune --features 4,x --clusters 2..3
    refused 'leave --features out' tune "$small" --features 4 --clusters 2..3
    refused '--plot writes .svg' tune --features 4 --clusters 2..3 --plot x.png
    refused 'give one of them' fit "$iris" -k 2 --weights "$iris" --weights-column 1
    refused '--seed must be a whole number' fit "$iris" -k 2 --seed x
    refused '--tol must be a number of at least 0' fit "$iris" -k 2 --tol -1
    refused '--tol is given twice' fit "$iris" -k 2 --tol 1 --tol 2
    refused 'cuda:N, N a device' fit "$iris" -k 2 --target cuda:99999999999
    refused 'each a device' fit "$iris" -k 2 --target cuda:0,x
    refused 'the data are missing: kmgen fit SPEC.yaml DATA' fit "$small"
    refused 'refine must be auto, none or a number' fit "$iris" -k 2 --refine sometimes
    refused 'layout must be auto, dense or csr' fit "$iris" -k 2 --layout wide
    run 2 fit "$iris" --set block
    in_stderr 'NAME=VALUE'
    run 2 fit "$iris" --set blokc=3
    in_stderr 'block'
    no_files
}

emit() {
    local spec=$source_root/specs/small.yaml
    run 0 "$spec"
    silent_stdout
    in_stderr 'design'
    name=small.cu
    holds_files small.cu small.h
    file auto.yaml 'name: small\nfeatures: 4\nclusters: 3..5\ntarget: auto\n'
    run 0 emit "$work/in/auto.yaml" -o -
    expect "target: auto is not CUDA C" cmp -s "$work/stdout" "$name"
    run 0 emit "$spec" -o -
    expect "-o - differs from the file" cmp -s "$work/stdout" "$name"
    run 0 -o - "$spec"
    expect "-o - before the spec differs" cmp -s "$work/stdout" "$name"
    run 0 -q "$spec"
    silent_stderr
    rm -f -- *
    run 1 emit "$spec" -o missing
    in_stderr 'missing is no folder'
    mkdir there
    run 0 emit "$spec" -o there --target cpu --type f64
    expect "no C file" there there/*.c
    rm -r there
    run 1 missing.yaml
    in_stderr 'missing.yaml'
    one_line_error
    file bad.yaml 'name: bad\nclusterz: 3\n'
    run 1 "$work/in/bad.yaml"
    in_stderr 'bad.yaml:2:1: .*clusters'
    file empty.yaml ''
    run 1 "$work/in/empty.yaml"
    one_line_error
    run 0 explain "$spec"
    in_stdout 'design'
    in_stdout '^target: cuda:sm_90$'
    silent_stderr
    run 0 explain "$spec" --device
    in_stdout '^design +(lanes|gemm|prebuilt), [a-z]+ +registers$'
    in_stdout '^target: cpu:'
    in_stdout '^target: cuda:'
    silent_stderr
    run 0 explain "$spec" --points 33554432
    run 0 explain "$spec" --target cpu --device
    run 2 explain "$spec" --points 0
    run 2 explain "$iris"
    in_stderr "is a table by its name, and 'explain' takes a spec; 'kmgen fit $iris --dry-run' shows the plan"
    run 2 emit "$iris"
    in_stderr "'emit' takes a spec"
    run 0 fit "$iris" --dry-run # the way out
    run 1 explain "$spec" --target cuda --device
    one_line_error
    no_files
}

fit() {
    run 0 fit "$iris" -k 2..10 --seed 7
    in_stdout '(^| )10 '
    expect "colour without a terminal" test -z "$(grep -l $'\033' "$work/stdout")"
    no_files
    run 0 fit "$iris" -k 2..10 --seed 7 --json - "${picture[@]}" --model m.json --labels l.npy --centroids c.npy
    holds_files c.npy l.npy m.json ${picture:+p.svg}
    expect "standard output is no JSON with models 2..10" python '
import json, sys
r = json.load(open(sys.argv[1]))
assert [m["k"] for m in r["models"]] == list(range(2, 11)), r["models"]
assert r["n"] == 150 and r["d"] == 4 and r["seed"] == 7 and r["n_init"] == 10
assert set(r) >= {"kmgen", "n", "d", "type", "target", "device", "seed", "n_init", "passes", "timing_ms", "models",
                  "best", "warnings"}, set(r)
assert set(r["timing_ms"]) >= {"parse", "read", "build", "seed", "sweep", "finish", "total"}
assert abs(r["models"][0]["inertia"] - 152.347951760358) < 1e-3
assert all(sum(m["sizes"]) == 150 and len(m["centroids"]) == m["k"] for m in r["models"])
assert r["best"]["k"] in range(2, 11) and "calinski_harabasz" in r["best"]["votes"]' "$work/stdout"
    cp "$work/stdout" "$work/first.json"
    run 0 fit "$iris" -k 2..10 --seed 7 --json - -q
    silent_stderr
    expect "the same seed gives another result" python '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
for r in (a, b): del r["timing_ms"], r["digest"] # of the labels, too, where they are kept
assert a == b' "$work/stdout" "$work/first.json"
    run 0 fit "$iris" -k 2..10 --seed 7 --threads 1 --json - -q
    expect "one thread gives another result" python '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["models"] == b["models"] and a["best"] == b["best"]' "$work/stdout" "$work/first.json"
    run 0 predict m.json "$iris" --labels again.npy
    expect "predict of the training data gives other labels" cmp -s l.npy again.npy
    run 0 predict m.json "$iris"
    expect "not one label a row" test "$(grep -cE '^[0-9]+$' "$work/stdout")" = 150
    rm -f -- *
    run 0 fit "$iris" -k 3,5 --labels all.npy --labels-of all --json r.json
    in_stdout 'alinski'
    expect "labels of all K have another shape" grep -aq "'shape': (150, 2)" all.npy
    rm -f -- *
    # Several files are one table, columns by their names; a pattern in quotes finds them.
    head -101 "$iris" >part-1.csv
    awk -F, -v OFS=, 'NR == 1 || NR > 101 { print $2, $1, $3, $4 }' "$iris" >part-2.csv
    for data in "$iris" "part-1.csv part-2.csv" 'part-?.csv'; do
        set -f
        # shellcheck disable=SC2086
        run 0 fit $data -k 2..4 --json - -q
        set +f
        python 'import json, sys; print(json.load(sys.stdin)["digest"])' <"$work/stdout" >>digests
    done
    expect "several files give another digest than one" test "$(sort -u digests | wc -l)" = 1
    run 2 fit part-1.csv part-2.csv -k 2 --output both.csv
    in_stderr '^kmgen fit: --output writes one file'
    run 2 fit 'none-*.csv' -k 2
    in_stderr 'none-\*.csv: no file has such a name'
    printf '1,2,3\n4,5,7\n' >wide.csv
    printf '1,2\n4,5\n' >narrow.csv
    run 1 fit wide.csv narrow.csv -k 2
    in_stderr '^kmgen: narrow.csv has 2 columns'
    rm -f -- *
    run_on "$iris" 0 fit - -k 2..4 --format csv
    run 0 fit "$iris" -k 2..4 --columns petal_length,4 --type f64 --scale standard --n-init 3 --max-iter 50 --tol 0 -v
    in_stderr '^fit: all K and restarts swept in'
    # shellcheck disable=SC2016 # awk's
    expect "the phases do not add up to the whole" awk '/ ms +[0-9]+%/ { if ($1 == "whole") whole = $2; else sum += $2 }
        END { exit !(whole > 0 && sum > whole - 1 && sum < whole + 1) }' "$work/stderr"
    run 0 fit "$iris" -k 3 --min-changes 5 --init random --criterion davies_bouldin
    run 0 fit "$iris" -k 1..4 --criteria gap --gap-box principal --gap-references 3 -v --json gap.json
    in_stdout 'best K = 2: the largest that two criteria or more prefer'
    expect "the gap has standard errors" grep -q '"gap": 0' gap.json
    # Points without clusters: the sentence first, the files all the same, and exit 0.
    awk 'BEGIN { srand(1); for (i = 0; i < 900; i++) print rand() "," rand() }' >uniform.csv
    run 0 fit uniform.csv -k 2..5 --model m.json --labels l.npy --json r.json
    in_stdout '^no clusters: no valley of lower density'
    in_stdout '^best K of the list = '
    in_stderr 'one cluster \(K = 1\) describes them no worse'
    expect "no clusters in JSON and model" test "$(cat m.json r.json | grep -c '"clustered": false')" = 2
    expect "labels of the best of the list" test -s l.npy
    rm -f -- *
    run 0 fit "$iris" --n-init 2
    in_stdout '^[^0-9]*20 '
    run 0 fit "$iris" -k 2..12 --n-init 1 --json -
    expect "refinement is in the JSON" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["refine"] == "auto" and r["refine_passes"] > 0 and r["timing_ms"]["refine"] > 0
assert any(m["refined"] and m["inertia"] < m["best_restart_inertia"] for m in r["models"])
assert all(a["inertia"] >= b["inertia"] for a, b in zip(r["models"], r["models"][1:]))' "$work/stdout"
    run 0 fit "$iris" -k 2..12 --n-init 1 --refine none --json -
    expect "none leaves it out" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["refine"] == "none" and r["refine_passes"] == 0
assert not any(m["refined"] or m["at_rest"] for m in r["models"])' "$work/stdout"
    printf 'name: own\nmax_iter: 1\ntol: 0\n' >"$work/in/max_iter.yaml"
    run 0 fit "$work/in/max_iter.yaml" "$iris" -k 5..6 --n-init 1 --refine none --json -
    expect "max_iter and tol of the spec" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["max_iter"] == 1 and r["tol"] == 0
assert all(m["n_iter"] == 1 and not m["converged"] for m in r["models"])' "$work/stdout"
    run 0 fit "$work/in/max_iter.yaml" "$iris" -k 5..6 --n-init 1 --refine none --max-iter 200 --tol 0.5 --json -
    expect "options have the last word" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["max_iter"] == 200 and r["tol"] == 0.5 and all(m["converged"] for m in r["models"])' "$work/stdout"
    printf 'name: own\nrefine: 3\n' >"$work/in/refine.yaml"
    run 0 fit "$work/in/refine.yaml" "$iris" -k 2..5 --json -
    expect "a spec may say it" python 'import json, sys
assert json.load(open(sys.argv[1]))["refine"] == 3' "$work/stdout"
    run 0 fit "$work/in/refine.yaml" "$iris" -k 2..5 --refine auto --json -
    expect "the option goes first" python 'import json, sys
assert json.load(open(sys.argv[1]))["refine"] == "auto"' "$work/stdout"
    run 0 fit "$iris" -k 2..5 --dry-run
    in_stdout 'design'
    in_stdout '^design +prebuilt, [a-z]+ +tiled$'
    run 0 fit "$iris" -k 2..5 --dry-run -t cpu
    expect "a target that was given stands beside another" test -z "$(grep multiprocessors "$work/stdout")"
    in_stdout '^a whole fit, at one time'
    # More than any machine holds, in a file that takes no disk: need and limit are shown, then refused, as by the fit.
    truncate -s 4T "$work/in/huge.f32" || exit 77
    run 1 fit "$work/in/huge.f32" --features 32 -k 2..3 -t cpu --dry-run
    in_stdout '^free .* does not fit$'
    in_stderr 'points of 32 features do not fit: a fit on cpu.* needs .* are free: a sample of [0-9]* points fits$'
    run 1 fit "$work/in/huge.f32" --features 32 -k 2..3 -t cpu --labels l.npy
    one_line_error
    rm "$work/in/huge.f32"
    no_files
    in_bound() { "$kmgen" fit "$iris" -k 2..5 -t cpu -v "$@" 2>/dev/null | grep ^digest; }
    expect "a bound on the memory changes the result" test "$(in_bound --memory-max 1.5G)" = "$(in_bound)"
    run 1 fit "$iris" -k 2..5 -t cpu --memory-max 10M --labels l.npy
    in_stderr 'needs .* are free.*\(--memory-max is 10\.0 MiB; --scratch FOLDER takes'
    one_line_error
    run 1 fit "$iris" -k 2..5 -t cpu --memory-max 10M --dry-run
    in_stdout '^memory of a fit by purpose, on the host:$'
    in_stdout '^  points +[0-9.]+ KiB$'
    in_stdout '^free .* does not fit$'
    for size in 0 x 4Q 4GB -1 ''; do run 2 fit "$iris" -k 2..5 --memory-max "$size"; done
    no_files
    head -n 6 "$iris" >"$work/in/init.csv"
    run 0 fit "$iris" -k 2..5 --init "$work/in/init.csv" --json -
    expect "an init file means one restart" python 'import json, sys
assert json.load(open(sys.argv[1]))["n_init"] == 1' "$work/stdout"
    head -n 4 "$iris" >"$work/in/init.csv"
    run 1 fit "$iris" -k 2..5 --init "$work/in/init.csv"
    one_line_error
    run 1 fit "$iris" -k 2..5 --init "$faithful"
    in_stderr 'lacks 4 of the 4 columns that are needed'
    tail -n 5 "$faithful" >"$work/in/init.csv"
    run 1 fit "$iris" -k 2..5 --init "$work/in/init.csv"
    in_stderr 'has 2 columns, .* has 4'
    # Names decide there too: the same first centroids in another order of columns.
    awk -F, -v OFS=, 'NR < 4 { print $4, $1, $3, $2 }' "$iris" >"$work/in/init.csv"
    run 0 fit "$iris" -k 2 --init "$work/in/init.csv" --labels a.npy
    head -n 3 "$iris" >"$work/in/init.csv"
    run 0 fit "$iris" -k 2 --init "$work/in/init.csv" --labels b.npy
    expect "first centroids go by position" cmp -s a.npy b.npy
    rm -f -- *
    run 1 fit "$iris" -k 2..5 --init missing.npy
    one_line_error
    gzip -c "$iris" >"$work/in/iris.csv.gz"
    if built_with zlib; then
        run 0 fit "$work/in/iris.csv.gz" -k 2..3
    else
        run 1 fit "$work/in/iris.csv.gz" -k 2..3
        one_line_error
        in_stderr 'built without zlib; unpack it with gunzip'
    fi
    for table in from0.svm from1.svm general.mtx csr.npz csc.npz; do
        if ! built_with libarchive && [[ $table == *.npz ]]; then
            run 1 fit "$sparse/$table" -k 2
            one_line_error
            in_stderr 'built without libarchive; save one array'
            continue
        fi
        run 0 fit "$sparse/$table" -k 2 --labels "$table.npy" --n-init 3
        expect "$table has other points" cmp -s "$table.npy" from0.svm.npy
        # What indices count from is assumed in a line, unless it is said.
        case $table in
            from0.svm) in_stderr 'indices count from 0, as one is 0' ;;
            from1.svm) in_stderr 'indices count from 1, as none is 0' ;;
            *) expect "something is assumed of $table" test -z "$(grep 'indices count' "$work/stderr")" ;;
        esac
    done
    for base in 0 1; do
        run 0 fit "$sparse/from$base.svm" -k 2 --base $base
        expect "what is said is assumed" test -z "$(grep 'indices count' "$work/stderr")"
    done
    run 1 fit "$sparse/from0.svm" -k 2 --base 1
    one_line_error
    in_stderr 'row 1 has index 0, and indices count from 1; let them count from 0: --base 0'
    run 1 fit "$sparse/from0.svm" -k 2 --features 4
    one_line_error
    in_stderr 'correct --features'
    # Both sides of the switch, by the share of nonzeros.
    printf 'features: 100\nclusters: 2..12\ntarget: cpu:avx2\n' >sides.yaml
    while read -r layout density design; do
        run 0 explain sides.yaml --points 1000000 --density "$density"
        in_stdout "layout $layout: "
        run 0 emit sides.yaml -o - --target cuda:sm_90 --density "$density"
        in_stderr "design $design"
    done <<'END'
csr 0.005 sparse_warps
dense 0.95 tensor
END
    run 2 emit sides.yaml -o - --density 2
    run 0 score "$sparse/from1.svm" --labels "$sparse/from1.svm"
    in_stdout '^5 points, 5 features, 4 clusters; 1 row without a label'
    rm -f -- *
    if ! built_with cairo; then
        run 2 fit missing.csv --plot p.svg
        in_stderr 'built without cairo; .*, or leave --plot out'
    fi
    # What is opened when it is first needed may be gone then: all else goes on.
    mkdir "$work/gone"
    sed -n 's/^#define .* "\(.*\)"$/\1/p' "$build_root/library_files.h" >"$work/libraries"
    while read -r library; do : >"$work/gone/$library"; done <"$work/libraries"
    printf '\375\067zXZ\000\000' >points.csv.xz
    printf '\211HDF\r\n\032\n' >points.h5
    export LD_LIBRARY_PATH=$work/gone
    run 0 fit "$iris" -k 2
    while read -r library; do
        case $library in
            libcairo*)
                run 2 fit missing.csv --plot p.svg
                in_stderr "^kmgen fit: --plot needs cairo: cairo .*; install it .*, or leave --plot out"
                name=cairo
                ;;
            libarchive*) run 1 fit points.csv.xz -k 2 && name=libarchive ;;
            *) run 1 fit points.h5 -k 2 && name=HDF5 ;;
        esac
        in_stderr "$name is not there [(].*$library.*[)]; install it [(]Debian's package lib"
        run 0 info
        in_stdout "^$name +none: no .*$name is not there"
    done <"$work/libraries"
    unset LD_LIBRARY_PATH
    rm -f points.csv.xz points.h5
    run 0 fit "$iris" -k 2..3 --threads 3
    if built_with OpenMP; then
        expect "threads are missed" test -z "$(grep OpenMP "$work/stderr")"
    else
        in_stderr 'one instead of 3: .* without OpenMP'
    fi
    printf 'name: own\nclusters: 2..4\nn_init: 3\ntype: float64\n' >"$work/in/own.yaml"
    run 0 fit "$work/in/own.yaml" "$iris" --json -
    expect "the spec does not count" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["n_init"] == 3 and r["type"] == "float64" and len(r["models"]) == 3' "$work/stdout"
    run 0 fit "$work/in/own.yaml" "$iris" -k 5 --n-init 4 --json -
    expect "options do not win over the spec" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["n_init"] == 4 and [m["k"] for m in r["models"]] == [5]' "$work/stdout"
    no_files
}

# What a terminal would obey never comes from a name: of a column, a file, a folder, a cell, an argument.
plain() {
    local escape=$'\033[31m' bell=$'\a' wide=$'\302\233'"2J"
    local name="${escape}red${bell}${wide}"
    local controls='[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]'
    no_controls() {
        expect "control characters on standard error" test -z "$(grep -aP "$controls" "$work/stderr")"
        expect "control characters on standard output" test -z "$(grep -aP "$controls" "$work/stdout")"
    }
    printf 'a,%s\n1,2\n3,oops\n5,6\n' "$name" >"$work/in/$name.csv"
    run 1 fit "$work/in/$name.csv" -k 2
    in_stderr 'column 2 .*red'
    no_controls
    printf 'a,%s\n1,2\n3,4\n5,9\n7,nan\n' "$name" >"$work/in/$name.csv"
    run 1 fit "$work/in/$name.csv" -k 2
    no_controls
    run 0 fit "$work/in/$name.csv" -k 2 --nan drop -vv --model "$name.json" --json -
    no_controls
    expect "the name is not in the JSON as it is" python '
import json, sys
names = json.load(open(sys.argv[1]))["feature_names"]
assert names == ["a", sys.argv[2]], names' "$work/stdout" "$name"
    run 0 predict "$name.json" "$work/in/$name.csv" --nan drop
    no_controls
    run 2 fit "$work/in/$name.csv" -k 2 --columns "$name$name"
    no_controls
    printf 'a,b\n1,2\n' >"$work/in/other.csv"
    run 1 predict "$name.json" "$work/in/other.csv"
    in_stderr 'red'
    no_controls
    rm -f -- *
    for argument in "--$name" "--format=$name" "--type=$name" "--plot=$name" "--set=$name" "-k$name"; do
        run 2 fit "$iris" "$argument"
        no_controls
    done
    for argument in "$name" "help $name"; do
        # shellcheck disable=SC2086
        run 2 $argument
        no_controls
    done
    run 1 fit "$iris" -k 2 --json "$name/x.json"
    no_controls
    run 1 emit "$source_root/specs/small.yaml" -o "$name"
    no_controls
    printf 'name: x\nclust%s: 3\n' "$name" >"$work/in/own.yaml"
    run 1 emit "$work/in/own.yaml"
    no_controls
    run 0 cache --cache-dir "$name"
    no_controls
    run 0 info --cache-dir "$name"
    no_controls
    no_files
}

# Colour and a progress line on a terminal only, and no colour with NO_COLOR or on a dumb one.
terminal() {
    command -v script >/dev/null || exit 77
    on_terminal() { # KMGEN'S ARGUMENTS: standard output and error of a run whose both are a terminal
        what="$* on a terminal"
        script -qec "$*" /dev/null </dev/null >"$work/stdout" 2>"$work/stderr"
        expect "fails" test $? = 0
    }
    blobs "$work/in/blobs.f32" "$([ -n "${KMGEN_TEST_SAMPLE:-}" ] && echo 2000 || echo 8000)" 4
    local job="'$kmgen' fit '$work/in/blobs.f32' --features 4 -k 2..12 --target cpu"
    export TERM=xterm
    on_terminal "$job"
    in_stdout $'\033\\[1;32m\\*'
    in_stdout $'\r\033\\[K(build|read|seed|sweep)'
    on_terminal "'$kmgen' explore '$work/in/blobs.f32' --features 4 --choose 1..4 -k 8 --n-init 100 --threads 1"
    in_stdout $'\r\033\\[Kexplore [0-9]+ of 15, [0-9.]+ s, about [0-9]+ s left'
    on_terminal "NO_COLOR=1 $job"
    expect "colour in spite of NO_COLOR" test -z "$(grep -E $'\033\\[[0-9]' "$work/stdout")"
    on_terminal "TERM=dumb $job"
    expect "escapes on a dumb terminal" test -z "$(grep $'\033' "$work/stdout")"
    on_terminal "$job --quiet"
    expect "progress in spite of --quiet" test -z "$(grep $'\033\\[K' "$work/stdout")"
    no_files
}

# A model finds its columns by their names, in any table that has them, or refuses the table.
names() {
    same() { # ARGUMENTS of predict: the labels of the fit come out
        run 0 predict m.json "$@" --labels p.npy
        expect "other labels" cmp -s l.npy p.npy
        rm -f p.npy
    }
    lacks() { # PATTERN TABLE...
        local pattern=$1
        shift
        run 1 predict m.json "$@" --labels p.npy
        in_stderr "$pattern"
        one_line_error
    }
    # What was made of a table's columns is made again: categories, dates, what missing values were filled in with.
    awk -F, -v OFS=, 'BEGIN { print "id,city,joined,age,active" }
        { print NR, substr("OsloLyonAix ", 1 + NR % 3 * 4, 4),
        sprintf("2024-%02d-%02d", NR % 12 + 1, NR % 28 + 1), NR % 9 ? $1 : "NA", NR % 4 ? "yes" : "no" }' \
        <(tail -n +2 "$iris") >people.csv
    run 0 data people.csv
    in_stdout '150 rows, 5 columns, of which a fit uses 1 '
    in_stdout '^\*  4 age  *number  *16  *-  *4.3  *7.9$'
    in_stdout '^   3 joined  *date  *0  *-  *2024-01-'
    run 0 data people.csv --json
    expect "other kinds" python '
import json, sys
columns = json.load(open(sys.argv[1]))["columns"]
assert [c["kind"] for c in columns] == ["id", "category", "date", "number", "yes/no"], columns
assert [c["name"] for c in columns if c["used"]] == ["age"], columns' "$work/stdout"
    run 0 fit people.csv -k 3 --columns age,joined,city,active --one-hot city --missing median -q --model m.json \
        --labels l.npy
    same people.csv
    awk -F, -v OFS=, '{ print $5, $4, $1, $3, $2 }' people.csv >turned.csv
    same turned.csv
    sed '5s/Oslo\|Lyon\|Aix/Rome/' people.csv >other.csv
    run 0 predict m.json other.csv --labels p.npy
    in_stderr '1 cells of column city are none of the model.s categories'
    run 1 predict m.json people.csv --columns 1..4
    in_stderr 'lacks 1 of the 4 columns that are needed: "active"'
    run 0 fit "$iris" -k 3 --model m.json --labels l.npy -q
    same "$iris"
    awk -F, -v OFS=, '{ print $4, $2, $1, $3 }' "$iris" >mixed.csv
    same mixed.csv
    awk -F, -v OFS=, 'NR == 1 { print "id", $3, "note", $1, "when", $4, $2; next }
        { print "n" NR, $3, "\"x, y\"", $1, "", $4, $2 }' "$iris" >wide.csv
    same wide.csv
    gzip -k wide.csv
    if built_with zlib; then same wide.csv.gz; fi
    tr , '\t' <mixed.csv >mixed.tsv
    same mixed.tsv
    run_on wide.csv 0 predict m.json - --labels p.npy
    expect "other labels from standard input" cmp -s l.npy p.npy
    same wide.csv --columns 7,6,4,2
    tail -n +2 "$iris" >none.csv
    same none.csv # by position
    sed 1s/.*/w,x,y,z/ "$iris" >other.csv
    lacks 'other.csv lacks 4 of the 4 columns .*"sepal_length", .*; it has w, x, y, z; .*--header skip' other.csv
    same other.csv --header skip # the way out
    sed '1s/sepal_width/Sepal.Width/' "$iris" >typo.csv
    lacks 'typo.csv lacks 1 of the 4 .*"sepal_width" \(is it "Sepal.Width"\?\)' typo.csv
    sed '1s/.*/SepalLength,sepal.width,petal_lenght,petalwidth/' "$iris" >typo.csv
    lacks '"sepal_length" \(is it "SepalLength"\?\), "sepal_width" \(is it "sepal.width"\?\),' typo.csv
    lacks '"petal_width" \(is it "petalwidth"\?\); it has' typo.csv
    sed '1s/.*/Sepal length (cm),width of sepals,petal-length,PW/' "$iris" >typo.csv # each name for one at most
    lacks '"sepal_length" \(is it "Sepal length \(cm\)"\?\), "sepal_width", "petal_length" \(is it' typo.csv
    lacks '"petal_length" \(is it "petal-length"\?\), "petal_width"; it has' typo.csv
    cut -d, -f1-3 "$iris" >narrow.csv
    lacks '"petal_width"; it has sepal_length, sepal_width, petal_length; add them' narrow.csv
    lacks '"petal_width"; it has sepal_length' "$iris" --columns 1..3
    awk -F, -v OFS=, '{ print $0, $2 }' "$iris" >twice.csv
    lacks 'two columns "sepal_width", 2 and 5' twice.csv
    same twice.csv --columns 1..4 # the way out
    sed '7s/,[^,]*/,oops/' "$iris" >word.csv
    lacks 'row 7, column 2 .sepal_width.: "oops" is no number; correct it, or give --na-values "oops" [a-z ]*$' word.csv
    # A fit on some columns: the table that it was fitted on is read again, and any order of them.
    run 0 fit wide.csv -k 3 --columns petal_width,sepal_length --model m.json --labels l.npy -q
    same wide.csv
    same "$iris"
    same mixed.csv --columns sepal_length,petal_width
    # Names that are numbers.
    sed 1s/.*/2019,2020,2021,2022/ "$iris" >years.csv
    run 0 fit years.csv -k 3 --header yes --model m.json --labels l.npy -q
    same years.csv
    # A model without names goes by position, and so does a table without.
    run 0 fit none.csv -k 3 --model m.json --labels l.npy -q
    same "$iris"
    rm -f -- *
    no_files
}

# One bad input: exit 1, one line that says where, nothing on standard output, no file.
bad() { # PATTERN ARGUMENTS...
    local pattern=$1
    shift
    run 1 fit "$@" --json out.json --model out.model --labels out.npy "${picture[@]}" -q
    in_stderr "$pattern"
    one_line_error
    no_files
}

bad_input() {
    bad 'no-such-file.csv: No such file' no-such-file.csv -k 2
    bad 'folder|directory' "$work/in" -k 2
    file empty.csv ''
    bad 'empty.csv.*empty' "$work/in/empty.csv" -k 2
    file header.csv 'a,b\n'
    bad 'header.csv' "$work/in/header.csv" -k 2
    file ragged.csv 'a,b\n1,2\n3,4\n5\n6,7\n'
    bad 'ragged.csv.*row 4' "$work/in/ragged.csv" -k 2
    file word.csv 'a,b\n1,2\n3,oops\n5,6\n'
    bad 'word.csv.*row 3.*column 2.*b' "$work/in/word.csv" -k 2
    file cell.csv 'a,b\n1,2\n3,\n5,6\n'
    bad 'cell.csv.*row 3.*column 2.*b' "$work/in/cell.csv" -k 2
    file id.csv 'id,x,y\nn1,1,2\nn2,3,4\nn3,5,9\nn4,7,7\n'
    bad 'id.csv.*id.*--columns' "$work/in/id.csv" -k 2 --strict
    columns=$(grep -oE -- '--columns [^ ;,]+(,[^ ;,]+)*' "$work/stderr" | head -n 1 | cut -d' ' -f2)
    run 0 fit "$work/in/id.csv" -k 2 --columns "$columns" # what the error proposes works
    run 0 fit "$work/in/id.csv" -k 2 # and so does leaving the choice to the program
    in_stderr 'id.csv: features are x, y; left out: id \(text\)$'
    file words.csv 'name,note\na,b\nc,d\n'
    bad 'words.csv has no column of numbers; make .* --one-hot name,note' "$work/in/words.csv" -k 2
    run 0 fit "$work/in/words.csv" -k 2 --one-hot name,note # what the error proposes works
    run 2 fit "$work/in/id.csv" -k 2 --missing drop --nan drop
    run 2 fit "$iris" -k 2 --decimal x
    run 2 fit missing.npy --one-hot a
    in_stderr '--one-hot is for text'
    run 2 fit "$work/in/id.csv" -k 2 --columns x,no_such
    in_stderr 'no column "no_such"; it has id, x, y'
    file nan.csv 'a,b\n1,2\n3,4\nnan,5\n6,7\n1,1\n'
    bad 'nan.csv.*row 4.*column 1' "$work/in/nan.csv" -k 2
    file inf.csv 'a,b\n1,2\n3,inf\n5,6\n'
    bad 'inf.csv.*row 3.*column 2' "$work/in/inf.csv" -k 2
    run 0 fit "$work/in/nan.csv" -k 2 --nan drop --model m.json --labels l.npy
    in_stderr '1 of 5 rows'
    run 0 predict m.json "$work/in/nan.csv" --nan drop
    expect "the dropped row has no label -1" test "$(sed -n 3p "$work/stdout")" = -1
    rm -f -- *
    python '
import array, struct
def npy(name, values, n, d):
    h = ("{\x27descr\x27: \x27<f8\x27, \x27fortran_order\x27: False, \x27shape\x27: (%d, %d), }" % (n, d)).encode()
    h += b" " * (-(len(h) + 11) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h + array.array("d", values).tobytes())
npy("../in/nan.npy", [1, 2, 3, 4, 5, float("nan"), 7, 8], 4, 2)
npy("../in/whole.npy", range(8), 4, 2)'
    bad 'nan.npy.*row 3.*column 2' "$work/in/nan.npy" -k 2
    head -c 130 "$work/in/whole.npy" >"$work/in/short.npy"
    bad 'short.npy is cut short' "$work/in/short.npy" -k 2
    head -c 9 "$work/in/whole.npy" >"$work/in/shorter.npy"
    bad 'shorter.npy' "$work/in/shorter.npy" -k 2
    npy "$work/in/huge.npy" '<f8' '(4611686018427387904, 4)'
    bad 'huge.npy.*larger than any memory' "$work/in/huge.npy" -k 2
    npy "$work/in/wide.npy" '<f8' '(99999999999999999999999, 2)'
    bad 'wide.npy.*does not fit 63 bits' "$work/in/wide.npy" -k 2
    npy "$work/in/negative.npy" '<f8' '(-4, 2)'
    bad 'negative.npy.*shape' "$work/in/negative.npy" -k 2
    npy "$work/in/object.npy" '|O' '(4, 2)'
    bad 'object.npy holds Python objects; save numbers with astype' "$work/in/object.npy" -k 2
    head -c 63 "$work/in/whole.npy" >"$work/in/odd.f32"
    run 2 fit "$work/in/odd.f32" -k 2
    in_stderr '--features'
    bad 'odd.f32' "$work/in/odd.f32" --features 4 -k 2
    file few.csv 'a,b\n1,2\n3,4\n5,9\n'
    bad '3 points' "$work/in/few.csv" -k 4..6
    run 0 fit "$work/in/few.csv" -k 2..6
    in_stderr 'warning:.*K above'
    file equal.csv 'a,b\n1,2\n1,2\n1,2\n1,2\n1,2\n'
    run 0 fit "$work/in/equal.csv" -k 1..3 --json -
    expect "equal points are not one cluster of inertia 0" python 'import json, sys
r = json.load(open(sys.argv[1]))
assert all(m["effective_k"] == 1 and m["inertia"] == 0 for m in r["models"]), r["models"]' "$work/stdout"
    file distinct.csv 'a,b\n0,0\n0,1\n1,0\n1,0\n'
    run 0 fit "$work/in/distinct.csv" -k 4 --json -
    in_stderr 'K=4 has 3 clusters'
    file constant.csv 'a,b\n1,7\n2,7\n8,7\n9,7\n'
    run 0 fit "$work/in/constant.csv" -k 2 --scale standard
    in_stderr '1 of 2 features never change \(the first is column 2 \(b\)\)'
    # A wide table whose first rows are longer than what is looked at first; columns that begin with nothing.
    python '
names = ",".join(f"a_long_name_of_column_{c}" for c in range(70000))
with open("../in/broad.csv", "w") as out:
    print(names, file=out)
    for i in range(20): print(",".join(f"{(i % 3) * 10 + c / 1e9:.17f}" for c in range(70000)), file=out)
with open("../in/late.csv", "w") as out:
    print("a,late,note,both,never,late_id", file=out)
    for i in range(90000):
        late = i >= 80000
        print(f"{i % 3 * 10 + i % 97 / 97:.17f}", i % 3 * 5 if late else "", "x" if late else "",
              ("x" if i % 9 == 0 else 7) if late else "", "", i if late else "", sep=",", file=out)'
    bad 'has 70000 columns to cluster, and at most 65536 are taken' "$work/in/broad.csv" -k 2
    run 0 fit "$work/in/broad.csv" -k 2 --columns 1..40000 --n-init 1 --refine none --max-iter 2
    in_stdout '^20 points, 40000 features'
    run 0 data "$work/in/broad.csv"
    in_stdout '20 rows, 70000 columns'
    run 0 fit "$work/in/late.csv" -k 2 --missing drop --n-init 1
    in_stderr 'features are a, late; left out: note \(text\), both \(text\), never \(empty\), late_id \(empty\)'
    in_stdout '^10000 points, 2 features'
    run 0 data "$work/in/late.csv"
    in_stdout '90000 rows, 6 columns, of which a fit uses 2'
    in_stdout '^\*  2 late  *number  *80000'
    in_stdout '^   4 both  *text'
    file title.csv '# exported by X\nid,x,y\n1,2,3\n2,4,3\n'
    bad 'row 2 has 3 cells, but row 1 has 1; every row needs the same; what stands .* as by tail -n .2' \
        "$work/in/title.csv" -k 2
    file sep.csv 'sep=;\nid;x;y\n1;2;3\n2;4;3\n'
    bad 'row 2 has 3 cells, .*; what stands before the table must go' "$work/in/sep.csv" -k 2
    file pipe.csv 'id|x|y\n1|2|3\n2|4|3\n'
    bad 'its cells seem to be separated by \|; .*: tr .\|. , <FILE' "$work/in/pipe.csv" -k 2
    file space.txt 'id x y\n1 2 3\n2 4 3\n3 4 9\n4 1 7\n'
    bad 'its cells seem to be separated by spaces; .*: tr -s . . , <FILE' "$work/in/space.txt" -k 2
    # Lines without anything before a table, whose format follows from what is behind them.
    python '
blank = "\n" * 300000
open("../in/blank.txt", "w").write(blank + "1 1:2 3:4\n0 2:5\n1 1:1 2:3\n")
open("../in/blanks.txt", "w").write(blank + "a,b\n1,2\n3,4\n3,5\n")
open("../in/nothing.txt", "w").write(blank)'
    run 0 fit "$work/in/blank.txt" -k 2
    in_stdout '^3 points, 3 features'
    run 0 fit "$work/in/blanks.txt" -k 2
    in_stdout '^3 points, 2 features'
    bad 'nothing.txt: cannot tell what this holds, as it begins with empty lines; name the format' \
        "$work/in/nothing.txt" -k 2
    run_on "$work/in/blank.txt" 0 fit - --format svmlight -k 2
    rm -f -- "$work/in/"{broad,late}.csv
    file w.csv '1\n1\n-1\n'
    bad 'w.csv.*row 3' "$work/in/few.csv" -k 2 --weights "$work/in/w.csv"
    file w.csv '1\nnan\n1\n'
    bad 'w.csv.*row 2' "$work/in/few.csv" -k 2 --weights "$work/in/w.csv"
    file w.csv '0\n0\n0\n'
    bad 'w.csv.*(0|zero)' "$work/in/few.csv" -k 2 --weights "$work/in/w.csv"
    file w.csv '1\n1\n'
    bad 'w.csv' "$work/in/few.csv" -k 2 --weights "$work/in/w.csv"
    file w.csv '1\n2\n3\n'
    run 0 fit "$work/in/few.csv" -k 2 --weights "$work/in/w.csv"
    bad 'cuda|CUDA|GPU' "$iris" -k 2 --target cuda
    bad 'cuda|CUDA|GPU|device' "$iris" -k 2 --target cuda:3
    no_files
}

# A criterion of the same value in two JSON files, the first a fit's of one K.
same_score() { # CRITERION FIT.json SCORE.json
    python '
import json, sys
a = json.load(open(sys.argv[2]))["models"][0]["scores"][sys.argv[1]]
b = json.load(open(sys.argv[3]))["scores"][sys.argv[1]]
sys.exit(abs(a - b) > 1e-12 * abs(b))' "$@"
}

models() {
    # What a fit says of its own labels is what score says of them.
    run 0 fit "$iris" -k 3 --type f64 --criteria silhouette,silhouette_euclidean --labels l.npy --json f.json
    in_stdout 'Euclidean'
    run 0 score "$iris" --labels l.npy --json s.json
    in_stdout '^  Euclidean silhouette +0\.5528190124$'
    for criterion in calinski_harabasz davies_bouldin simplified_silhouette bic pbm silhouette silhouette_euclidean; do
        expect "a fit's $criterion is another" same_score $criterion f.json s.json
    done
    run 0 score "$iris" --labels l.npy --criteria wb,silhouette --json -
    in_stdout '"scores": \{"wb": 0.39[0-9]*, "silhouette": 0.73[0-9]*\}'
    silent_stderr
    python 'print("\n".join(str(i % 2) for i in range(150)))' >l.txt
    mkfifo l.pipe
    cat l.txt >l.pipe &
    run 0 score "$iris" --labels l.pipe
    wait
    run_on l.txt 0 score "$iris" --labels - --criteria bic
    rm -f -- l.txt l.pipe
    run 1 score "$faithful" --labels l.npy
    in_stderr '150 labels for 272 rows'
    one_line_error
    run 1 score "$iris" --labels "$iris" --label-column sepal_width
    in_stderr 'the label of row 1 is 3.5; labels are whole numbers'
    run 2 score "$iris" --labels "$iris"
    in_stderr 'none is named label; name that of the labels: --label-column'
    python 'print("name,label"); [print(f"p{i},{i // 50}") for i in range(150)]' >l.csv
    run 0 score "$iris" --labels l.csv --noise 2 --scale standard --threads 1
    in_stdout '100 points, 4 features, 2 clusters; 50 rows without a label'
    python 'print("name,label"); [print(f"p{i},{i // 50}") for i in range(150)]' | tr 012 cab >words.csv
    run 0 score "$iris" --labels words.csv
    in_stderr 'labels are 3 different words, numbered from 0 in the order of their letters: a, b, c$'
    cp -- "$work/stdout" words.txt
    run 0 score "$iris" --labels l.csv -q
    expect "words score something else" cmp -s words.txt "$work/stdout"
    rm -f -- l.csv words.csv words.txt
    run 1 score "$iris" --labels missing.npy
    one_line_error
    run 2 score "$iris"
    in_stderr '--labels FILE is missing'
    run 2 score - --labels -
    in_stderr 'cannot both be standard input'
    run 2 score "$iris" --labels l.npy --criteria silhuette
    in_stderr 'did you mean silhouette\?'
    rm -f -- l.npy f.json s.json
    run 0 fit "$iris" -k 3 --model m.json
    run 1 predict m.json "$faithful"
    in_stderr 'lacks 4 of the 4 columns that are needed: "sepal_length"'
    one_line_error
    tail -n 9 "$faithful" >"$work/in/nameless.csv"
    run 1 predict m.json "$work/in/nameless.csv"
    in_stderr '2 features.*fitted on 4 .sepal_length'
    one_line_error
    run 0 predict m.json "$iris" --columns 1,2,3,4
    # Text keeps all its digits until it is centred, whatever the type: seconds since 1970, clusters 10 apart.
    python 'print("t"); [print(1600000000 + i % 4 * 10 + i // 4 * 0.1) for i in range(40)]' >times.csv
    run 0 fit times.csv -k 4 --type f32 --model t.json --labels l.npy --json -
    in_stdout '"sizes": \[10, 10, 10, 10\]'
    run 0 predict t.json times.csv --labels p.npy
    expect "predict on the training data differs" cmp -s l.npy p.npy
    rm -f -- times.csv t.json l.npy p.npy
    run 1 predict missing.json "$iris"
    in_stderr 'missing.json'
    head -c 200 m.json >short.json
    run 1 predict short.json "$iris" --labels l.npy
    in_stderr 'short.json'
    : >empty.json
    run 1 predict empty.json "$iris"
    one_line_error
    run 1 predict "$iris" "$iris"
    one_line_error
    for byte in 1 3 5 7; do # one digit changed somewhere in the numbers
        python '
import sys
b = bytearray(open("m.json", "rb").read())
at = [i for i, c in enumerate(b) if 48 <= c <= 57]
i = at[len(at) * int(sys.argv[1]) // 8]
b[i] = 48 + (b[i] - 48 + 1) % 10
open("changed.json", "wb").write(b)' $byte
        run 1 predict changed.json "$iris" --labels l.npy
        in_stderr 'changed.json'
        one_line_error
    done
    run 1 predict m.json "$iris" --labels missing/l.npy
    in_stderr 'missing/l.npy'
    cp m.json m.npy
    run 2 predict m.npy "$iris" --labels m.npy
    in_stderr 'would overwrite'
    rm m.npy
    rm -f -- *.json
    no_files
}

outputs() {
    # Refused before any work: the data do not even exist.
    for option in --json --model --labels --centroids --report; do
        run 1 fit no-such-file.csv $option missing/file.npy
        in_stderr "$option: cannot write missing/file.npy: No such file.*nothing was done"
        run 1 fit no-such-file.csv $option "$work/out"
        in_stderr 'folder'
    done
    if built_with cairo; then
        run 1 fit no-such-file.csv --plot missing/file.svg
        in_stderr 'missing/file.svg'
    fi
    if [ -e /proc/self/status ]; then # not even root may write there
        run 1 fit no-such-file.csv --json /proc/kmgen.json
        in_stderr '/proc/kmgen.json'
    fi
    # Bars of what the locale can show: the first of these that is set decides.
    for words in 'LC_ALL=C.UTF-8' 'LC_ALL= LC_CTYPE=de_DE.utf8 LANG=C' 'LC_ALL= LC_CTYPE= LANG=en_US.UTF-8'; do
        what="bars with $words"
        # shellcheck disable=SC2086
        env $words "$kmgen" fit "$iris" -k 2..4 >"$work/stdout" 2>"$work/stderr"
        in_stdout '█████'
    done
    what='bars without UTF-8'
    LC_ALL=C LANG=C.UTF-8 "$kmgen" fit "$iris" -k 2..4 >"$work/stdout" 2>"$work/stderr"
    in_stdout '#####'
    # A page, with the line that made it, as a shell would read it again; standard output may be it.
    run 0 fit "$iris" -k 2..4 --report "it's a page.html" --json r.json
    in_stdout 'best K = '
    sed 's/<[^>]*>//g' "it's a page.html" >"$work/words"
    expect "the page lacks its command" grep -qF -- "--report 'it'\\''s a page.html' --json r.json" "$work/words"
    rm "it's a page.html" r.json
    run 0 fit "$iris" -k 2..4 --report -
    in_stdout '^<!DOCTYPE html>$'
    in_stdout '^</html>$'
    run 2 fit "$iris" -k 2..4 --report - --json -
    in_stderr 'both write to standard output'
    # An output that fails at the end loses none of the others.
    if [ -c /dev/full ]; then
        run 1 fit "$iris" -k 2..4 --json /dev/full --labels l.npy --model m.json
        in_stderr '/dev/full'
        in_stdout 'alinski'
        holds_files l.npy m.json
        what='a full standard output'
        "$kmgen" fit "$iris" -k 2 >/dev/full 2>"$work/stderr"
        expect "a full standard output is no failure" test $? = 1
        "$kmgen" predict m.json "$iris" >/dev/full 2>"$work/stderr"
        expect "a full standard output is no failure of predict" test $? = 1
    fi
    rm -f -- *
    echo old >r.json
    run 0 fit "$iris" -k 2 --json r.json
    expect "an existing file is not replaced" grep -q inertia r.json
    rm -f -- *
    no_files
}

# A table as people have it: an id, names with a separator, a quote and a line end in them, a row to drop, Windows' line
# ends, a blank line, no line end at the end.
table_of_people() { # FILE
    printf 'id,name,x,y\r\n7,"Lyon, ""Part-Dieu""",1,1\r\n' >"$1"
    printf '8,"two\nlines",1.5,nan\r\n\r\n9,c,1.25,1\r\n10,d,9,9\r\n11,e,9.5,9' >>"$1"
}

written() {
    table_of_people table.csv
    run 0 fit table.csv -k 2 --columns x,y --nan drop -o out.csv --labels l.csv --centroids c.csv --id id -q
    printf 'id,name,x,y,cluster,distance\n7,"Lyon, ""Part-Dieu""",1,1,0,0.125\n8,"two\nlines",1.5,nan,,\n%s\n%s\n%s\n' \
        '9,c,1.25,1,0,0.125' 10,d,9,9,1,0.25 11,e,9.5,9,1,0.25 >expected.csv
    expect "the whole table is another one: $(cat out.csv)" cmp -s out.csv expected.csv
    printf 'id,label,distance,margin\n%s\n%s\n%s\n' 7,0,0.125,0.9891 8,,, 9,0,0.125,0.9889 >expected.csv
    expect "labels with ids are others: $(cat l.csv)" cmp -s expected.csv \
        <(head -n 4 l.csv | sed -E 's/(0\.98[0-9]{2})[0-9]*/\1/')
    printf 'cluster,points,x,y\n0,2,1.125,1\n1,2,9.25,9\n' >expected.csv
    expect "centroids are others: $(cat c.csv)" cmp -s c.csv expected.csv
    # Other separators; a column label_K for each K; a name that is taken.
    run 0 fit table.csv -k 2,3 --columns x,y --nan drop -o out.tsv --labels l.tsv --labels-of all -q
    in_table=$(sed -n 2p out.tsv)
    expect "tabs in the place of commas: $in_table" grep -qE \
        $'^7\t"Lyon, ""Part-Dieu"""\t1\t1\t[01]\t0\\.?[0-9]*\t[01]\t[012]$' out.tsv
    expect "a column for each K" test "$(head -n 1 out.tsv | cut -f 5-)" = $'cluster\tdistance\tlabel_2\tlabel_3'
    expect "labels of all K" grep -qE $'^4\t[01]\t[012]$' l.tsv
    expect "a dropped row's labels are empty" grep -qE $'^2\t\t$' l.tsv
    run 0 fit out.csv -k 2 --columns x,y --nan drop -o again.csv -q
    expect "a second column cluster" test "$(head -n 1 again.csv)" = id,name,x,y,cluster,distance,cluster_2,distance_2
    # Tables that are no text, and texts without names.
    run 0 fit "$iris" -k 3 --labels l.npy --model m.json -q
    tail -n +2 "$iris" | cut -d, -f 1,2 | tr , ';' >plain.csv
    run 0 fit plain.csv -k 2 -o out.csv --labels l2.csv -q
    expect "no names were there: $(head -n 1 out.csv)" grep -qE '^[0-9.]+;[0-9.]+;[01];[0-9.]+$' <(head -n 1 out.csv)
    expect "as many rows" test "$(wc -l <out.csv)" = 150
    python 'import array; array.array("f", [0.1, 1, 0.3, 1, 1e20, 9, 1e20, 1.23456789]).tofile(open("p.f32", "wb"))'
    run 0 fit p.f32 --features 2 -k 2 -o out.csv -q
    expect "floats are written as short as they are: $(cat out.csv)" cmp -s <(cut -d, -f 1,2 out.csv) \
        <(printf '%s\n' x1,x2 0.1,1 0.3,1 1e+20,9 1e+20,1.2345679)
    # What cannot be read a second time is refused before the fit.
    run_on "$iris" 2 fit - --format csv -k 2 -o out2.csv
    in_stderr 'standard input cannot be read a second time; write it to a file first'
    mkfifo pipe
    cat "$iris" >pipe &
    run 2 fit pipe --format csv -k 2 -o out2.csv
    in_stderr 'pipe is a pipe and cannot be read a second time'
    run 2 fit "$sparse/from1.svm" -k 2 -o out2.csv
    in_stderr 'is sparse'
    run 2 fit table.csv -k 2 --columns x,y --nan drop --labels l2.csv --id city
    in_stderr 'table.csv has no column "city"; it has id, name, x, y'
    # Never over what is read, through links of either kind.
    ln -s table.csv link.csv
    ln table.csv hard.csv
    for name in table.csv link.csv hard.csv ./table.csv; do
        run 2 fit table.csv -k 2 -o $name
        in_stderr 'would overwrite what is read'
        run 2 fit $name -k 2 --labels table.csv
        in_stderr 'would overwrite what is read'
    done
    # A disk that fills up while a table is written: said, nothing half-written, and nothing else is lost.
    blobs p.f32 60000 4
    echo old >big.csv
    what='a file that may not grow'
    (ulimit -f 64 && "$kmgen" fit p.f32 --features 4 -k 2 -o big.csv --labels l.tsv --centroids c.npy -q) \
        >"$work/stdout" 2>"$work/stderr"
    expect "a full disk is no failure" test $? = 1
    in_stderr 'cannot write big.csv: File too large'
    expect "what was there is gone" grep -q old big.csv
    expect "another output is lost" test -s c.npy
    in_stdout 'best K'
    rm -f -- *
    no_files

    # .npy of a pipe goes through in pieces: the same labels, and the row of the whole is named.
    awk 'BEGIN { for (i = 1; i <= 400000; i++) print i % 7 "," i % 11 "," i % 5 }' >many.csv
    run 0 fit many.csv -k 3 -q --n-init 1 --max-iter 2 --model many.json
    python3 - <<'PY' 2>/dev/null || printf '' >many.npy
import struct
rows = [float(v) for i in range(1, 400001) for v in (i % 7, i % 11, i % 5)]
head = "{'descr': '<f8', 'fortran_order': False, 'shape': (400000, 3), }".ljust(117) + "\n"
with open("many.npy", "wb") as out:
    out.write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head.encode() + struct.pack("<1200000d", *rows))
with open("many.npy", "rb") as whole, open("nan.npy", "wb") as out:
    bytes = bytearray(whole.read())
    bytes[128 + 24 * 399000:128 + 24 * 399000 + 8] = struct.pack("<d", float("nan"))
    out.write(bytes)
PY
    if [ -s many.npy ]; then
        run 0 predict many.json many.csv --labels of_text.npy
        what='predict of .npy through a pipe'
        head -c 99999999 many.npy | "$kmgen" predict many.json - --format npy --labels of_pipe.npy 2>"$work/stderr"
        expect "other labels" cmp of_text.npy of_pipe.npy
        head -c 99999999 nan.npy | "$kmgen" predict many.json - --format npy --labels of_nan.npy 2>"$work/stderr"
        in_stderr 'row 399001, column 1'
        head -c 9000000 many.npy | "$kmgen" predict many.json - --format npy --labels of_nan.npy 2>"$work/stderr"
        in_stderr 'is cut short'
    fi

    # A text with a decimal comma: what is appended has one, and predict writes the same bytes.
    sed 's/,/;/g; s/\./,/g' "$iris" >comma.csv
    run 0 fit comma.csv -k 3 -q -o comma_out.csv --labels comma_labels.csv --model comma.json
    expect "no decimal comma" test "$(sed -n 2p comma_out.csv)" = '5,1;3,5;1,4;0,2;1;0,141350608'
    expect "no decimal comma" grep -qxE '1;1;0,[0-9]+;0,[0-9]+' comma_labels.csv
    run 0 predict comma.json comma.csv -o comma_more.csv
    expect "predict writes another table" cmp comma_out.csv comma_more.csv
    sed 's/;/","/g; s/^/"/; s/$/"/' comma.csv >quoted.csv
    run 0 fit quoted.csv -k 3 -q --decimal , -o quoted_out.csv
    expect "no quotes" test "$(sed -n 2p quoted_out.csv)" = '"5,1","3,5","1,4","0,2",1,"0,141350608"'
    run 0 predict comma.json quoted_out.csv --decimal , --labels quoted.npy
}

# What predict writes: the same as the fit of the same points, in every format, from a file and from a pipe.
predicted() {
    # The inertia of scikit-learn's KMeans (n_init 50, tol 0) behind its RobustScaler.
    run 0 fit "$iris" -k 3 --scale robust --type f64 --tol 0 --model m.json --labels l.npy --json r.json -q
    expect "another inertia than behind RobustScaler" python '
import json
result = json.load(open("r.json"))
assert result["scale"] == "robust" and abs(result["models"][0]["inertia"] - 73.18403620977307) < 1e-9'
    run 0 predict m.json "$iris" --labels p.npy
    expect "other labels" cmp -s p.npy l.npy
    # A number for missing values is warned of by the fit, not again by each piece that is predicted.
    seq 3000 | awk '{ print ($1 % 20 ? 10 + $1 * 7 % 31 / 8 : -999) "," $1 % 13 / 4 }' >marked.csv
    run 0 fit marked.csv -k 2 --model marked.json
    in_stderr 'column 1 is -999 in 150 rows'
    run 0 predict marked.json marked.csv
    expect "a warning again" test -z "$(grep -e -999 "$work/stderr")"
    run 0 score "$iris" --labels l.npy --scale robust --json - -q
    expect "another inertia of the labels" grep -q '"inertia": 73.184036209' "$work/stdout"
    run 2 fit "$sparse/from0.svm" -k 2 --scale robust
    in_stderr 'is sparse: most of its values are 0, so its quartiles say nothing'
    rm -f -- *
    # Rows of length 1, which only their direction puts into a cluster; a row of zeros has none.
    printf 'x,y\n1,2\n100,201\n0,0\n3,0.1\n-2,-4\n30,0\n' >unit.csv
    run 1 fit unit.csv -k 3 --metric cosine
    in_stderr 'unit.csv: row 4: all values are 0, .* and no cosine; drop such rows by --missing drop'
    run 0 fit unit.csv -k 3 --metric cosine --missing drop --model m.json -o fit.csv --type f64 --json r.json \
        --report r.html
    in_stderr '1 of 6 rows of unit.csv are all zeros, which have no direction, and were dropped'
    expect "other clusters" test "$(cut -d, -f3 fit.csv | tr '\n' ' ')" = 'cluster 0 0  1 2 1 '
    expect "other rows" test "$(cut -d, -f1,2 fit.csv)" = "$(cat unit.csv)"
    run 0 predict m.json unit.csv --missing drop -o p.csv --score
    expect "another table" cmp -s p.csv fit.csv
    run 0 fit unit.csv -k 3 --scale unit --missing drop --type f64 --json s.json -o s.csv -q
    expect "another digest" test "$(grep digest r.json)" = "$(grep digest s.json)"
    # Counts of three directions, which division leaves apart by rounding: no far value among close ones.
    awk 'BEGIN { for (i = 1; i <= 40; i++) {
        print 8 * i "," 2 * i "," 7 * i "," 7 * i "," i
        print 4 * i "," 4 * i "," 5 * i "," 5 * i ",0"
        print 4 * i ",0," 7 * i "," i "," 3 * i } }' >counts.csv
    run 0 fit counts.csv -k 3 --metric cosine --labels counts_labels.csv -q
    tail -n +2 counts_labels.csv | cut -d, -f2 | paste -d ' ' - - - | sort -u >directions
    expect "other clusters than directions" test "$(tr ' ' '\n' <directions | sort | tr '\n' ' ')" = '0 1 2 '
    # The same with the digits that floats have, in a text and as nonzeros: no inertia is left, here as in a score.
    awk 'BEGIN { srand(4); for (i = 0; i < 600; i++) {
        s = rand() + 0.1; j = i % 3
        x = s * (4 + 4 * (j == 0)) / 11.7; y = s * (1 + j) / 11.7; z = s * (7 - j) / 11.7
        printf "%d 1:%.9g 2:%.9g 3:%.9g\n", j, x, y, z } }' >float.svm
    sed 's/ [123]:/,/g' float.svm >float.csv
    run 0 fit float.svm -k 2..4 --metric cosine --layout csr --labels float.txt.csv --json float.json -q
    expect "another K of directions" grep -q '"best": {"k": 3' float.json
    run 0 fit float.csv --columns 2..4 --header no -k 2..4 --metric cosine --json float.json -q
    expect "another K of directions" grep -q '"best": {"k": 3' float.json
    run 0 score float.csv --columns 2..4 --header no --labels float.csv --label-column 1 --metric cosine
    in_stdout 'Calinski-Harabasz +1$'
    expect "no rows of length 1 in the report" grep -q 'rows divided by their length' r.html
    run 2 fit unit.csv -k 2 --metric cosine --scale minmax --missing drop
    in_stderr 'the scale minmax does not go with'
    run 2 fit unit.csv -k 2 --metric cosine --missing drop --criteria gap
    in_stderr 'are not there with the metric cosine'
    run 0 fit unit.csv -k 2,3 --metric cosine --missing drop --criteria all --json all.json
    expect "criteria of other fits" grep -q '"prediction_strength": null, "gap": null' all.json
    expect "no silhouette" grep -q '"silhouette_euclidean": [0-9]' all.json
    run 0 score unit.csv --labels fit.csv --label-column cluster --metric cosine --missing drop
    cp "$work/stdout" cosine.txt
    run 0 score unit.csv --labels fit.csv --label-column cluster --scale unit --missing drop
    expect "other scores than of the scale unit" cmp -s cosine.txt "$work/stdout"
    in_stdout '5 points, 2 features, 3 clusters; 1 row dropped$'
    # Rows of few directions: inertia that is rounding tells no restart from another.
    python '
import random
random.seed(8)
directions = [[random.gauss(0, 1) for f in range(3)] for j in range(6)]
with open("few.csv", "w") as few:
    for i in range(1200):
        length = random.uniform(.5, 5)
        print(*(repr(x * length) for x in directions[i % 6]), sep=",", file=few)'
    run 0 fit few.csv -k 6 --tol 0 --scale unit
    in_stdout ' 1\.0000 '
    expect "restarts are compared by rounding" test "$(grep -c 'restarts came within' "$work/stderr")" = 0
    rm -f few*
    run 2 score unit.csv --labels fit.csv --metric cosine --scale robust
    in_stderr '--scale robust does not go with'
    run 2 explore unit.csv --scale unit
    in_stderr 'rows of other lengths'
    run 2 explore unit.csv --metric cosine
    in_stderr 'explore: unknown option --metric, which kmgen fit has'
    rm -f -- *
    run 0 fit "$iris" -k 3 --scale standard --model m.json --labels l.npy -o fit.csv --json r.json -q
    run 0 predict m.json "$iris" -o p.csv --labels p.npy --distances d.npy --transform t.csv --score --id 2
    expect "another table" cmp -s p.csv fit.csv
    expect "other labels" cmp -s p.npy l.npy
    expect "an id in the place of the row" grep -qx 'sepal_width,distance_0,distance_1,distance_2' t.csv
    expect "--score is another inertia than the fit's" python '
import json, sys
fit = json.load(open("r.json"))["models"][0]["inertia"]
assert abs(float(open(sys.argv[1]).read()) - fit) < 1e-6 * fit' "$work/stdout"
    expect "distances are not those of the table" python '
import array, csv
raw = open("d.npy", "rb").read()
own = array.array("d", raw[128:])
rows = list(csv.DictReader(open("p.csv")))
transform = list(csv.reader(open("t.csv")))[1:]
assert raw[:6] == b"\x93NUMPY" and b"(150,)" in raw[:128] and len(own) == len(rows) == len(transform) == 150
for i, row in enumerate(rows):
    assert abs(own[i] - float(row["distance"])) < 1e-8 * (1 + own[i])
    values = [float(v) for v in transform[i][1:]]
    assert values.index(min(values)) == int(row["cluster"]) and min(values) == float(row["distance"])'
    run_on "$iris" 0 predict m.json - --format csv -o s.csv
    expect "another table from standard input" cmp -s s.csv fit.csv
    run_on "$iris" 0 predict m.json - --labels -
    expect "other labels on standard output" cmp -s "$work/stdout" l.npy
    run 0 predict m.json "$iris" --labels - --format csv
    expect "other labels in a pipe" cmp -s <("$kmgen" predict m.json "$iris" --labels /dev/stdout | cat) l.npy
    # Rows that are dropped, and a piece of nothing else.
    printf '%s\nnan,nan,nan,nan\n' "$(head -n 3 "$iris")" >holes.csv
    run 0 predict m.json holes.csv --nan drop --labels h.csv
    expect "a dropped row has a label" grep -qx '3,,,' h.csv
    # A text of many pieces: the same labels, lines of its own, and memory that does not grow.
    python '
import random
random.seed(1)
with open("long.csv", "w") as f:
    f.write("word,y,x\n")
    for i in range(700000):
        f.write("\"a, bcdefgh %d\",%.3f,%.3f\n" % (i, random.random(), i % 3))'
    (echo y,x && sed -n 2,3000p long.csv | cut -d, -f 3,4) >train.csv
    run 0 fit train.csv -k 3 --model long.json -q
    "$kmgen" predict long.json long.csv --columns y,x >one.txt
    expect "labels of all rows" test "$(wc -l <one.txt)" = 700000
    run_on long.csv 0 predict long.json - --format csv -o long_out.csv
    expect "a piece has other labels than the file" cmp -s one.txt \
        <(tail -n +2 long_out.csv | awk -F, '{ print $(NF - 1) }')
    sed -i '650001s/,[0-9.]*$/,oops/' long.csv
    run_on long.csv 1 predict long.json - --format csv --labels none.npy
    in_stderr 'standard input: row 650001, column 3 \(x\): "oops" is no number'
    expect "half an output is left" test ! -e none.npy
    run 1 predict m.json "$iris" -o /dev/full
    in_stderr 'cannot write /dev/full: No space left on device'
    run 2 predict m.json "$iris" --labels l.parquet
    in_stderr '--labels writes .npy, .csv or .tsv'
    run 2 predict m.json "$iris" -o "$iris"
    in_stderr 'would overwrite what is read'
    run 2 predict m.json "$iris" --id 1
    in_stderr '--id needs --labels, --distances or --transform FILE.csv'
    rm -f -- *
    no_files
}

cache() {
    command -v cc >/dev/null || exit 77 # nothing is compiled, so nothing is cached
    export KMGEN_TEST_CACHE=$work
    local arguments=(fit "$iris" -k 2..5 --target cpu --set design=lanes --json - -q
        --compiler "$source_root/tests/quick_cc.sh")
    run 0 "${arguments[@]}"
    cp "$work/stdout" "$work/first.json"
    local binary
    binary=$(ls "$work"/cache/*.bin)
    expect "no module in the cache" test -s "$binary"
    run 0 cache
    in_stdout "$work/cache: 1 entry"
    run 0 "${arguments[@]}" # from the cache
    for damage in truncate zeros empty; do
        case $damage in
            truncate) truncate -s 1000 "$binary" ;;
            zeros) dd if=/dev/zero of="$binary" bs=64 count=1 seek=10 conv=notrunc 2>/dev/null ;;
            empty) : >"$binary" ;;
        esac
        run 0 "${arguments[@]}"
        expect "a damaged module ($damage) changes the result" python '
import json, sys
a, b = (json.load(open(p))["models"] for p in sys.argv[1:])
assert a == b' "$work/stdout" "$work/first.json"
        expect "a damaged module ($damage) is not built anew" test "$(stat -c %s "$binary")" -gt 1000
    done
    # A folder whose name begins with "-" is no option of the compiler.
    run 0 "${arguments[@]}" --cache-dir=-shared
    expect "no module in the folder -shared" there ./-shared/*.bin
    rm -r ./-shared
    # A text that was left for later, and is none: dropped, and not counted. A folder of such a name is nobody's.
    mkdir "$work/cache/fedcba9876543210fedcba9876543210.todo"
    echo nothing > "$work/cache/0123456789abcdef0123456789abcdef.todo"
    run 0 cache
    in_stdout ', 1 left to be compiled'
    run 0 cache finish
    in_stderr 'warning: .*\.todo: a text was left by another version of kmgen'
    in_stdout "^$work/cache: 0 texts compiled"
    run 0 cache
    expect "the text is still there" test "$(grep -c left "$work/stdout")" = 0
    rmdir "$work/cache/fedcba9876543210fedcba9876543210.todo"
    run 2 fit "$iris" -k 2..3 --compile-rest later
    KMGEN_COMPILE_REST=later run 2 fit "$iris" -k 2..3
    in_stderr 'KMGEN_COMPILE_REST must be background, wait or leave'
    KMGEN_COMPILE_REST='wait' run 0 fit "$iris" -k 2..3 -t cpu

    touch "$work/cache/mine.txt"
    run 0 cache clear
    expect "clear removed what is not kmgen's, or left what is" test "$(ls "$work/cache")" = mine.txt
    run 0 cache --cache-dir "$work/none"
    in_stdout '0 entries'
    # Specs are compiled ahead, side by side: a fit then finds its module, and a second time there is nothing to do.
    for d in 3 4; do
        printf 'features: %s\nclusters: 2..5\ntarget: cpu\nplan:\n  design: lanes\n' $d >"$work/in/warm$d.yaml"
    done
    local warming=(cache --warm "$work/in/warm3.yaml" "$work/in/warm4.yaml" --compiler "$source_root/tests/quick_cc.sh")
    run 0 "${warming[@]}"
    expect "two specs are not compiled" test "$(grep -c ': lanes, compiled, ' "$work/stdout")" = 2
    run 0 "${warming[@]}"
    expect "they are compiled again" test "$(grep -c ': lanes, nothing to compile, ' "$work/stdout")" = 2
    run 0 fit "$work/in/warm4.yaml" "$iris" --compiler "$source_root/tests/quick_cc.sh" -v
    in_stderr 'module: loaded lanes .* cache hit'
    printf 'clusters: 2..4\n' >"$work/in/warm4.yaml" # without features there is no plan
    run 1 "${warming[@]}"
    in_stderr 'warm4.yaml: '
    in_stdout 'warm3.yaml: lanes, nothing'
    run 2 cache --warm
    run 2 cache --points 5
    in_stderr '--points needs --warm'
    run 0 cache clear
    run 2 cache claer
    in_stderr 'did you mean clear'
    run 1 "${arguments[@]}" --cache-dir /proc/none
    in_stderr '/proc/none'
    KMGEN_CACHE_DIR=/proc/none run 0 fit "$iris" -k 2 --target cpu --set design=lanes
    in_stderr 'warning: nothing is cached'
    (unset KMGEN_CACHE_DIR && export XDG_CACHE_HOME="$work/xdg" && "$kmgen" "${arguments[@]}" >/dev/null)
    what='XDG_CACHE_HOME'
    expect "XDG_CACHE_HOME does not count" there "$work"/xdg/kmgen/*.bin
    (unset KMGEN_CACHE_DIR XDG_CACHE_HOME && export HOME="$work/home" && "$kmgen" "${arguments[@]}" >/dev/null)
    expect "HOME does not count" there "$work"/home/.cache/kmgen/*.bin
    # Text that was edited by hand is used, and text that does not compile is refused with its place.
    printf 'name: own\nfeatures: 4\nclusters: 2..5\ntarget: cpu\nplan:\n  design: lanes\n' >"$work/in/own.yaml"
    run 0 emit "$work/in/own.yaml" -o "$work/in"
    run 0 fit "$work/in/own.yaml" "$iris" --source "$work/in/own.c" --json -
    echo 'int km_not_c = ;' >>"$work/in/own.c"
    run 1 fit "$work/in/own.yaml" "$iris" --source "$work/in/own.c" --json r.json
    in_stderr '\.c'
    one_line_error
    run 1 fit "$work/in/own.yaml" "$iris" --source missing.c
    in_stderr 'missing.c'
    run 0 info
    in_stdout '^CPU '
    in_stdout '^cache '
    no_files
}

# Names of the version before are read wherever names are, and said once.
old_names() {
    local said='is an old name, which the next version refuses; write'
    warned() { # PATTERN
        in_stderr "warning: $1"
        expect "not one warning" test "$(grep -c 'warning: .* is an old name' "$work/stderr")" = 1
    }
    file old.yaml 'name: old\nfeatures: 4\nclusters: 2..3\nrestarts: 3\ntarget: cpu\n'
    run 0 "$work/in/old.yaml" -o "$work/in"
    warned "$work/in/old.yaml:4:1: restarts $said n_init"
    run 0 -q "$work/in/old.yaml" -o "$work/in"
    silent_stderr
    run 0 explain "$work/in/old.yaml"
    warned "$work/in/old.yaml:4:1: restarts $said n_init"
    run 0 fit "$work/in/old.yaml" "$iris" --dry-run
    warned "$work/in/old.yaml:4:1: restarts $said n_init"
    run 0 fit "$work/in/old.yaml" "$iris" --json -
    warned "$work/in/old.yaml:4:1: restarts $said n_init"
    expect "not in the result, or not obeyed" python '
import json, sys
r = json.load(open(sys.argv[1]))
assert r["n_init"] == 3 and r["warnings"].count(sys.argv[2]) == 1, r["warnings"]' \
        "$work/stdout" "$work/in/old.yaml:4:1: restarts $said n_init"
    file plan.yaml 'name: old\nfeatures: 4\nclusters: 2..3\ntarget: cpu\nplan: {algorithm: filter}\n' # old name
    run 0 fit "$work/in/plan.yaml" "$iris" --json -
    warned "$work/in/plan.yaml:5:19: algorithm filter $said algorithm tiles" # old name
    run 0 fit "$iris" -k 2..3 --algorithm filter --json - # old name
    warned "algorithm filter $said algorithm tiles" # old name
    expect "another algorithm" grep -q '"algorithm": "tiles"' "$work/stdout"
    run 0 fit "$iris" -k 2..3 --set design=portable --dry-run # old name
    warned "design portable $said design prebuilt" # old name
    in_stdout '^design +prebuilt '
    run 0 explain "$source_root/specs/small.yaml" --set design=shared
    warned "design shared $said design tiled"
    run 0 explain "$source_root/specs/small.yaml" --target cpu --set design=blocks
    warned "design blocks $said design gemm"
    run 2 explain "$work/in/old.yaml" --set half_filter=1 # old name
    in_stderr 'half_filter is an old name; write form tiles_fp16 or resident_fp16 in the place of 1' # old name
    tuning_table 'NVIDIA H200' cuda:sm_90 'clusters: 40..41' 'type: float32' 'points: 10' 'ms: 1' \
        'templates: 0123456789abcdef' 'plan: {design: registers, resident: 1}' >"$work/in/table.yaml" # old name
    run 0 explain "$source_root/specs/small.yaml" --target cuda:sm_90 --tuning "$work/in/table.yaml"
    warned "$work/in/table.yaml:12:31: resident $said blocks_per_sm" # old name
    command -v cc >/dev/null || return 0
    sed 's|^\(// soa_points *\)|// half_filter 1\n\1|' "$work/in/old.c" >"$work/in/half.c" # old name
    run 1 fit "$iris" -k 2..3 --source "$work/in/half.c"
    in_stderr 'the head of the source text: half_filter is an old name; .*: emit the text again' # old name
    sed 's|^// n_init: |// restarts: |' "$work/in/old.c" >"$work/in/older.c"
    run 0 fit "$iris" -k 2..3 --source "$work/in/older.c"
    warned "the head of the source text:[0-9]+:1: restarts $said n_init"
}

# A text that is given is what is compiled, or the fit is refused with the reason.
tuning_table() { # DEVICE TARGET ENTRY-LINE...: a table of one entry
    local line
    printf 'kmgen tuning: 1\ndevice: %s\ntarget: %s\ndriver: 0\nentries:\n' "$1" "$2"
    shift 2
    printf '  - features: 4\n'
    for line in "$@"; do printf '    %s\n' "$line"; done
}
own_table() { # this machine's CPU, and where its table lies: sets cpu, isa, threads and own
    cpu=$("$kmgen" info | sed -n 's/^CPU  *\(.*\) (cpu:.*/\1/p')
    isa=$("$kmgen" info | sed -n 's/^CPU .* (\(cpu:[a-z0-9]*\)), .*/\1/p')
    threads=$("$kmgen" info | sed -n 's/^CPU .*), \([0-9]*\) threads.*/\1/p')
    own=$(tr -cs '[:alnum:]' _ <<<"$cpu" | tr '[:upper:]' '[:lower:]' | sed 's/^_//; s/_$//')
    own=$XDG_DATA_HOME/kmgen/tuning/${own}_${isa#cpu:}.yaml
    mkdir -p "${own%/*}"
}
tuning() {
    local cpu isa threads own hash entry found
    own_table

    # emit and explain: a table by name; its entry is stale until it has the hash that the error tells.
    file s.yaml 'features: 4\nclusters: 3..5\n'
    entry=('clusters: 3..5' 'type: float32' 'points: 8388608' 'plan: {design: registers, block: 256}')
    entry+=('ms: 0.842' 'default_ms: 0.9')
    tuning_table 'NVIDIA H200' cuda:sm_90 "${entry[@]}" 'templates: 0000000000000000' >"$work/in/t.yaml"
    run 1 explain "$work/in/s.yaml" --tuning "$work/in/t.yaml"
    in_stderr 't.yaml:6: this entry was measured with other templates \(0+, now [0-9a-f]{16}\); measure it again'
    one_line_error
    hash=$(sed 's/.*now \([0-9a-f]*\)).*/\1/' "$work/stderr")
    tuning_table 'NVIDIA H200' cuda:sm_90 "${entry[@]}" "templates: $hash" >"$work/in/t.yaml"
    run 0 explain "$work/in/s.yaml" --tuning "$work/in/t.yaml" -n 16777216
    in_stdout '^block  *256  measured on NVIDIA H200: .*/in/t.yaml$'
    in_stdout '^measured on NVIDIA H200: 1.68 for one restart, 1.8 by the cost model.s own numbers \(.*t.yaml\)$'
    run 0 -o - "$work/in/s.yaml" --tuning "$work/in/t.yaml"
    in_stdout '^// block  *256  measured on NVIDIA H200'
    run 0 -o - "$work/in/s.yaml" --tuning none
    expect 'a table is used' test -z "$(grep measured "$work/stdout")"
    run 0 explain "$work/in/s.yaml" --tuning "$work/in/t.yaml" --set block=128
    in_stdout '^block  *128  fixed in the spec$'
    run 1 explain "$work/in/s.yaml" --tuning "$work/in/t.yaml" --target cuda:sm_80
    in_stderr 't.yaml:2: this table was measured on NVIDIA H200 \(cuda:sm_90\), and the plan is for'
    run 1 explain "$work/in/s.yaml" --tuning "$work/in/none.yaml"
    in_stderr 'cannot read --tuning .*none.yaml: No such file or directory'
    run 2 explain "$work/in/s.yaml" --tuning "$work/in/t.yaml" --device
    in_stderr 'say which one by --target cpu or --target cuda'
    run 1 fit "$iris" -k 3..5 --target cpu --tuning "$work/in/t.yaml"
    in_stderr 't.yaml:2: this table was measured on NVIDIA H200'
    one_line_error

    # Numbers of the designs for sparse points are fixed, not tuned.
    printf 'features: 1000\nclusters: 2..12\nlayout: csr\n' >"$work/in/csr.yaml"
    run 2 tune "$work/in/csr.yaml"
    in_stderr 'block, blocks_per_sm or tile_clusters of sparse_warps fixed under .plan:.'
    run 0 explain "$work/in/csr.yaml" --target cuda:sm_90 --set block=256 --set tile_clusters=40
    in_stdout '^tile_clusters  *40  fixed in the spec$'

    # fit and explain --device: the device's own table is found.
    entry=('clusters: 3..5' 'type: float32' 'points: 150' "threads: $threads")
    entry+=('plan: {design: prebuilt, concurrent_restarts: 2}' 'ms: 0.002')
    tuning_table "\"$cpu\"" "$isa" "${entry[@]}" 'templates: 0000000000000000' >"$own"
    run 0 fit "$iris" -k 3..5 --target cpu --json r.json
    in_stderr 'this entry was measured with other templates .*; the tuning table is not used$'
    expect 'more than one warning' test "$(grep -c tuning "$work/stderr")" = 1
    expect 'JSON names a table' grep -q '"tuned": null' r.json
    hash=$(sed -n 's/.*now \([0-9a-f]*\)).*/\1/p' "$work/stderr")
    tuning_table "\"$cpu\"" "$isa" "${entry[@]}" "templates: $hash" >"$own"
    run 0 fit "$iris" -k 3..5 --target cpu --json r.json
    expect 'a warning of the table' test -z "$(grep tuning "$work/stderr")"
    found=$(python '
import json
tuned = json.load(open("r.json"))["tuned"]
print(tuned["table"], tuned["exact"], tuned["ms"], tuned["points"])')
    expect "JSON says $found" test "$found" = "$own True 0.002 150"
    run 0 fit "$iris" -k 3..5 --target cpu --dry-run
    in_stdout '^concurrent_restarts  *2  measured on '
    run 0 explain "$work/in/s.yaml" --target cpu --device -n 150
    in_stdout '^concurrent_restarts  *2  measured on '
    run 0 explain "$work/in/s.yaml" --device -n 150
    in_stdout '^concurrent_restarts  *2  measured on '
    run 0 explain "$work/in/s.yaml" --target "$isa" -n 150
    expect 'a nominal device has a private table' test -z "$(grep -F "$own" "$work/stdout")"
    run 0 -o - "$work/in/s.yaml" --target "$isa"
    expect 'an emitted text is of a private table' test -z "$(grep -F "$own" "$work/stdout")"
    run 0 fit "$iris" -k 3..5 --target cpu --tuning none --json r.json
    expect 'JSON names a table' grep -q '"tuned": null' r.json
    # What is wrong with it is one warning, for fit and for explain.
    printf 'kmgen tuning: 1\ndevice: [' >"$own"
    run 0 fit "$iris" -k 3..5 --target cpu
    in_stderr "yaml:2:[0-9]*: device must be a single value, got a list; the tuning table is not used$"
    expect 'more than one warning' test "$(grep -c tuning "$work/stderr")" = 1
    run 0 explain "$work/in/s.yaml" --target cpu --device
    in_stderr 'the tuning table is not used$'
    run 1 fit "$iris" -k 3..5 --target cpu --tuning "$own"
    in_stderr 'yaml:2:[0-9]*: device must be a single value, got a list$'
    rm "$own" && mkdir "$own"
    run 0 fit "$iris" -k 3..5 --target cpu
    in_stderr 'the tuning table is not used$'
    rmdir "$own"
    rm -f r.json
    no_files
}

source() {
    local own=$work/in/own.c given=(fit "$iris" -k 2..5 --source "$work/in/own.c")
    command -v cc >/dev/null || exit 77
    printf 'name: own\nfeatures: 4\nclusters: 2..5\ntarget: cpu\n' >"$work/in/own.yaml"
    run 0 fit "$iris" -k 2..5 --json -
    cp "$work/stdout" "$work/without.json"
    run 0 emit "$work/in/own.yaml" -o "$work/in" -q
    run 0 "${given[@]}" --json -
    expect "another result than without the text" python '
import json, sys
a, b = ([(m["k"], m["sizes"]) for m in json.load(open(p))["models"]] for p in sys.argv[1:])
assert a == b' "$work/stdout" "$work/without.json"
    expect "nothing was compiled" there "$work"/cache/*.bin
    # Small data, for which the library's own kernels would serve: they take no text.
    run 0 "${given[@]}" --dry-run
    in_stdout '^design +(lanes|gemm) '
    in_stdout '^not taken +prebuilt +it is compiled into the library'
    in_stdout '^The GPU has no plan: cuda:sm_90 has no design '
    printf 'this is no C\n' >"$work/in/bad.c"
    run 1 fit "$iris" -k 2..5 --source "$work/in/bad.c" --json r.json
    in_stderr 'error: '
    one_line_error
    run 1 fit "$iris" -k 2..5 --source "$work/in/bad.c" --set design=prebuilt
    in_stderr 'the design prebuilt cannot be had: .*leave that out, or fix another design'
    one_line_error
    # The head says what the text is for.
    run 1 fit "$iris" -k 2..6 --source "$own"
    in_stderr 'emitted for 4 features, float32, clusters: 2\.\.5, and this fit has 4 .*, clusters: 2\.\.6'
    one_line_error
    run 1 fit "$iris" -k 2..5 --columns 1..3 --source "$own"
    in_stderr 'this fit has 3 features'
    run 1 "${given[@]}" --type f64
    in_stderr 'this fit has 4 features, float64'
    run 1 "${given[@]}" --set design=gemm
    in_stderr 'emitted with design lanes: fix no other one'
    run 1 "${given[@]}" --set vectors=8
    in_stderr 'emitted with vectors 4: fix no other one'
    run 0 "${given[@]}" --set vectors=4
    run 0 emit "$work/in/own.yaml" -o "$work/in" --target cuda -q
    run 1 fit "$iris" -k 2..5 --source "$work/in/own.cu"
    in_stderr 'emitted for cuda:sm_90, and this fit runs on cpu'
    # A head with a mistake, and none at all: then the text is taken as it is.
    sed 's|^// features: 4|// features: four|' "$own" >"$work/in/edited.c"
    run 1 fit "$iris" -k 2..5 --source "$work/in/edited.c"
    in_stderr 'the head of the source text:[0-9]+:[0-9]+: features'
    sed '1,/^$/d' "$own" >"$work/in/headless.c"
    run 0 fit "$iris" -k 2..5 --source "$work/in/headless.c"
    no_files
}

# A GPU whose compiler refuses every text, or is not there: the CPU, with one warning, unless a GPU was asked for.
fallback() {
    local fake=$build_root/tests/fake
    [ -e "$fake/libcuda.so.1" ] || exit 77
    export LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    blobs "$work/in/blobs.f32" 5000 4
    local given=(fit "$work/in/blobs.f32" --features 4 -k 2..5)
    # A fit that takes less time on the CPU than a GPU takes to start does not look at the GPU.
    run 0 "${given[@]}" -v
    in_stderr 'device: the CPU, about [0-9.]* ms for this fit; a GPU takes [0-9]+ to start'
    expect "the GPU was tried" test -z "$(grep 'is used' "$work/stderr")"
    # One that takes longer, twice as long on two threads.
    given+=(--n-init $((600 * $(nproc))) --max-iter 20 --refine none)
    run 0 "${given[@]}" --target cpu --json -
    cp "$work/stdout" "$work/cpu.json"
    falls_back() { # PATTERN: of the one warning
        run 0 "${given[@]}" --json -
        in_stderr "warning: the CPU is used: $1"
        expect "not one warning of it" test "$(grep -c 'is used' "$work/stderr")" = 1
        expect "not the CPU's result with this one warning more" python '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["models"] == b["models"] and a["target"] == b["target"]
assert len(a["warnings"]) == len(b["warnings"]) + 1, a["warnings"]' "$work/stdout" "$work/cpu.json"
    }
    falls_back 'the texts of all designs were refused .*tiled.*nvrtc 13.99 refused .* line 7: this text is not liked'
    # A dry run shows the plan of the GPU beside that of the CPU.
    run 0 "${given[@]}" --dry-run
    in_stdout '^target +cpu:.* cuda:sm_'
    # Points that do not fit it stay on the host, as far as that has room.
    truncate -s 1G "$work/in/large.f32"
    local large=(fit "$work/in/large.f32" --features 4 -k 2..5 -t cuda --dry-run --device-memory-max)
    run 0 "${large[@]}" 600M
    in_stdout '^ *of these, points for every pass +[0-9.]+ MiB$'
    in_stdout '^ *points come from the host, [0-9]+ at a time: .* 5 to seed'
    run 1 "${large[@]}" 600M --memory-max 500M
    in_stderr "a fit on a GPU needs [0-9.]+ [MG]iB of the machine's memory .* --memory-max leaves"
    run 1 "${large[@]}" 60M
    in_stderr 'do not fit: a fit on cuda:sm_90 needs .* \(--device-memory-max is 60\.0 MiB'
    # What one GPU has no room for two share.
    export FAKE_CUDA_DEVICES=2
    run 1 fit "$work/in/large.f32" --features 4 -k 2..5 -t cuda:all --device-memory-max 1500M -v
    in_stderr 'devices: 2 GPUs share the points'
    run 0 fit "$work/in/large.f32" --features 4 -k 2..5 -t cuda:all --device-memory-max 300M --dry-run
    in_stdout '^2 ranks share them'
    in_stdout '^ *points come from the host, [0-9]+ at a time: '
    unset FAKE_CUDA_DEVICES
    rm -f "$work/in/large.f32"
    # The tuning table that is asked then is the CPU's own.
    local cpu isa threads own entry
    own_table
    entry=('clusters: 2..5' 'type: float32' 'points: 5000' "threads: $threads"
        'plan: {design: prebuilt, concurrent_restarts: 3}' 'ms: 0.002')
    tuning_table "\"$cpu\"" "$isa" "${entry[@]}" 'templates: 0000000000000000' >"$own"
    run 0 "${given[@]}" --target cpu
    tuning_table "\"$cpu\"" "$isa" "${entry[@]}" \
        "templates: $(sed -n 's/.*now \([0-9a-f]*\)).*/\1/p' "$work/stderr")" >"$own"
    run 0 "${given[@]}" --json r.json
    expect "the CPU's table is not used" grep -qF "\"table\": \"$own\"" r.json
    rm -f "$own" r.json
    # What was asked for is not replaced.
    for option in '--target cuda' '--set design=tiled' '--set blocks_per_sm=1'; do
        # shellcheck disable=SC2086
        run 1 "${given[@]}" $option
        in_stderr 'line 7: this text is not liked'
        one_line_error
    done
    run 1 "${given[@]}" --target cuda --set design=tiled
    expect "other designs than the fixed one were tried" test -z "$(grep 'all designs' "$work/stderr")"
    # What a plan depends on of the device is kept: the next fit's compiler does not wait for the driver.
    came_first() { # WORD: the driver, or the compiler
        rm -f "$work/in/came.log"
        FAKE_CUDA_LOG=$work/in/came.log run 1 "${given[@]}" --target cuda --cache-dir "$work/in/recalled"
        in_stderr 'line 7: this text is not liked'
        expect "the $1 did not come first" test "$(head -n 1 "$work/in/came.log")" = "$1"
    }
    came_first driver
    came_first compiler
    run 0 cache clear --cache-dir "$work/in/recalled"
    came_first driver
    # A driver that takes no NVRTC that there is.
    export FAKE_CUDA_VERSION=11000
    falls_back 'NVRTC .* was not found'
    run 1 "${given[@]}" --target cuda
    in_stderr 'NVRTC .* was not found'
    no_files
}

# Waits until a job has said something, or is over.
await() { # JOB PATTERN
    until grep -q "$2" "$work/stderr" || ! kill -0 "$1" 2>/dev/null; do sleep 0.05; done
}

# Ctrl-C during a long job, by both signals that ask a program to end.
interrupt() {
    blobs "$work/in/long.f32" 60000 8
    for signal in INT TERM; do
        what="SIG$signal in a long fit"
        : >"$work/stderr"
        # A shell lets jobs in the background ignore SIGINT; env gives it back.
        env --default-signal=INT "$kmgen" fit "$work/in/long.f32" --features 8 -k 2..30 --n-init 60 --tol 0 \
            --target cpu --json r.json --labels l.npy --model m.json -v >"$work/stdout" 2>"$work/stderr" &
        local job=$!
        await $job 'fit: seeded'
        kill -"$signal" $job
        wait $job
        exit_status=$?
        expect "the fit was over before the signal, or failed otherwise: $exit_status" \
            test $exit_status = $((128 + $(kill -l $signal)))
        in_stderr 'the fit was interrupted'
        in_stdout 'digest: xxh3'
        what="what was written after SIG$signal"
        python3 - <<'END'
import json, os
r = json.load(open("r.json"))
m = json.load(open("m.json"))
assert r["interrupted"] is True
assert len(r["models"]) == 29 and all(len(m["centroids"]) == m["k"] for m in r["models"])
restarts = [inertia for m in r["models"] for inertia in m["restart_inertia"]]
assert restarts.count(None) > len(restarts) / 2, (restarts.count(None), len(restarts)) # it stopped with most undone
assert r["best"]["k"] in range(2, 31)
assert os.path.getsize("l.npy") > 60000
END
        expect "the files are not those of an interrupted fit" test $? = 0
        rm -f r.json l.npy m.json
    done

    # A checkpoint is named only where it was written.
    what='a signal before a run is done'
    : >"$work/stderr"
    env --default-signal=INT "$kmgen" fit "$work/in/long.f32" --features 8 -k 2..30 --n-init 60 --tol 0 \
        --target cpu --checkpoint runs -v >"$work/stdout" 2>"$work/stderr" &
    local early=$!
    await $early 'fit: points read'
    kill -INT $early
    wait $early
    if [[ ! -e runs ]]; then
        expect "a checkpoint is named that is not there" test "$(grep -c 'resume runs' "$work/stderr")" = 0
    fi
    rm -f runs

    # Before there are models, nothing is written; another signal after the first ends the program at once.
    what='two signals'
    : >"$work/stderr"
    env --default-signal=INT "$kmgen" fit "$work/in/long.f32" --features 8 -k 2..30 --n-init 60 --tol 0 \
        --target cpu --json r.json -v >"$work/stdout" 2>"$work/stderr" &
    local job=$!
    await $job 'fit: points read'
    kill -INT $job
    kill -TERM $job
    wait $job
    exit_status=$? # of whichever came last
    expect "the second signal did not end the fit: $exit_status" test $exit_status = 130 -o $exit_status = 143
    no_files
}

# The library as another project would use it: installed, found by pkg-config, built and run.
install() {
    local flags prefix abi tree=$work/tree
    what='meson install'
    meson install -C "$build_root" --no-rebuild --quiet --destdir "$tree" >"$work/stdout" 2>"$work/stderr"
    expect "meson install failed" test $? = 0
    PKG_CONFIG_PATH=$(dirname "$(find "$tree" -name kmgen.pc)")
    export PKG_CONFIG_PATH
    what='pkg-config'
    prefix=$tree$(pkg-config --variable=prefix kmgen)
    flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs kmgen 2>"$work/stderr")
    expect "pkg-config failed" test $? = 0
    what='cc docs/example.c'
    # shellcheck disable=SC2086
    cc -std=c11 -Wall -Wextra -Werror "$source_root/docs/example.c" $flags -o "$work/example" 2>"$work/stderr"
    expect "the example does not build" test $? = 0
    LD_LIBRARY_PATH=$(dirname "$(find "$tree" -name libkmgen.so)")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    # A program runs with a library of the minor version (from 1.0 on: the major one) whose headers it was built with.
    abi=$(pkg-config --modversion kmgen | sed -E 's/^(0\.[0-9]+|[1-9][0-9]*)\..*/\1/')
    expect "the program asks for another library" test \
        "$(objdump -p "$work/example" | sed -n 's/^ *NEEDED *\(libkmgen.*\)/\1/p')" = \
        "libkmgen.so.$abi"
    what=example
    "$work/example" "$iris" >"$work/stdout" 2>"$work/stderr"
    expect "the example fails" test $? = 0
    in_stdout '^K =  3  inertia +78\.85'
    in_stdout '^best K: [0-9]+'
    "$work/example" missing.csv >"$work/stdout" 2>"$work/stderr"
    expect "the example does not fail without data" test $? = 1
    in_stderr 'missing.csv'
    kmgen=$(find "$tree" -name kmgen -path '*/bin/*')
    run 0 fit "$iris" -k 2..4
    expect "the installed header has another version" grep -q \
        "KM_VERSION \"$(pkg-config --modversion kmgen)\"" "$(find "$tree" -path '*/kmgen/version.h')"
    # Wherever the tree lies: the library is found beside the program, examples, specs and schemas are there.
    what='an installed tree that was moved'
    mv "$tree" "$work/moved"
    env -u LD_LIBRARY_PATH "$work/moved${prefix#"$tree"}/bin/kmgen" version >"$work/stdout" 2>"$work/stderr"
    expect "the program does not find its library" grep -q '^kmgen ' "$work/stdout"
    mv "$work/moved" "$tree"
    for name in bash-completion/completions/kmgen.bash zsh/site-functions/_kmgen fish/vendor_completions.d/kmgen.fish \
        specs/small.yaml schemas/result.schema.json examples/elbow_main.c README.md; do
        expect "$name is not installed" test -n "$(find "$tree" -path "*/share/*$name")"
    done
    printf '%s\n' '#include <kmgen/kmgen.h>' '#if KM_VERSION_NUMBER < 1000' '#error' '#endif' >v.c
    # shellcheck disable=SC2086
    cc -fsyntax-only $flags v.c 2>"$work/stderr"
    expect "the version is no number for #if" test $? = 0
    rm v.c
    if command -v dpkg-deb >/dev/null; then
        what='scripts/package'
        "$source_root/scripts/package" "$work/packages" "$build_root" >"$work/stdout" 2>"$work/stderr"
        expect "no package is made" test $? = 0
        # Into a root with nothing in it.
        mkdir -p "$work/root/var/lib/dpkg/info" "$work/root/var/lib/dpkg/updates"
        touch "$work/root/var/lib/dpkg/status"
        dpkg --root="$work/root" --force-not-root --force-depends --log=/dev/null -i "$work"/packages/kmgen_*.deb \
            >"$work/stdout" 2>"$work/stderr"
        expect "the package is not installed" test $? = 0
        expect "its libraries are not named" grep -qE '^Depends: .*libc6.*libjansson4' "$work/root/var/lib/dpkg/status"
        env -u LD_LIBRARY_PATH "$work/root${prefix#"$tree"}/bin/kmgen" fit "$iris" -k 3 >"$work/stdout" 2>"$work/stderr"
        in_stdout 'best K = 3'
        if git -C "$source_root" rev-parse HEAD >/dev/null 2>&1; then
            expect "the archive lacks files" test "$(tar tf "$work"/packages/kmgen-*.tar.xz | grep -c '[^/]$')" = \
                "$(git -C "$source_root" ls-tree -r HEAD | wc -l)"
        fi
    fi
    expect "no man page is installed" test -n "$(find "$tree" -name 'kmgen.1*')"
    no_files
}

explore() {
    local table=$work/in/table.csv big=$work/in/big.csv
    python '
import random
random.seed(1)
print("a,b,c,same,word,few,amount,one,many")
for i in range(600):
    y = random.random() < .45
    b = random.gauss(2 * y, 1)
    print(random.gauss(0, 1), b, random.gauss(0, 5), 7, ["no", "yes"][y] if i % 10 else "", int(y), 3 * b, 1, f"w{i}",
          sep=",")' >"$table"
    run 0 explore "$table" --columns 1..4 --choose 1..2 -k 4 --n-init 2 --seed 5
    in_stdout '^6 of 6 subsets of 4 columns, by simplified silhouette$'
    in_stderr '1 of 4 columns never change \(the first is column same\)'
    # Words, numbers of classes, and numbers; rows without an outcome are not counted.
    run 0 explore "$table" --columns 1..3 --choose 1 -k 4 --outcome word --holdout 0.3 --json j.json --plot p.svg \
        --codes c.npy --model m-%d.json --best 2
    in_stdout '^     1  b  .*balanced|^     1  b '
    in_stdout 'rows that were held out; of 2 classes'
    expect "rows without an outcome are counted" python '
import json
r = json.load(open("j.json"))
assert r["outcome_rows"] == 540 and r["classes"] == 2 and r["subsets"][0]["columns"] == ["b"], r["outcome_rows"]
assert r["columns"][1]["among_best"] == 1 and sum(r["subsets"][0]["counts"]) == 600'
    run 0 predict m-2.json "$table" --labels l.npy
    expect "the model predicts other labels than the code" python '
import struct
codes, labels = open("c.npy", "rb").read(), open("l.npy", "rb").read()
codes, labels = codes[-1200:], struct.unpack("<600i", labels[-2400:])
assert [codes[2 * i + 1] for i in range(600)] == list(labels)'
    expect "no picture" grep -q 'svg' p.svg
    rm -f -- j.json p.svg c.npy l.npy m-1.json m-2.json
    run 0 explore "$table" --columns 1..3 --choose 1 -k 4 --outcome few --rank mutual_information
    in_stdout 'by mutual information'
    run 0 explore "$table" --columns 1..3 --choose 1 -k 4 --outcome amount
    in_stdout 'by R\^2'
    in_stdout '^     1  b '
    # All columns but the outcome, where none are named.
    python '
for i in range(60): print(i % 7, i % 11, i % 13, int(i % 7 > 3), sep=",")' >"$work/in/plain.csv"
    # Names that begin alike, and one of wide characters: each can be told, and columns stay straight.
    # shellcheck disable=SC2016 # awk's
    local straight='{ gsub(/年間売上高/, "1234567890"); if (length($0) != (w = w ? w : length($0))) exit 1 }'
    awk 'BEGIN { n = "yearly turnover of all the shops of the region "; print n "north," n "south,年間売上高,x"
        srand(2); for (i = 0; i < 90; i++) print rand() + i % 3 "," rand() "," rand() "," rand() }' >names.csv
    run 0 explore names.csv --choose 2 -k 3
    in_stdout '^ +[0-9]+  yearly.*\.\.\..*north, yearly.*\.\.\..*south '
    in_stdout '^  yearly .*\.\.\..*region south +[1-9]'
    expect "columns are ragged" awk "/^ +[0-9]+  /$straight" "$work/stdout"
    run 0 data names.csv
    expect "columns are ragged" awk "/^[*]/$straight" "$work/stdout"
    rm names.csv
    run 0 explore "$work/in/plain.csv" --outcome 4 --choose 1 -k 3
    in_stdout '^3 of 3 subsets of 3 columns'
    in_stdout '^     1  1 '
    python '
print("\"a, 1\",b,\"x, \"\"y\"\"\"")
for i in range(60): print(i % 3 + i % 7 / 99, i % 11, i % 3, sep=",")' >"$work/in/quoted.csv"
    run 0 explore "$work/in/quoted.csv" --outcome '"x, ""y"""' --choose 1 -k 3
    in_stdout '^2 of 2 subsets of 2 columns'
    run 0 explore "$work/in/quoted.csv" --outcome '"x, ""y"""' --exclude '"a, 1"' --choose 1 -k 3
    in_stdout '^1 of 1 subsets of 1 column'
    # What cannot be.
    run 2 explore "$table" --columns 1..3 --choose 0
    in_stderr "--choose must be how many columns, such as 3 or 2..4, from 1, got '0'"
    run 2 explore "$table" --columns 1..3 --choose 4
    in_stderr 'subsets of 4 columns cannot be: there are 3 to choose from'
    run 2 explore "$table" --columns 1..3 --choose 2 --subsets 4
    in_stderr 'there are 3 subsets of these sizes, fewer than 4: ask for as many at most'
    run 0 explore "$table" --columns 1..3 --choose 2 --subsets 4 --with-replacement -k 2 --n-init 1
    in_stdout '^4 draws of 3 subsets'
    run 2 explore "$table" --columns 1..3,few --choose 2 --outcome few
    in_stderr 'the outcome few is also a column that is clustered; leave it out of the columns, or exclude it'
    one_line_error
    run 0 explore "$table" --columns 1..3,few --exclude few --choose 2 --outcome few -k 2 --n-init 1 -v
    in_stderr 'explore: [0-9.e+]+ distances in the passes'
    in_stdout '^The best codes together'
    run 0 explore "$table" --columns 1..3 --choose 1 --outcome few -k 2 --n-init 1 --combine 0 --rank permuted \
        --json j.json
    expect "combinations in spite of --combine 0" python '
import json
r = json.load(open("j.json"))
assert "combined" not in r and r["rank"] == "permuted" and "permuted" in r["subsets"][0]["figures"], r.keys()'
    rm -f j.json
    run 1 explore "$table" --columns 1..3 --outcome one
    in_stderr 'the outcome one has one class only'
    # Words that mean a missing value are the same for points and outcomes.
    python '
print("a,colour")
for i in range(60): print(i % 7, ["red", "unknown", "?"][i % 3], sep=",")' >"$big"
    run 1 explore "$big" --columns a --choose 1 -k 3 --outcome colour --na-values unknown
    in_stderr 'the outcome colour has one class only'
    run 0 explore "$table" --columns 1..3 --choose 1 -k 2 --n-init 1 --outcome many
    in_stderr 'the outcome many has 600 classes in 600 rows: a code can say little'
    run 2 explore "$table" --columns 1..3 --outcome none
    in_stderr "--outcome: .* has no column"
    run 1 explore "$table" --columns 1..3 --outcome many --outcome-kind number
    in_stderr 'no number|numbers'
    run 2 explore "$table" --columns 1..3 --outcome word --rank r2
    in_stderr 'ranking by R\^2 needs an outcome of numbers, and word is one of classes'
    run 2 explore "$table" --columns 1..3 --include d
    in_stderr '--include: .* has no column "d"'
    run 1 explore "$work/in/plain.csv" -k 61
    in_stderr 'has 60 points, fewer than K = 61: ask for a smaller K'
    run 2 explore "$table" --columns 1..3 --choose 2 --with-replacement
    in_stderr 'drawing with replacement needs a number of subsets \(--subsets N\)'
    run 1 explore "$table" --columns 1..3,one --include one
    in_stderr 'column one never changes, and every subset is to have it: do not include it'
    # Before the runs, not after them.
    run 2 explore "$table" --columns 1..3 --choose 2 --plot p.txt
    in_stderr "explore: --plot writes .svg, .png or .pdf, got 'p.txt'"
    silent_stdout
    run 2 explore "$table" --columns 1..3 -k 300
    in_stderr 'K is 300; exploring takes 1..255'
    run 1 explore "$table" --columns 1..3 --target cuda:100
    in_stderr 'no CUDA device'
    one_line_error
    run 2 explore - --outcome few
    in_stderr 'which standard input cannot; name a file'
    # More classes than there may be, as words and as numbers.
    python '
print("a,word,number")
for i in range(5000): print(i % 9, f"w{i}", i, sep=",")' >"$big"
    run 1 explore "$big" --columns a --choose 1 -k 2 --outcome word
    in_stderr 'the outcome word has more than 4096 classes; its cells are text, so they cannot be numbers: name another'
    run 1 explore "$big" --columns a --choose 1 -k 2 --outcome number --outcome-kind class
    in_stderr 'more than 4096 classes; where it is a number, say so \(--outcome-kind number\)'
    run 0 explore "$big" --columns a --choose 1 -k 2 --outcome number
    in_stdout 'by R\^2'
    # Each number stays in its row, where others have none.
    python '
print("a,y")
for i in range(60): print(i % 3, "" if i % 7 == 0 or i > 57 else i % 3, sep=",")' >"$big"
    run 0 explore "$big" --choose 1 -k 3 --outcome y --outcome-kind number --json j.json
    expect "numbers of other rows" python '
import json
r = json.load(open("j.json"))
assert r["outcome_rows"] == 49 and r["subsets"][0]["figures"]["r2"] == 1, r'
    rm -f j.json
    # Ctrl-C gives what is done.
    python '
import random
random.seed(2)
for i in range(4000): print(*(round(random.random(), 4) for c in range(14)), sep=",")' >"$big"
    what='kmgen explore, interrupted'
    local delay job
    for delay in 0.5 1 2 4 8 16; do # until a subset is done when it comes
        env --default-signal=INT "$kmgen" explore "$big" --choose 1..6 --n-init 3 --tol 0 --json j.json \
            >"$work/stdout" 2>"$work/stderr" &
        job=$!
        sleep $delay
        kill -INT $job
        wait $job
        exit_status=$?
        grep -q 'interrupted after' "$work/stderr" && break
    done
    expect "exit status $exit_status after Ctrl-C" test $exit_status = 130
    in_stderr 'interrupted after [0-9]+ of [0-9]+ subsets: the result is of these'
    in_stdout '^[0-9]+ of 6475 subsets of 14 columns'
    expect "the JSON has none of what is done" python '
import json
r = json.load(open("j.json"))
assert 0 < r["count"] == len(r["subsets"]) < r["wanted"] == 6475'
    rm -f j.json
    no_files
}

"$group"
echo "$group: $checks checks, $wrong wrong"
[ "$wrong" = 0 ]
