#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Whole emitted texts of this tree beside those of another commit: what the hashes of tests/golden/plans.txt stand for.
# usage: tests/golden_diff.sh [COMMIT [TARGET...]]    (default: HEAD, cpu:avx2 cuda:sm_90)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
commit=${1:-HEAD}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(cpu:avx2 cuda:sm_90)
work=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$work/tree" 2>/dev/null; rm -rf "$work"' EXIT
git -C "$root" worktree add --quiet --detach "$work/tree" "$commit"

emit() { # TREE FOLDER: the texts of this tree's specs by the program of TREE
    local spec target
    meson setup "$2.build" "$1" >/dev/null
    ninja -C "$2.build" cli/kmgen >"$work/log" || { tail -n 20 "$work/log" >&2; exit 1; }
    for target in "${targets[@]}"; do
        mkdir -p "$2/$target"
        for spec in "$root"/specs/*.yaml; do
            "$2.build/cli/kmgen" -q "$spec" --target "$target" -o "$2/$target" 2>/dev/null || true # another target's
        done
    done
}
emit "$work/tree" "$work/before"
emit "$root" "$work/after"
diff -ru "$work/before" "$work/after" && echo "no text differs"
