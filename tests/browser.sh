#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pages of fits in a real browser (tests/browser.py): wide, tablet, phone, dark and printed. Skips where there is no
# Chromium; `scripts/test --all` installs it. The short form opens one page, the whole one (KMGEN_TEST_ALL=1) all.
# Usage: browser.sh KMGEN SOURCE_ROOT [FOLDER]    (FOLDER keeps the screenshots, to be looked at)
set -euo pipefail
kmgen=$1 root=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || exit 77
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shots=${3:-$work/shots}
mkdir -p "$shots"
pages=()
page() { # NAME ARGUMENTS...
    pages+=("$work/$1.html")
    "$kmgen" fit "${@:2}" --target cpu --set design=prebuilt -q --report "$work/$1.html" >"$work/table"
}
# Tables that the project has no file of: NAME of three clusters, with so many rows and columns.
table() { # FILE ROWS COLUMNS NAME-OF-A-COLUMN
    python3 - "$@" <<'PYTHON'
import csv, random, sys
random.seed(1)
rows, columns = int(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[1], "w", newline="") as file:
    out = csv.writer(file)
    out.writerow([sys.argv[4] if f % 7 == 0 else f"feature {f}" for f in range(columns)])
    for i in range(rows):
        out.writerow(["%.3f" % (random.gauss(i % 3 * (f % 5), 1)) for f in range(columns)])
PYTHON
}

page iris "$root/tests/data/iris.csv" -k 2..10
if [ -n "${KMGEN_TEST_ALL:-}" ]; then
    name='</script><b>"a name" & &lt;more&gt; '$(printf 'long%.0s' {1..2500})
    table "$work/wide.csv" 300 200 "$name"
    table "$work/long.csv" 20000 3 x
    printf 'a,b\n1,2\n3,4\n10,1\n' >"$work/three.csv"
    page wide "$work/wide.csv" -k 1..8
    page long "$work/long.csv" -k 5..64 --n-init 2
    page three "$work/three.csv" -k 2
    page faithful "$root/tests/data/faithful.csv" -k 1..6 --scale standard --type f64
fi
python3 "$root/tests/browser.py" "$browser" "$shots" "${pages[@]}"
