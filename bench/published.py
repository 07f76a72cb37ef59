#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Published tables: what each criterion chooses beside scikit-learn's scores of the same labels, and sums of squares
with and without refinement beside scikit-learn's fits: the tables of docs/history/2026-11-23-published.md.

    bench/published.py KMGEN FOLDER [--seeds N] [--jobs N] [--json FILE]

KMGEN is the program, FOLDER holds iris.csv, faithful.csv, ruspini.csv, wdbc.csv, digits_u8.npy, s1.csv, a1.csv and
unbalance.csv. Fits are of float64 with the default list 2..20, on the CPU by ready-made kernels and one thread. Needs
numpy and scikit-learn.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from sklearn import metrics
from sklearn.cluster import KMeans

# Labelled K, K whose sums are compared, and the best sums of squares that are known.
SETS = {
    "iris.csv": (3, [2, 3, 4, 7, 8], {
        2: 152.347951760358, 3: 78.851441426146, 4: 57.2284732142857, 7: 34.2982296650718, 8: 29.9889439507861}),
    "faithful.csv": (2, [2, 3], {2: 8901.7687209472}),
    "ruspini.csv": (4, [3, 4, 5, 7, 8, 9, 10], {
        3: 51063.4750456705, 4: 12881.0512361466, 5: 10126.7197881828, 7: 7126.19854312354, 8: 6149.639019314019,
        9: 5181.65183982684, 10: 4446.28214285714}),
    "wdbc.csv": (2, [2, 3], {2: 77943099.8783}),
    "digits_u8.npy": (10, [9, 10, 11], {}),
    "s1.csv": (15, [14, 15, 16], {15: 8.91761561687e12}),
    "a1.csv": (20, [19, 20], {20: 12146257522.3}),
    "unbalance.csv": (8, [7, 8, 9], {8: 214492062848}),
}
CRITERIA = ["calinski_harabasz", "davies_bouldin", "simplified_silhouette", "silhouette", "silhouette_euclidean",
            "bic", "aic", "wb", "xie_beni", "pbm", "hartigan", "krzanowski_lai", "valley", "gap", "gap_2001",
            "stability", "prediction_strength"]
# scikit-learn's functions of the same names, and whether the highest value is the best.
SCORES = {
    "calinski_harabasz": (metrics.calinski_harabasz_score, max),
    "davies_bouldin": (metrics.davies_bouldin_score, min),
    "silhouette": (lambda x, labels: metrics.silhouette_score(x, labels, metric="sqeuclidean"), max),
    "silhouette_euclidean": (metrics.silhouette_score, max),
}


def points_of(path):
    if path.endswith(".npy"):
        return np.load(path).astype(np.float64)
    with open(path, encoding="utf-8") as lines:
        head = not lines.readline().strip()[0].isdigit()
    return np.loadtxt(path, delimiter=",", skiprows=int(head))


def fit(args, path, *options):
    command = [args.kmgen, "fit", path, "--type", "f64", "--target", "cpu", "--set", "design=prebuilt",
               "--threads", "1", "--quiet", "--json", "-", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def choices(args, name):
    """What every criterion chooses, and scikit-learn's scores of the same labels."""
    path = os.path.join(args.folder, name)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "labels.npy")
        result = fit(args, path, "--criteria", "all", "--labels", file, "--labels-of", "all")
        labels = np.load(file)
    points = points_of(path)
    out = {"set": name, "k": SETS[name][0], "auto": result["best"]["k"], "clustered": result["best"]["clustered"],
           "votes": result["best"]["votes"], "scikit_learn": {}}
    for criterion, (score, best) in SCORES.items():
        theirs = {m["k"]: float(score(points, labels[:, i])) for i, m in enumerate(result["models"])}
        ours = {m["k"]: m["scores"][criterion] for m in result["models"]}
        out["scikit_learn"][criterion] = {
            "k": best(theirs, key=theirs.get),
            "differs": max(abs(ours[k] - theirs[k]) / abs(theirs[k]) for k in theirs)}
    return out


def scikit_learn(args, name):
    """Inertia of KMeans(n_init=10) by K and seed, and the milliseconds of one."""
    points, out = points_of(os.path.join(args.folder, name)), {}
    for k in SETS[name][1]:
        began = time.process_time()
        values = [float(KMeans(k, n_init=10, random_state=seed).fit(points).inertia_) for seed in range(args.seeds)]
        out[k] = {"inertia": values, "ms": (time.process_time() - began) / args.seeds * 1e3}
    return out


def sums(args, name):
    path, out = os.path.join(args.folder, name), {"set": name, "k": {}}
    results = {how: [fit(args, path, "--refine", how, "--seed", str(seed)) for seed in range(args.seeds)]
               for how in ("none", "auto")}
    theirs = scikit_learn(args, name)
    for how in results:
        for phase in ("sweep", "refine"):
            out[f"{how}_{phase}_ms"] = float(np.median([r["timing_ms"][phase] for r in results[how]]))
    for k in SETS[name][1]:
        values = {how: [m["inertia"] for r in results[how] for m in r["models"] if m["k"] == k] for how in results}
        values["scikit_learn"] = theirs[k]["inertia"]
        least = min(min(v) for v in values.values())
        known = SETS[name][2].get(k)
        best = known if known else least
        out["k"][k] = {"best": best, "known": bool(known), "scikit_learn_ms": theirs[k]["ms"]}
        for how, v in values.items():
            out["k"][k][how] = {"reached": sum(x <= best * (1 + 1e-6) for x in v), "worst": max(v) / best - 1,
                                "median": float(np.median(v))}
    return out


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |")
    print()


def print_choices(all_choices):
    head = ["table", "K", "auto"] + [c.replace("_", " ") for c in CRITERIA]
    table(head, [[c["set"].split(".")[0], c["k"], c["auto"] if c["clustered"] else f"{c['auto']}, none"] +
                 [c["votes"].get(name) or "-" for name in CRITERIA] for c in all_choices])
    head = ["table"] + [f"{c.replace('_', ' ')}: K here, scikit-learn's, difference" for c in SCORES]
    table(head, [[c["set"].split(".")[0]] +
                 [f"{c['votes'].get(s)}, {v['k']}, {v['differs']:.0e}" for s, v in c["scikit_learn"].items()]
                 for c in all_choices])


def print_sums(all_sums, seeds):
    head = ["table", "K", "best known", "without refinement", "with", "scikit-learn", "worst without", "with",
            "scikit-learn"]
    rows = []
    for s in all_sums:
        for k, v in s["k"].items():
            ways = [v[how] for how in ("none", "auto", "scikit_learn")]
            rows.append([s["set"].split(".")[0], k, f"{v['best']:.9g}" + ("" if v["known"] else " (least seen)")] +
                        [f"{w['reached']} of {seeds}" for w in ways] + [f"{max(w['worst'], 0):.1e}" for w in ways])
    table(head, rows)
    head = ["table", "sweep, ms", "refinement, ms", "scikit-learn at the K above, each, ms"]
    table(head, [[s["set"].split(".")[0], f"{s['auto_sweep_ms']:.1f}", f"{s['auto_refine_ms']:.1f}",
                  ", ".join(f"{v['scikit_learn_ms']:.0f}" for v in s["k"].values())] for s in all_sums])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kmgen")
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        all_choices = list(pool.map(choices, [args] * len(SETS), SETS))
        all_sums = list(pool.map(sums, [args] * len(SETS), SETS))
    print_choices(all_choices)
    print_sums(all_sums, args.seeds)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"choices": all_choices, "sums": all_sums, "seeds": args.seeds}, out, indent=1)


if __name__ == "__main__":
    main()
