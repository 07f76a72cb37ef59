#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kmgen's CPU engine beside what people use today: scikit-learn, scikit-learn-intelex and faiss-cpu.

    bench/cpu_peers.py [--rows d2,d8,...] [--quick] [--rounds 5] [--json FILE] [--venv DIR | --here] [--build build]

Installs the peers from PyPI into a throw-away virtual environment (kept and used again with --venv; --here takes
those that this Python has, and leaves out the others), makes the data, and times every contestant in turn, round by
round, each in a process of its own that was warmed by one whole run, and by another right before each that counts.
Medians are compared. Every contestant gets float32 points in C order, the same first centroids, and pays for the
labels of every K; the peers fit each K in turn. kmgen's time is the whole of km_fit (copying, centring, sweep, last
pass with labels and scores) without compiling, which its cache pays once.

A plain read, for comparison, is the largest coordinate, found by NumPy in as many threads.

Rows: the names of ROWS below; `--list` prints them. `--quick` takes n = 50,000 and two rounds: it shows that the
bench runs, not how fast anything is. bench/results/ holds the last full run; bench/tables.py makes the tables of the
docs of it.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import tables

PEERS = {"sklearn": "scikit-learn", "intelex": "scikit-learn-intelex", "faiss": "faiss-cpu"}  # PyPI's names
POINTS, POINTS_QUICK = 1_000_000, 50_000
TRIES, STOLEN_MAX = 8, 0.02  # of a turn; the share of one processor that the host may take meanwhile


def row(title, d, clusters, peers=("intelex", "faiss"), data="blobs", iterations=10, tol=0.0, restarts=1,
        algorithms=("auto",)):
    return dict(title=title, d=d, clusters=clusters, peers=peers, data=data, iterations=iterations, tol=tol,
                restarts=restarts, algorithms=algorithms)


def rows_table():
    table = {}
    wide, narrow = list(range(2, 13)), [3, 4, 5]
    for d in (2, 4, 8, 16, 32):
        table[f"d{d}"] = row("10 iterations, K = 2..12", d, wide)
    for d in (2, 8, 32):
        table[f"narrow-d{d}"] = row("10 iterations, K = 3..5", d, narrow)
    for d in (8, 16):
        table[f"uniform-d{d}"] = row("10 iterations, K = 2..12, uniform points", d, wide, data="uniform")
    for d in (2, 8):
        table[f"converge-d{d}"] = row("to convergence, K = 2..12", d, wide, ["intelex"], iterations=300, tol=1e-4)
    table["restarts-d4"] = row("to convergence, K = 2..20, 10 restarts, k-means++", 4, list(range(2, 21)),
                               ["intelex"], iterations=300, tol=1e-4, restarts=10)
    for d in (2, 16, 64):
        for k in (8, 64, 256):
            table[f"one-k{k}-d{d}"] = row(f"10 iterations, K = {k} alone", d, [k], ["sklearn", "intelex", "faiss"],
                                          algorithms=["auto", "lloyd"])
    return table


ROWS = rows_table()


# Data and first centroids -----------------------------------------------------------------------------------


def data_make(folder, job, n):
    """Points and first centroids as .npy files. Blobs: 12 gaussian clusters whose centres lie about five standard
    deviations apart whatever d is, so that they touch and no contestant comes to rest within 10 iterations."""
    import numpy as np

    d, rng = job["d"], np.random.default_rng(20)
    if job["data"] == "uniform":
        x = rng.random((n, d), dtype=np.float32)
    else:
        centres = rng.normal(0, 5 / np.sqrt(2 * d), (12, d))
        x = (centres[rng.integers(0, 12, n)] + rng.normal(0, 1, (n, d))).astype(np.float32)
    init = x[rng.choice(n, max(job["clusters"]), replace=False)]
    paths = os.path.join(folder, "points.npy"), os.path.join(folder, "init.npy")
    np.save(paths[0], x)
    np.save(paths[1], init)
    return paths


# Peers, each in a process of its own ------------------------------------------------------------------------


def peer_sklearn(x, init, job):
    from sklearn.cluster import KMeans

    iterations, inertia = 0, 0.0
    for k in job["clusters"]:
        given = job["restarts"] == 1
        model = KMeans(n_clusters=k, init=init[:k] if given else "k-means++", n_init=job["restarts"],
                       max_iter=job["iterations"], tol=job["tol"], algorithm="lloyd", random_state=0).fit(x)
        assert model.labels_.shape[0] == x.shape[0]
        iterations += int(model.n_iter_)
        inertia += float(model.inertia_)
    return iterations, inertia


def peer_faiss(x, init, job):
    import faiss

    inertia = 0.0
    for k in job["clusters"]:
        clustering = faiss.Clustering(x.shape[1], k)
        clustering.niter, clustering.nredo = job["iterations"], 1
        clustering.max_points_per_centroid, clustering.min_points_per_centroid = x.shape[0], 1
        faiss.copy_array_to_vector(init[:k].ravel(), clustering.centroids)
        index = faiss.IndexFlatL2(x.shape[1])
        clustering.train(x, index)
        distances, _labels = index.search(x, 1)
        inertia += float(distances.sum(dtype="float64"))
    return job["iterations"] * len(job["clusters"]), inertia


def peer_worker(name, points, init, job):
    """The same protocol as bench/fit_worker.c: "ready" after one run, then a line of JSON for each line."""
    import warnings

    import numpy as np

    warnings.filterwarnings("ignore")
    if name == "intelex":
        from sklearnex import patch_sklearn

        patch_sklearn(verbose=False)
    fit = peer_faiss if name.startswith("faiss") else peer_sklearn
    x, first = np.load(points), np.load(init)
    fit(x, first, job)
    print("ready", flush=True)
    for _line in sys.stdin:
        begin = time.perf_counter()
        iterations, inertia = fit(x, first, job)
        ms = (time.perf_counter() - begin) * 1e3
        print(json.dumps(dict(ms=ms, iterations=iterations, inertia=inertia)), flush=True)


class Contestant:
    def __init__(self, name, command, threads):
        self.name, self.times, self.last, self.disturbed = name, [], None, 0
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ready(self):
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{self.name} did not start; its message stands above")

    def run(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} stopped; its message stands above")
        return json.loads(line)

    def turn(self):
        # The first does not count: a virtual machine's host may have taken the memory of who was idle. Nor does
        # one during which it took processors away, for as long as others can be had.
        self.run()
        found = []
        while len(found) < TRIES and (not found or found[-1][0] > STOLEN_MAX):
            before, begin = stolen_seconds(), time.perf_counter()
            last = self.run()
            found.append(((stolen_seconds() - before) / (time.perf_counter() - begin), len(found), last))
        stolen, _, self.last = min(found)
        self.disturbed += stolen > STOLEN_MAX
        self.times.append(self.last["ms"])
        time.sleep(0.3)  # its worker threads stop spinning before the next one's turn

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peers_of(job, args):
    return [peer for peer in job["peers"] if peer in args.peers]


def contestants_of(job, paths, args, folder):
    points, init = paths
    clusters = ",".join(str(k) for k in job["clusters"])
    command = [os.path.join(args.build, "bench", "fit_worker"), points, clusters, "type=f32",
               f"iterations={job['iterations']}", f"tol={job['tol']}", f"restarts={job['restarts']}",
               f"threads={args.threads}", f"cache={os.path.join(folder, 'cache')}"]
    if job["restarts"] == 1:
        command.append(f"init={init}")
    if args.design:
        command.append(f"design={args.design}")
    found = [(f"kmgen-{algorithm}", [*command, f"algorithm={algorithm}"], args.threads)
             for algorithm in job["algorithms"]]
    for peer in peers_of(job, args):
        # On few cores faiss is often faster with one thread.
        for threads in sorted({1, args.threads}) if peer == "faiss" and args.threads <= 4 else [args.threads]:
            name = f"{peer}-{threads}" if peer == "faiss" else peer
            worker = [sys.executable, os.path.abspath(__file__), "--worker", name, points, init, json.dumps(job)]
            found.append((name, worker, threads))
    return found


def stat_seconds():
    """Processor seconds since the system started, by kind as in proc(5); None where nobody tells."""
    try:
        with open("/proc/stat") as stat:
            return [int(field) / os.sysconf("SC_CLK_TCK") for field in stat.readline().split()[1:9]]
    except OSError:
        return None


def stolen_seconds():
    """Of these what a virtual machine's host gave to others while this machine had work for them."""
    fields = stat_seconds()
    return fields[7] if fields else 0.0


def busy_seconds():
    """Processor seconds since the system started, by everyone and by this script with its ended workers."""
    fields = stat_seconds()
    return (sum(fields) - fields[3] - fields[4], sum(os.times()[:4])) if fields else None  # less idle and waiting


def row_run(name, job, args, folder):
    paths = data_make(folder, job, args.n)
    before, begin = busy_seconds(), time.perf_counter()
    contestants = []
    for title, command, threads in contestants_of(job, paths, args, folder):
        contestant = Contestant(title, command, threads)
        contestant.ready()  # one at a time: nobody is warmed while another one starts
        contestants.append(contestant)
    for _round in range(args.rounds):
        for contestant in contestants:
            contestant.turn()
    for contestant in contestants:
        contestant.close()
    after, wall = busy_seconds(), time.perf_counter() - begin
    others = None
    if before and after:
        others = max(0.0, (after[0] - before[0] - (after[1] - before[1])) / wall)
    times = {c.name: statistics.median(c.times) for c in contestants}
    clusters = [min(job["clusters"]), max(job["clusters"])]
    return dict(row=name, title=job["title"], n=args.n, d=job["d"], clusters=clusters,
                read_ms=read_ms(paths[0], args.threads), cores_taken_by_others=others, median_ms=times,
                all_ms={c.name: c.times for c in contestants}, last={c.name: c.last for c in contestants},
                disturbed={c.name: c.disturbed for c in contestants})


def read_ms(path, threads):
    """Milliseconds of one plain read of the points."""
    import numpy as np

    parts = np.array_split(np.load(path).reshape(-1), threads)
    times = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _turn in range(11):
            begin = time.perf_counter()
            list(pool.map(np.max, parts))
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


# Report -----------------------------------------------------------------------------------------------------


def cpu_name():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def cpu_vectors():
    """The widest vectors that this processor has, of those that kmgen has kernels for."""
    try:
        with open("/proc/cpuinfo") as lines:
            flags = next(line for line in lines if line.startswith(("flags", "Features"))).split()
    except (OSError, StopIteration):
        return "unknown"
    known = dict(avx512_vnni="AVX-512 with VNNI", avx512f="AVX-512", avx2="AVX2", asimd="NEON")
    return next((title for flag, title in known.items() if flag in flags), "generic")


def versions():
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ["numpy", *PEERS.values()]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    return found


def row_print(result):
    times, last = result["median_ms"], result["last"]
    others = result["cores_taken_by_others"]
    load = "" if others is None or others < 0.1 else f"   UNDER LOAD: other programs took {others:.1f} cores"
    print(f"\n{result['row']}: {result['title']}, n={result['n']:,}{load}")
    for name, ms in times.items():
        spread = result["all_ms"][name]
        parts = ""
        if name.startswith("kmgen"):
            parts = ("  ({design}, {algorithm}; read {read_ms:.1f}, seed {seed_ms:.1f}, sweep {sweep_ms:.1f}, "
                     "finish {finish_ms:.1f})").format(**last[name])
        host = f"  HOST TOOK TIME in {result['disturbed'][name]}" if result["disturbed"][name] else ""
        print(f"  {name:<12} {ms:10.1f} ms   {min(spread):.1f} .. {max(spread):.1f}   iterations "
              f"{last[name]['iterations']}, inertia {last[name]['inertia']:.6g}{parts}{host}")
    for own, peer, ratio in tables.cpu_ratios(result):
        print(f"  {own} against {peer:<10} {ratio:8.1f} times", flush=True)


def venv_enter(args):
    """Runs this script again under a virtual environment that has the peers. Returns its exit status."""
    folder = args.venv or tempfile.mkdtemp(prefix="kmgen-peers-")
    python = os.path.join(folder, "bin", "python3")
    try:
        if not os.path.exists(python):
            subprocess.check_call([sys.executable, "-m", "venv", folder])
        if subprocess.call([python, "-c", "import sklearnex, faiss"], stderr=subprocess.DEVNULL):
            subprocess.check_call([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy",
                                   *PEERS.values()])
        return subprocess.call([python, os.path.abspath(__file__), *sys.argv[1:], "--here"])
    finally:
        if not args.venv:
            shutil.rmtree(folder, ignore_errors=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="all", help="names separated by commas; --list shows them")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--quick", action="store_true", help="n = 50,000 and two rounds")
    parser.add_argument("--n", type=int, help="points (default 1,000,000)")
    parser.add_argument("--rounds", type=int, help="turns of each contestant (default 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--design", help="kmgen's kernel design (default: what its planner chooses)")
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--venv", help="keep the peers' environment here and use it again")
    parser.add_argument("--build", default="build", help="kmgen's build folder")
    parser.add_argument("--commit", help="what is measured, where git cannot say it")
    parser.add_argument("--here", action="store_true", help="install nothing: the peers that this Python has")
    args = parser.parse_args()
    args.n = args.n or (POINTS_QUICK if args.quick else POINTS)
    args.rounds = args.rounds or (2 if args.quick else 5)
    names = list(ROWS) if args.rows == "all" else args.rows.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]}: there are {', '.join(ROWS)}")
    return args, names


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        return peer_worker(sys.argv[2], sys.argv[3], sys.argv[4], json.loads(sys.argv[5]))
    args, names = arguments()
    if args.list:
        print("\n".join(f"{name:<14} {ROWS[name]['title']}" for name in ROWS))
        return 0
    worker = os.path.join(args.build, "bench", "fit_worker")
    if not os.path.exists(worker):
        raise SystemExit(f"{worker} is missing: run ninja -C {args.build} first, or name the folder with --build")
    if not args.here:
        return venv_enter(args)
    found = versions()
    args.peers = [peer for peer, package in PEERS.items() if package in found]
    report = dict(date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                  commit=args.commit or tables.commit(), cpu=cpu_name(), vectors=cpu_vectors(), cores=os.cpu_count(),
                  threads=args.threads, rounds=args.rounds, versions=found, load_before=os.getloadavg(), rows=[])
    print(f"{report['date']}, {report['cpu']}, {report['cores']} cores, {args.threads} threads, load "
          f"{report['load_before'][0]:.2f} at the start")
    print(", ".join(f"{name} {number}" for name, number in report["versions"].items()), flush=True)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="kmgen-bench-") as folder:
            result = row_run(name, ROWS[name], args, folder)
        report["rows"].append(result)
        row_print(result)
        if args.json:
            tables.write_json(args.json, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
