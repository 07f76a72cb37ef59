#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How the time of a pass grows with the features and with K: where it makes a step.

    bench/steps.py --build build --work FOLDER [--make] [--json FILE]

A table of passes over points of together 256 MiB (float64: 512): their time, by bench/cuda_pass.cu, which checks them,
divided by the larger of a plain read and the time of the issued arithmetic. The lists 3..5, 3..12, 2..20 and K = 10
alone for 2 to 129 features, and K alone to 300 for 2, 8 and 32 features. Marked is where that ratio is over 35% more
than of one feature or one K less of the table. --make emits and compiles, which needs no GPU but nvcc, and ends; a
FOLDER that has been made is used again.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

import gpu

VALUES = 1 << 26  # n times d
STEP = 1.35
FEATURES = [2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 20, 21, 24, 32, 33, 40, 48, 64, 65, 96, 128, 129]
LISTS = [(3, 5), (3, 12), (2, 20), (10, 10)]
SINGLE_FEATURES = [2, 8, 32]
SINGLES = [3, 5, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 300]
FAR = [(2, 512, "float32"), (2, 1000, "float32"), (4, 33, "float64"), (4, 64, "float64"), (4, 100, "float64"),
       (8, 20, "float64"), (784, 10, "float32"), (784, 20, "float32"), (100, 10, "float32"), (300, 10, "float32")]


def shapes_make(args, arch):
    shapes = {}
    for d, low, high, kind in shapes_wanted():
        job = gpu.row(d, low, high, kind, VALUES // d // 32 * 32)
        name = f"d{d}_k{low}_{high}_{kind}"
        path, said = gpu.source_make(args.kmgen, args.work, name, job, low, high, arch)
        if not path:
            print(f"{name}: {said}", file=sys.stderr)
            continue
        shapes[name] = dict(name=name, job=job, low=low, high=high, source=path, single=False, runs=2, design=said)
    return shapes


def shapes_wanted():
    wanted = [(d, low, high, "float32") for low, high in LISTS for d in FEATURES]
    wanted += [(d, k, k, "float32") for d in SINGLE_FEATURES for k in SINGLES]
    wanted += [(d, k, k, kind) for d, k, kind in FAR]
    return list(dict.fromkeys(wanted))


def table(title, cells, shapes, found):
    print(f"\n{title}\n{'':>8} {'ms':>9} {'read':>8} {'issue':>8} {'ratio':>6}  design")
    before = None
    for label, name in cells:
        if name not in found:
            continue
        got = found[name]
        ratio = got["ms"] / max(got["read_ms"], got["issue_ms"])
        step = before and ratio / before
        mark = f"  <- step {step:.2f}" if step and step > STEP else ""
        print(f"{label:>8} {got['ms']:9.4f} {got['read_ms']:8.4f} {got['issue_ms']:8.4f} {ratio:6.2f}  "
              f"{shapes[name]['design']}{'' if got['right'] else ' WRONG'}{mark}")
        before = ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--kmgen")
    parser.add_argument("--work", required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    args.kmgen = args.kmgen or os.path.join(args.build, "cli", "kmgen")
    args.n = None
    made = os.path.join(args.work, "made.json")
    args.cuda_pass = os.path.join(args.work, "cuda_pass")
    if not os.path.exists(made):
        os.makedirs(args.work, exist_ok=True)
        subprocess.run([args.nvcc, "-O2", "-std=c++17", f"-arch=sm_{args.arch}", "-o", args.cuda_pass,
                        os.path.join(gpu.HERE, "cuda_pass.cu"), "-lcuda"], check=True)
        shapes = shapes_make(args, args.arch)
        gpu.compile_all(shapes, args.nvcc, args.arch)
        with open(made, "w") as out:
            json.dump(shapes, out)
    if args.make:
        return 0
    with open(made) as source:
        shapes = json.load(source)
    found = gpu.passes_run(shapes, args, args.work)
    for low, high in LISTS:
        what = f"K = {low}" if low == high else f"K = {low}..{high}"
        table(f"{what}, by features", [(d, f"d{d}_k{low}_{high}_float32") for d in FEATURES], shapes, found)
    for d in SINGLE_FEATURES:
        table(f"{d} features, by K", [(k, f"d{d}_k{k}_{k}_float32") for k in SINGLES], shapes, found)
    table("others", [(f"{d} {k} {kind[5:]}", f"d{d}_k{k}_{k}_{kind}") for d, k, kind in FAR], shapes, found)
    if args.json:
        with open(args.json, "w") as out:
            json.dump({name: dict(found[name], design=shapes[name]["design"]) for name in found}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
