#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kmgen's CUDA engine on this machine's GPU: passes, loop, whole fits, and what people use today, in one run.

    bench/gpu.py [--build build] [--json FILE] [--rows NAME,...] [--only pass,peers,loop,fit,end] [--designs]
                 [--flash-kmeans FOLDER] [--quick] [--list]

pass    Every shape of ROWS by the planner's own choice (--designs: by every design that can be had), checked against a
        reference in double in the program that times it (bench/cuda_pass.cu), beside a plain read of the same points
        in the same run and the time of the issued arithmetic; and the same engine doing one K after another, each K
        with a plan of its own.
peers   flash-kmeans, PyTorch and scikit-learn, per iteration of the whole list, each K in turn (bench/gpu_peers.py says
        how each is run). PyTorch, Triton and scikit-learn must be in the Python of --python; flash-kmeans' sources
        (github.com/svg-project/flash-kmeans) in a folder. What lacks is said and left out.
loop    Microseconds of an iteration with the host's part, by km_fit.
fit     A whole fit of few points: data in memory, context made, kernels in the cache.
end     A whole fit of a large .npy in the page cache, phase by phase, and the speed of a copy from pinned memory.

Needs a CUDA toolkit (nvcc), a GPU and a built project. --list prints the rows with what the planner says of them and
needs only the build; --quick takes few and small rows: it shows that the bench runs, not how fast anything is.
Fails if a check fails. Exit 77: the machine has no GPU or no nvcc. --json FILE is written anew after each part.
bench/results/gpu.json is the last full run; bench/tables.py makes the tables of the docs of it.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import tables

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
POINTS, POINTS_QUICK = 33_554_432, 1_048_576
PARTS = ["pass", "peers", "loop", "fit", "end"]
RUNS_SAME, RUNS_SINGLE = 20, 3  # runs that must give the same bits: of a row, of one of its K alone


# Rows -----------------------------------------------------------------------------------------------------------


def row(d, low, high, kind="float32", n=POINTS, peers=False):
    name = f"d{d}_k{low}_{high}" if low != high else f"d{d}_k{low}"
    name += "_f64" if kind == "float64" else ""
    name += f"_n{n >> 20}Mi" if n not in (POINTS, 1_000_000) else ""
    return dict(name=name, d=d, low=low, high=high, type=kind, n=n, peers=peers)


def rows_table():
    rows = []
    for low, high, ds in [(3, 5, (4, 8, 16, 32)), (3, 7, (4, 8, 16)), (3, 12, (4, 8, 16)), (2, 20, (4, 8))]:
        rows += [row(d, low, high, peers=d != 32 and high in (5, 12)) for d in ds]
    rows += [row(d, 2, 12) for d in (2, 3, 18, 64)] + [row(d, 3, 12) for d in (32, 128)] + [row(8, 256, 256)]
    rows += [row(d, 3, 7, "float64") for d in (4, 8)]
    rows += [row(128, 1024, 1024, n=1_000_000, peers=True), row(4, 3, 5, n=POINTS_QUICK)]
    return {r["name"]: r for r in rows}


ROWS = rows_table()
QUICK = ["d4_k3_5", "d8_k3_7", "d4_k3_7_f64"]


# Sources --------------------------------------------------------------------------------------------------------


def source_make(kmgen, folder, name, job, low, high, arch, design=None):
    """Emits one source. Returns its path, or None, and the planner's design or why it refuses."""
    spec = os.path.join(folder, name + ".yaml")
    with open(spec, "w") as out:
        out.write(f"name: {name}\nfeatures: {job['d']}\nclusters: {low}..{high}\ntype: {job['type']}\n"
                  f"target: cuda:sm_{arch}\nn_init: 1\n")
    command = [kmgen, "emit", "-o", folder, spec] + (["--set", f"design={design}"] if design else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().removeprefix("kmgen: ")
    return os.path.join(folder, name + ".cu"), re.search(r", design (\w+)", done.stderr).group(1)


def estimates(kmgen, folder, name, n):
    """What `kmgen explain` says of each design: ms of a pass and what bounds it."""
    done = subprocess.run([kmgen, "explain", os.path.join(folder, name + ".yaml"), "--points", str(n)],
                          capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 8 and words[0] in tables.CUDA_DESIGNS and re.fullmatch(r"[\d.e+]+", words[6]):
            found[words[0]] = dict(ms=float(words[6]), bound=words[7])
    return found


def shapes_of(names, args, folder, arch):
    """Sources of the rows, of their K alone and of each design: dicts by name. Emitting takes a moment each."""
    shapes = {}

    def add(name, job, low, high, design=None, runs=RUNS_SAME, single=False):
        if name in shapes:
            return
        path, said = source_make(args.kmgen, folder, name, job, low, high, arch, design)
        shapes[name] = dict(name=name, job=job, low=low, high=high, source=path, single=single, runs=runs,
                            **(dict(design=said) if path else dict(refused=said)))

    for name in names:
        job = ROWS[name]
        add(name, job, job["low"], job["high"])
        shapes[name]["estimates"] = estimates(args.kmgen, folder, name, args.n or job["n"])
        for design in tables.CUDA_DESIGNS if args.designs else []:
            if design != shapes[name].get("design"):
                add(f"{name}__{design}", job, job["low"], job["high"], design)
        if args.singles and job["low"] != job["high"]:
            for k in range(job["low"], job["high"] + 1):
                add(single_name(job, k), job, k, k, runs=RUNS_SINGLE, single=True)
    return shapes


def single_name(job, k):
    return f"one_d{job['d']}_k{k}" + ("_f64" if job["type"] == "float64" else "") + (
        f"_n{job['n']}" if job["n"] != POINTS else "")


def compile_all(shapes, nvcc, arch):
    """Machine code of every source, on all cores, without load, seed and finish, which no pass calls and which take
    as long to compile. A design may ask for the architecture's own instructions."""
    def build(shape):
        with open(shape["source"]) as source:
            text = source.read()
        begin = text.find("\n// Load: ", text.find("\n// Steps around the pass"))
        end = text.find("\n// Update: ", begin)
        path = shape["source"].replace(".cu", ".pass.cu")
        with open(path, "w") as out:
            out.write(text[:begin] + text[end:] if 0 < begin < end else text)
        shape["cubin"] = path[:-3] + ".cubin"
        target = f"{arch}a" if arch >= 90 and "// needs: arch-specific" in text else str(arch)
        done = subprocess.run([nvcc, f"-gencode=arch=compute_{target},code=sm_{target}", "-std=c++17",
                               "-DKM_KERNELS_ONLY", "-cubin", "-o", shape["cubin"], path],
                              capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"{path}: {done.stderr}"

    wanted = [s for s in shapes.values() if s["source"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [said for said in pool.map(build, sorted(wanted, key=lambda s: -s["high"])) if said]
    if failed:
        raise SystemExit("nvcc refused an emitted source\n" + failed[0])


# Passes ---------------------------------------------------------------------------------------------------------


def passes_run(shapes, args, folder):
    """Every shape through bench/cuda_pass.cu; results by name. Shapes of the same points follow each other."""
    listing = os.path.join(folder, "shapes")
    order = [s for s in shapes.values() if s["source"]]
    order.sort(key=lambda s: (s["job"]["type"], s["job"]["d"], s["job"]["n"], s["single"]))
    with open(listing, "w") as out:
        for s in order:
            job = s["job"]
            out.write(f"{s['name']} {s['cubin']} {job['d']} {s['low']}..{s['high']} {job['type']} "
                      f"{args.n or job['n']} {s['runs']}\n")
    done = subprocess.run([args.cuda_pass, "--json", listing], stdout=subprocess.PIPE, text=True, check=False)
    found = {r["name"]: r for r in map(json.loads, done.stdout.splitlines())}
    missing = [s["name"] for s in order if s["name"] not in found]
    if missing:
        raise SystemExit(f"cuda_pass stopped at {missing[0]}; its message stands above")
    return found


def row_result(name, shapes, found):
    """One line of the table: time, floors, ratios, and the K one after another."""
    job, shape, got = ROWS[name], shapes[name], found[name]
    floor = max(got["read_ms"], got["issue_ms"])
    out = dict(row=name, d=job["d"], clusters=[job["low"], job["high"]], type=job["type"], n=got["n"],
               design=shape["design"], ms=got["ms"], read_ms=got["read_ms"], issue_ms=got["issue_ms"],
               per_read=got["ms"] / got["read_ms"], per_floor=got["ms"] / floor, right=got["right"],
               worst_per_point=got["worst"], same_bits=got["same_bits"], runs=got["runs"], each_k_ms=None, gain=None,
               estimates=shape["estimates"], designs={})
    singles = [found.get(single_name(job, k)) for k in range(job["low"], job["high"] + 1)]
    if job["low"] != job["high"] and all(singles):
        out["each_k_ms"] = sum(s["ms"] for s in singles)
        out["gain"] = out["each_k_ms"] / got["ms"]
        out["right"] = out["right"] and all(s["right"] for s in singles)
    for design in tables.CUDA_DESIGNS:
        other = shapes.get(f"{name}__{design}", shape if design == shape["design"] else None)
        if other and other["source"]:
            out["designs"][design] = dict(ms=found[other["name"]]["ms"], right=found[other["name"]]["right"])
        elif other:
            out["designs"][design] = dict(refused=other["refused"])
    return out


# Whole fits -----------------------------------------------------------------------------------------------------


def fits(args, folder, points, clusters, turns, *options):
    """`turns` fits of one process after one that is not reported. Returns them and the context's ms."""
    command = [args.fit_worker, points, clusters, "target=cuda", f"cache={os.path.join(folder, 'cache')}", *options]
    done = subprocess.run(command, input="go\n" * turns, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or "ready" not in lines:
        raise SystemExit("fit_worker stopped; its message stands above")
    context = [float(line.split()[1]) for line in lines if line.startswith("context_ms")]
    return [json.loads(line) for line in lines[lines.index("ready") + 1:]], context[0] if context else None


def data_make(args, folder, name, n, d, kind):
    path = os.path.join(folder, name + ".npy")
    subprocess.run([args.cuda_pass, "--data", path, str(n), str(d), kind], check=True)
    return path


def median_of(results, key):
    return statistics.median(r[key] for r in results)


def loop_run(args, folder):
    """Iterations of all K at once, on uniform points: as many as all K take before the first comes to rest."""
    n = 1_048_576
    path = data_make(args, folder, "loop", n, 4, "uniform")
    for iterations in (100, 50, 25):
        got, _ = fits(args, folder, path, "3..5", 21, "restarts=1", f"iterations={iterations}", "tol=0", "labels=none")
        if got[0]["iterations"] == 3 * iterations:
            break
    us = statistics.median(1e3 * r["sweep_ms"] / r["passes"] for r in got)
    return dict(n=n, d=4, clusters=[3, 5], us=us, us_all=[1e3 * r["sweep_ms"] / r["passes"] for r in got],
                passes=got[0]["passes"], all_ran=got[0]["iterations"] == 3 * iterations, design=got[0]["design"])


def fit_run(args, folder):
    out = []
    for kind in ("blobs", "uniform"):
        path = data_make(args, folder, "fit_" + kind, 100_000, 4, kind)
        got, _ = fits(args, folder, path, "2..12", 11, "restarts=10", "labels=none")
        ms = median_of(got, "wall_ms")
        phases = {key: median_of(got, key + "_ms") for key in ("build", "read", "seed", "sweep", "finish")}
        out.append(dict(data=kind, n=100_000, d=4, clusters=[2, 12], restarts=10, ms=ms,
                        ms_all=[r["wall_ms"] for r in got], passes=got[0]["passes"], phases=phases,
                        design=got[0]["design"]))
    return out


def end_run(args, folder):
    """From a file in the page cache to the best K. The pinning of buffers and the context are apart."""
    n, d = args.n or POINTS, 4
    done = subprocess.run([args.cuda_pass, "--copy", str(n * d * 4)], stdout=subprocess.PIPE, text=True, check=True)
    copy = json.loads(done.stdout)
    path = data_make(args, folder, "end", n, d, "blobs")
    got, context = fits(args, folder, path, "2..12", 7, "restarts=4", "labels=none", "open=each")
    os.remove(path)
    got.sort(key=lambda r: r["wall_ms"])
    r = got[len(got) // 2]  # phases of one fit, so that they add up
    total = r["open_ms"] + r["wall_ms"] - r["pin_ms"]
    phases = dict(open=r["open_ms"], build=r["build_ms"], load=r["read_ms"] - r["copy_ms"] - r["pin_ms"],
                  transfer=r["copy_ms"], seed=r["seed_ms"], passes=r["sweep_ms"], finish=r["finish_ms"])
    phases["closing"] = total - sum(phases.values())
    copy_gbs = n * d * 4e-6 / r["copy_ms"] if r["copy_ms"] else None
    return dict(n=n, d=d, clusters=[2, 12], restarts=4, total_ms=total, phases=phases, passes=r["passes"],
                design=r["design"], context_ms=context or copy["context_ms"], pin_ms=r["pin_ms"], copy_gbs=copy_gbs,
                pinned_copy_gbs=copy["copy_gbs"],
                totals_ms=[g["open_ms"] + g["wall_ms"] - g["pin_ms"] for g in got])


# Peers ----------------------------------------------------------------------------------------------------------


class Peers:
    """bench/gpu_peers.py, started early so that it compiles while nvcc does; it times when it is told to."""

    def __init__(self, args, names):
        tasks = {}
        for name in names:
            job = ROWS[name]
            if job["peers"]:
                task = tasks.setdefault((job["d"], args.n or job["n"]), set())
                task.update(range(job["low"], job["high"] + 1))
        self.n, self.processes, self.lines = args.n, [], []
        for peer in ["torch", "flash", "flash-ieee", "sklearn"]:
            if peer.startswith("flash") and not args.flash_kmeans:
                continue
            for (d, n), ks in sorted(tasks.items()):
                if peer == "flash-ieee" and d not in (4, 128):
                    continue  # one narrow shape and the one that TF32 matters to
                env = dict(os.environ, TRITON_F32_DEFAULT="ieee") if peer == "flash-ieee" else None
                command = [args.python, os.path.join(HERE, "gpu_peers.py"), peer,
                           json.dumps(dict(d=d, n=n, ks=sorted(ks)))]
                command += [args.flash_kmeans] if peer.startswith("flash") else []
                self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                       text=True, env=env))

    def take(self, line):
        if line.startswith("{"):
            self.lines.append(json.loads(line))

    def ready(self):
        """Waits until all are: what they compile and warm must not run beside what is timed."""
        for process in self.processes:
            for line in process.stdout:
                if line.strip() == "ready":
                    break
                self.take(line)

    def times(self):
        """Tells each in turn to run. Lines: dict(peer, how, d, n, k, ms, off)."""
        for process in self.processes:
            out, _ = process.communicate("go\n")
            for line in out.splitlines():
                self.take(line)
        return self.lines

    def of_row(self, name):
        """Per iteration of the whole list: {peer: dict(ms, how, off)}, without peers that lack a K of it."""
        job, out = ROWS[name], {}
        for peer in dict.fromkeys(line["peer"] for line in self.lines):
            mine = {line["k"]: line for line in self.lines if line["peer"] == peer and "failed" not in line
                    and line["d"] == job["d"] and line["n"] == (self.n or job["n"])}
            wanted = [mine.get(k) for k in range(job["low"], job["high"] + 1)]
            if all(wanted):
                out[peer] = dict(ms=sum(line["ms"] for line in wanted), how=sorted({line["how"] for line in wanted}),
                                 off=max(line["off"] for line in wanted))
        return out


# Report ---------------------------------------------------------------------------------------------------------


def said(command):
    """First line that a program prints, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def versions_of(python, nvcc):
    out = dict(nvcc=None)
    release = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release [\d.]+, V([\d.]+)", release)
    out["nvcc"] = found.group(1) if found else None
    for name in ("torch", "triton", "scikit-learn", "numpy"):
        out[name] = said([python, "-c", f"from importlib.metadata import version; print(version('{name}'))"])
    return out


def flash_version(folder):
    """Of its pyproject.toml and, where the folder is a checkout, its commit."""
    try:
        with open(os.path.join(folder or "", "pyproject.toml")) as text:
            version = re.search(r'^version = "(.*)"', text.read(), re.MULTILINE).group(1)
    except (OSError, AttributeError):
        return folder
    is_checkout = os.path.exists(os.path.join(folder, ".git"))
    commit = said(["git", "-C", os.path.abspath(folder), "log", "-1", "--format=%h of %cs"]) if is_checkout else None
    return f"{version} ({commit})" if commit else version


def head_of(args):
    facts = said(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]) or ""
    words = [word.strip() for word in facts.split(",")] + ["?"] * 3
    commit = args.commit or said(["git", "describe", "--always", "--dirty", "--abbrev=12"]) or "unknown"
    return dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), commit=commit,
                device=words[0], driver=words[1], clock=words[2], cores=os.cpu_count(),
                command=" ".join(["bench/gpu.py", *sys.argv[1:]]),
                versions={**versions_of(args.python, args.nvcc), "flash-kmeans": flash_version(args.flash_kmeans)})


# The run --------------------------------------------------------------------------------------------------------


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                     epilog="The head of the file says what each part does.")
    parser.add_argument("--build", default="build", help="kmgen's build folder")
    parser.add_argument("--kmgen", metavar="PROGRAM", help="kmgen, where it is not in the build folder")
    parser.add_argument("--only", default=",".join(PARTS), help="parts separated by commas: " + ", ".join(PARTS))
    parser.add_argument("--rows", help="names separated by commas; --list shows them")
    parser.add_argument("--list", action="store_true", help="print the rows and stop; needs no GPU")
    parser.add_argument("--quick", action="store_true", help="few rows of 1,048,576 points")
    parser.add_argument("--designs", action="store_true", help="also every design that the planner did not choose")
    parser.add_argument("--no-singles", dest="singles", action="store_false", help="leave out one K after another")
    parser.add_argument("--flash-kmeans", metavar="FOLDER", help="a checkout of flash-kmeans")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and scikit-learn")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    parser.add_argument("--work", metavar="FOLDER", help="keep sources and machine code there")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    args = parser.parse_args()
    args.n = POINTS_QUICK if args.quick else None
    args.only = args.only.split(",")
    args.kmgen = args.kmgen or os.path.join(args.build, "cli", "kmgen")
    args.fit_worker = os.path.join(args.build, "bench", "fit_worker")
    names = args.rows.split(",") if args.rows else QUICK if args.quick else list(ROWS)
    for name, known, what in [*((n, ROWS, "row") for n in names), *((p, PARTS, "part") for p in args.only)]:
        if name not in known:
            parser.error(f"no {what} {name}: there are {', '.join(known)}")
    whole = {"loop", "fit", "end"} & set(args.only) and not args.list
    for program in [args.kmgen] + ([args.fit_worker] if whole else []):
        if not os.path.exists(program):
            raise SystemExit(f"{program} is missing: run ninja -C {args.build} first, or name the folder with --build")
    return args, names


def rows_list(args, names, folder):
    """What --list prints: each row, and the planner's choice and estimates for an H200."""
    for name in names:
        job = ROWS[name]
        path, design = source_make(args.kmgen, folder, name, job, job["low"], job["high"], 90)
        said_ms = estimates(args.kmgen, folder, name, job["n"])
        told = ", ".join(f"{key} {value['ms']:g} ms ({value['bound']})" for key, value in said_ms.items())
        print(f"{name:<16} {tables.clusters_text([job['low'], job['high']]):>7}  n={job['n']:<9} "
              f"{design if path else 'REFUSED: ' + design}; estimates on an H200: {told}")


def lacks(what):
    """Ends the program as a test ends that is skipped."""
    print(what, file=sys.stderr)
    raise SystemExit(77)


def device_arch(args):
    """The GPU's architecture; says what lacks."""
    if not shutil.which(args.nvcc):
        lacks(f"{args.nvcc} is missing: install the CUDA toolkit, or name its nvcc with --nvcc")
    if not shutil.which("nvidia-smi"):
        lacks("nvidia-smi is missing: this machine has no NVIDIA driver (--list needs none)")
    capability = said(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    if not capability or not re.fullmatch(r"\d+\.\d+", capability):
        lacks("nvidia-smi names no GPU: this bench needs one (--list does not)")
    return int(capability.replace(".", ""))


def step(begin, what):
    print(f"{time.monotonic() - begin:6.1f} s: {what}", file=sys.stderr, flush=True)


def run_parts(args, names, folder, arch, report):
    begin = time.monotonic()
    peers = Peers(args, names) if "peers" in args.only else None
    args.cuda_pass = os.path.join(folder, "cuda_pass")
    subprocess.run([args.nvcc, "-O2", "-std=c++17", f"-arch=sm_{arch}", "-o", args.cuda_pass,
                    os.path.join(HERE, "cuda_pass.cu"), "-lcuda"], check=True)
    if "pass" in args.only or "peers" in args.only:
        shapes = shapes_of(names, args, folder, arch)
        refused = [s for s in shapes.values() if not s["source"] and "__" not in s["name"]]
        if refused:
            raise SystemExit(f"the planner refuses {refused[0]['name']}: {refused[0]['refused']}")
        compile_all(shapes, args.nvcc, arch)
        step(begin, f"{len(shapes)} sources compiled")
        if peers:
            peers.ready()
            step(begin, "peers compiled and warm")
        found = passes_run(shapes, args, folder)
        step(begin, "passes checked and timed")
        report["rows"] = [dict(row_result(name, shapes, found), peers={}) for name in names]
        tell(args, report, "gpu_passes", "gpu_designs")
    for part, run in [("loop", loop_run), ("fit", fit_run), ("end", end_run)]:
        if part in args.only:
            report[part] = run(args, folder)
            step(begin, part)
            tell(args, report)
    tell(args, report, "gpu_jobs", "gpu_end")
    if peers:
        report["peer_lines"] = peers.times()
        step(begin, "peers timed")
        for line in report["peer_lines"]:
            if "failed" in line:
                print(f"peer {line['peer']}: {line['failed']}")
        for r in report["rows"]:
            r["peers"] = peers.of_row(r["row"]) if ROWS[r["row"]]["peers"] else {}
        tell(args, report, "gpu_peers")


def tell(args, report, *names):
    """Writes what there is so far, and prints tables of it."""
    if args.json:
        tables.write_json(args.json, report)
    for name in names:
        print(tables.text(name, dict(gpu=report)), flush=True)


def main():
    args, names = arguments()
    folder = args.work or tempfile.mkdtemp(prefix="kmgen-gpu-")
    os.makedirs(folder, exist_ok=True)
    try:
        if args.list:
            rows_list(args, names, folder)
            return 0
        arch = device_arch(args)
        report = head_of(args)
        tell(args, report, "gpu_machine")
        run_parts(args, names, folder, arch, report)
        return 0 if all(r["right"] for r in report.get("rows", [])) else 1
    finally:
        if not args.work:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
