#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often each criterion, and the default rule, finds the right K: the tables of docs/criteria.md.

    bench/decision.py KMGEN [--sets N] [--first I] [--family NAME] [--shared FOLDER] [--jobs N] [--json FILE]

Fits N tables of each family of bench/decision_sets.py (I, I + 1, ...) and prints, by family, how many times each
criterion's K was right; how often the rule is right on a family with constants chosen on all others; and for families
without clusters how many times that was said. KMGEN is the program. Lists go from 2 to one and a half times the right
K, or to 8; without clusters from 2 to 10. FOLDER holds published tables. Needs numpy and scikit-learn.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import decision_sets as sets  # noqa: E402


def generator(family, i):
    return np.random.default_rng([zlib.crc32(family.__name__.encode()), i])


def tables(args):
    """(family, name, points, clusters or 1)"""
    for family in sets.CLUSTERED:
        if args.family and family.__name__ != args.family:
            continue
        for i in range(args.first, args.first + args.sets):
            x, k = family(generator(family, i))
            yield family.__name__, str(i), x, k
    for family in sets.NONE if not args.family else []:
        for i in range(args.first, args.first + args.sets):
            yield family.__name__, str(i), family(generator(family, i)), 1
    if args.shared:
        for name, x, k in sets.real(args.shared):
            yield "real", name, x, k


def fit(args, folder, table):
    family, name, x, k = table
    path = os.path.join(folder, f"{family}-{name}.npy")
    np.save(path, x.astype(np.float32))
    last = max(8, -(-3 * k // 2)) if k > 1 else 10
    command = [args.kmgen, "fit", path, "-k", f"2..{last}", "--target", "cpu", "--set", "design=prebuilt",
               "--threads", "1", "--quiet", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    os.remove(path)
    if done.returncode:
        sys.exit(f"{family} {name}: {done.stderr}")
    result = json.loads(done.stdout)
    best = result["best"]
    return {"family": family, "name": name, "k": k, "n": result["n"], "d": result["d"], "auto": best["k"],
            "clustered": best["clustered"], "votes": best["votes"],
            "valleys": [(m["k"], m["scores"]["valley"]) for m in result["models"]]}


def majority(votes):
    counts = collections.Counter(k for k in votes.values() if k)
    return min(counts, key=lambda k: (-counts[k], k)) if counts else None


def hits(rows):
    """By family: number of tables, then of each choice how many times it was right."""
    table = {}
    for row in rows:
        if row["k"] == 1:
            continue
        line = table.setdefault(row["family"], collections.Counter())
        line["tables"] += 1
        line["auto"] += row["auto"] == row["k"]
        for name, k in row["votes"].items():
            line[name] += k == row["k"]
        formulas = {name: k for name, k in row["votes"].items() if name != "valley"}
        line["majority"] += majority(formulas) == row["k"]
        line["any criterion"] += row["k"] in row["votes"].values()
        line["said: none"] += not row["clustered"]
    return table


def print_hits(rows):
    table = hits(rows)
    columns = ["tables", "auto", "valley", "calinski_harabasz", "simplified_silhouette", "davies_bouldin", "wb",
               "xie_beni", "pbm", "bic", "krzanowski_lai", "majority", "any criterion", "said: none"]
    print("| family | " + " | ".join(c.replace("_", " ") for c in columns) + " |")
    print("|---|" + "---|" * len(columns))
    total = collections.Counter()
    for family, line in table.items():
        total.update(line)
        print(f"| {family.replace('_', ' ')} | " + " | ".join(str(line[c]) for c in columns) + " |")
    print("| all | " + " | ".join(str(total[c]) for c in columns) + " |")


COUNTED = ["calinski_harabasz", "davies_bouldin", "simplified_silhouette", "bic", "wb", "xie_beni", "pbm",
           "krzanowski_lai", "valley"]


def rule(row, votes_min, hump_max):
    """The default rule with other constants than those of runtime/select.c, 2 and -1."""
    votes = collections.Counter(row["votes"][name] for name in COUNTED)
    valleys = dict(row["valleys"])
    most = max(votes[k] for k in valleys)
    agreed = [k for k in valleys if votes[k] >= votes_min and not (valleys[k] or 0) <= hump_max
              and (k < max(valleys) or votes[k] == most)]
    return max(agreed) if agreed and row["clustered"] else row["votes"]["simplified_silhouette"]


def print_left_out(rows):
    """Each family by the constants that are best on all others."""
    rows = [row for row in rows if row["k"] > 1]
    families = list(dict.fromkeys(row["family"] for row in rows))
    grid = [(v, h) for v in (1, 2, 3) for h in (-2, -1.5, -1, -0.5, 0, 1)]
    right = {c: collections.Counter(r["family"] for r in rows if rule(r, *c) == r["k"]) for c in grid}
    print("\n| family left out | best on the others: votes, valley above | right with them | right with 2, -1 |")
    print("|---|---|---|---|")
    total = collections.Counter()
    for family in families:
        best = max(grid, key=lambda c: sum(right[c].values()) - right[c][family])
        total.update(best=right[best][family], own=right[(2, -1)][family])
        cells = [family.replace("_", " "), f"{best[0]}, {best[1]}", right[best][family], right[(2, -1)][family]]
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
    print(f"| all of {len(rows)} | | {total['best']} | {total['own']} |")
    print("\n| votes | " + " | ".join(f"valley above {h}" for _, h in grid[:6]) + " |\n|---|" + "---|" * 6)
    for v in (1, 2, 3):
        print(f"| {v} | " + " | ".join(str(sum(right[(v, h)].values())) for _, h in grid[:6]) + " |")


def print_none(rows):
    table = {}
    for row in rows:
        if row["k"] == 1:
            line = table.setdefault(row["family"], [0, 0])
            line[0] += 1
            line[1] += not row["clustered"]
    print("\n| family without clusters | tables | said so |\n|---|---|---|")
    for family, (count, said) in table.items():
        print(f"| {family.replace('_', ' ')} | {count} | {said} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kmgen")
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shared")
    parser.add_argument("--family", help="only this family of tables with clusters")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write what each fit said")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(lambda table: fit(args, folder, table), tables(args)))
    print_hits(rows)
    print_left_out(rows)
    print_none(rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(rows, out)


if __name__ == "__main__":
    main()
