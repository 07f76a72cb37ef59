#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Thirty sets of 10,000,000 x 100 float32 on this machine's GPU: passes of both layouts, and what `auto` takes.

    bench/sparse_sets.py --json FILE [--build build] [--sets 30] [--passes 10] [--arch sm_90] [--no-torch]
    bench/sparse_sets.py --table FILE        the table of the docs, from such a file

Half of the sets have 0 to 20 % zeros, half 80 to 95 % (drawn by a seed); K = 10. For each set the planner is asked for
the layout (`auto`), its CSR kernels run by cuda_sparse (labels and sums checked) over so many passes of a fit, and
torch.sparse multiplies the same shape by ten centroids. The dense design, whose passes read every value whatever it
is, is timed by cuda_pass on values of its own. Needs nvcc beside kmgen.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
POINTS, FEATURES, CLUSTERS, SEED = 10_000_000, 100, 10, 20
SPEC = "name: set\nfeatures: {d}\nclusters: {k}\ntarget: {target}\nlayout: {layout}\n"
TORCH = """
import sys, torch
n, d, k = (int(number) for number in sys.argv[1:4])
for share in map(float, sys.argv[4:]):
    torch.manual_seed(1)
    counts = torch.binomial(torch.full((n,), float(d), device='cuda'), torch.full((n,), share, device='cuda')).int()
    rows = torch.zeros(n + 1, dtype=torch.int32, device='cuda')
    rows[1:] = torch.cumsum(counts, 0)
    many = int(rows[-1])
    x = torch.sparse_csr_tensor(rows, torch.randint(0, d, (many,), dtype=torch.int32, device='cuda'),
                                torch.rand(many, device='cuda'), (n, d), check_invariants=False)
    b, ms = torch.rand(d, k, device='cuda'), []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        y = x @ b
        end.record()
        torch.cuda.synchronize()
        ms.append(begin.elapsed_time(end))
        del y
    print(share, sorted(ms[2:])[2], torch.__version__, flush=True)
    del x, rows, counts
"""


def shares(count):
    """Shares of zeros."""
    draws = random.Random(SEED)
    few = [draws.uniform(0, 0.2) for _ in range(count // 2)]
    return sorted(few) + sorted(draws.uniform(0.8, 0.95) for _ in range(count - count // 2))


def run(arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done


def spec_of(args, folder, name, layout, target):
    spec = os.path.join(folder, name + ".yaml")
    with open(spec, "w") as file:
        file.write(SPEC.format(d=FEATURES, k=CLUSTERS, target=target, layout=layout))
    return spec


def emitted(args, folder, name, layout, density):
    """The cubin of a layout."""
    spec = spec_of(args, folder, name, layout, "cuda:" + args.arch)
    source, cubin = (os.path.join(folder, name + end) for end in (".cu", ".cubin"))
    with open(source, "w") as file:
        file.write(run([args.kmgen, "emit", spec, "--density", f"{density:.4f}", "-o", "-"]).stdout)
    run(["nvcc", "-cubin", "-arch=" + args.arch, "-DKM_KERNELS_ONLY", "-o", cubin, source])
    return cubin


def chosen_layout(args, folder, name, density):
    """What a fit on this GPU takes: by its own figures, not those of a common board of its architecture."""
    spec = spec_of(args, folder, name, "auto", "cuda")
    said = run([args.kmgen, "explain", spec, "--device", "--points", str(POINTS), "--density", f"{density:.6f}"])
    return "csr" if "layout csr:" in said.stdout else "dense"


def build(args, folder, name):
    program = os.path.join(folder, name)
    run(["nvcc", "-O2", "-std=c++17", "-arch=" + args.arch, "-o", program, os.path.join(HERE, name + ".cu"), "-lcuda"])
    return program


def dense_ms(program, cubin, folder):
    listed = os.path.join(folder, "list")
    with open(listed, "w") as file:
        file.write(f"dense {cubin} {FEATURES} {CLUSTERS}..{CLUSTERS} float32 {POINTS} 2\n")
    return json.loads(run([program, "--json", listed]).stdout)["ms"]


def sparse_ms(program, cubin, density, passes):
    """First pass, mean of the others, the plain read."""
    said = run([program, cubin, str(POINTS), str(FEATURES), f"{density:.4f}", str(CLUSTERS), "f32", str(passes)]).stdout
    numbers = re.search(r"read ([\d.]+) ms.*pass first ([\d.]+) mean ([\d.]+)", said)
    if not numbers or "WRONG" in said:
        sys.exit(said)
    return [float(number) for number in numbers.groups()]


def measure(args):
    sets, folder = shares(args.sets), tempfile.mkdtemp()
    densities = [1 - zeros for zeros in sets]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = [pool.submit(build, args, folder, name) for name in ("cuda_sparse", "cuda_pass")]
        dense = pool.submit(emitted, args, folder, "dense", "dense", 1)
        cubins = [pool.submit(emitted, args, folder, f"csr{i}", "csr", each) for i, each in enumerate(densities)]
        chosen = [pool.submit(chosen_layout, args, folder, f"auto{i}", each) for i, each in enumerate(densities)]
        programs, dense = [each.result() for each in programs], dense.result()
        cubins, chosen = [each.result() for each in cubins], [each.result() for each in chosen]
    torch = {}
    if not args.no_torch:
        numbers = [str(number) for number in (POINTS, FEATURES, CLUSTERS, *densities)]
        said = run([sys.executable, "-c", TORCH, *numbers]).stdout
        for line in said.splitlines():
            share, ms, version = line.split()
            torch[share] = float(ms)
        args.torch_version = version
    rows, found = [], None
    for zeros, density, cubin, choice in zip(sets, densities, cubins, chosen):
        found = dense_ms(programs[1], dense, folder) if len(rows) % 10 == 0 else found
        read, first, later = sparse_ms(programs[0], cubin, density, args.passes)
        csr = (first + (args.passes - 1) * later) / args.passes
        rows.append({"zeros": zeros, "layout": choice, "csr_ms": csr, "csr_first_ms": first, "csr_later_ms": later,
                     "dense_ms": found, "read_ms": read, "torch_ms": torch.get(str(density))})
        print(f"{100 * zeros:5.1f} % zeros: {choice}; csr {csr:.3f} ms, dense {found:.3f} ms", flush=True)
    gpu = run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).stdout.strip()
    with open(args.json, "w") as file:
        json.dump({"gpu": gpu, "points": POINTS, "features": FEATURES, "clusters": CLUSTERS, "seed": SEED,
                   "passes": args.passes, "torch": getattr(args, "torch_version", None), "sets": rows}, file, indent=1)
        file.write("\n")


def table(path):
    with open(path) as file:
        found = json.load(file)
    sets = found["sets"]
    print("| zeros | auto takes | csr, ms | dense, ms | auto / the better | torch.sparse, ms |")
    print("|---|---|---|---|---|---|")
    for row in sets:
        own = row[row["layout"] + "_ms"]
        torch = f"{row['torch_ms']:.2f}" if row["torch_ms"] else ""
        print(f"| {100 * row['zeros']:.1f} % | {row['layout']} | {row['csr_ms']:.2f} | {row['dense_ms']:.2f} | "
              f"{own / min(row['csr_ms'], row['dense_ms']):.2f} | {torch} |")
    worst = max(row[row["layout"] + "_ms"] / min(row["csr_ms"], row["dense_ms"]) for row in sets)
    gains = [row["dense_ms"] / row["csr_ms"] for row in sets if row["layout"] == "csr"]
    print(f"\nAuto takes at most {100 * (worst - 1):.0f} % more than the better layout.", end="")
    if gains:
        print(f" Where it takes csr, a pass is {min(gains):.2f} to {max(gains):.2f} times as fast as the dense one, "
              f"in the median {statistics.median(gains):.2f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--table")
    parser.add_argument("--build", default="build")
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    if args.table:
        return table(args.table)
    if not args.json:
        parser.error("--json FILE or --table FILE")
    args.kmgen = os.environ.get("KMGEN", os.path.join(args.build, "cli", "kmgen"))
    return measure(args)


if __name__ == "__main__":
    main()
