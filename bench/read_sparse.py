#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reading sparse tables: kmgen beside scikit-learn (svmlight) and SciPy (.npz, .mtx).

    bench/read_sparse.py --build build [--svmlight 1000] [--npz 500] [--mtx 200] [--rounds 3] [--folder /tmp]

Makes files of so many megabytes (0: none) of 80 entries a row in 100,000 columns, values of 4 and of 16 digits, then
reads each in turn, round by round, in processes of their own, from the page cache. Medians of user and system time
on one thread, megabytes of the file a second, and the most that the process had resident. Both must
read the same number of rows. Needs NumPy, SciPy and scikit-learn.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ENTRIES, COLUMNS, BLOCK_ROWS = 80, 100_000, 20_000


def block(digits):
    """Rows as CSR, and their numbers as svmlight and Matrix Market have them."""
    import numpy
    import scipy.sparse
    draw = numpy.random.default_rng(digits)
    columns = numpy.sort(draw.integers(0, COLUMNS, (BLOCK_ROWS, ENTRIES)), 1)
    columns = numpy.unique(columns + numpy.arange(BLOCK_ROWS)[:, None] * COLUMNS)
    starts = numpy.searchsorted(columns, numpy.arange(BLOCK_ROWS + 1) * COLUMNS)
    texts = [f"%.{digits}g" % value for value in draw.random(len(columns))]
    values = numpy.array(texts, dtype=float)
    return scipy.sparse.csr_matrix((values, (columns % COLUMNS).astype("i4"), starts.astype("i4")),
                                   (BLOCK_ROWS, COLUMNS)), texts


def write_svmlight(path, megabytes, digits):
    matrix, texts = block(digits)
    lines = []
    for row in range(BLOCK_ROWS):
        span = range(matrix.indptr[row], matrix.indptr[row + 1])
        lines.append("1 " + " ".join(f"{matrix.indices[i] + 1}:{texts[i]}" for i in span) + "\n")
    text = "".join(lines).encode()
    with open(path, "wb") as stream:
        for _ in range(max(1, round(megabytes * 1e6 / len(text)))):
            stream.write(text)


def write_npz(path, megabytes):
    import scipy.sparse
    matrix, _ = block(16)
    scipy.sparse.save_npz(path, matrix)
    repeats = max(1, round(megabytes * 1e6 / os.path.getsize(path)))
    scipy.sparse.save_npz(path, scipy.sparse.vstack([matrix] * repeats, format="csr"))


def write_mtx(path, megabytes):
    matrix, texts = block(16)
    coordinates = matrix.tocoo()
    entries = [f"{column + 1} {text}\n" for column, text in zip(coordinates.col, texts)]
    size = sum(map(len, entries)) + 7 * len(entries)
    repeats = max(1, round(megabytes * 1e6 / size))
    with open(path, "w") as stream:
        stream.write("%%MatrixMarket matrix coordinate real general\n")
        stream.write(f"{repeats * BLOCK_ROWS} {COLUMNS} {repeats * len(entries)}\n")
        for r in range(repeats):
            stream.write("".join(f"{row + 1 + r * BLOCK_ROWS} {entry}" for row, entry in zip(coordinates.row, entries)))


def read_kmgen(path, build):
    library = ctypes.CDLL(os.path.join(build, "libkmgen.so"))
    data, error = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    began = time.process_time()
    if library.km_data_open(ctypes.byref(data), os.fsencode(path), None, error) != 0:
        sys.exit(error.value.decode())
    taken = time.process_time() - began
    library.km_data_points.restype = ctypes.c_int64
    library.km_data_points.argtypes = [ctypes.c_void_p]
    return taken, library.km_data_points(data)


def read_peer(path):
    import scipy.io
    import scipy.sparse
    import sklearn.datasets
    began = time.process_time()
    if path.endswith(".npz"):
        matrix = scipy.sparse.load_npz(path)
    elif path.endswith(".mtx"):
        matrix = scipy.io.mmread(path).tocsr()
    else:
        matrix = sklearn.datasets.load_svmlight_file(path)[0]
    return time.process_time() - began, matrix.shape[0]


def most_resident():
    """MiB; not ru_maxrss, which a process inherits."""
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM:")) / 1024


def worker(who, path, build):
    os.environ["OMP_NUM_THREADS"] = "1"
    import scipy.io  # noqa: F401  (what they take themselves is no part of the reading)
    import scipy.sparse  # noqa: F401
    import sklearn.datasets  # noqa: F401
    before = most_resident()
    taken, rows = read_kmgen(path, build) if who == "kmgen" else read_peer(path)
    print(json.dumps({"s": taken, "rows": int(rows), "mib": most_resident() - before}))


def measure(path, options):
    runs = {"kmgen": [], "peer": []}
    for _ in range(options.rounds):
        for who in runs:
            command = [sys.executable, os.path.abspath(__file__), "--build", options.build, "--worker", who, path]
            runs[who].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    if len({run["rows"] for each in runs.values() for run in each}) != 1:
        sys.exit(f"{path}: kmgen and its peer read different numbers of rows")
    size = os.path.getsize(path) / 1e6
    found = {who: statistics.median(run["s"] for run in each) for who, each in runs.items()}
    most = {who: max(run["mib"] for run in each) for who, each in runs.items()}
    columns = "".join(f" {found[who]:8.2f} {size / found[who]:7.0f} {most[who]:7.0f}" for who in ("kmgen", "peer"))
    print(f"{os.path.basename(path):14} {size:7.0f}{columns} {found['peer'] / found['kmgen']:7.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--svmlight", type=float, default=1000)
    parser.add_argument("--npz", type=float, default=500)
    parser.add_argument("--mtx", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--worker", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker, options.build)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        files = []
        for name, megabytes, write in (("digits4.svm", options.svmlight, lambda p, m: write_svmlight(p, m, 4)),
                                       ("digits16.svm", options.svmlight, lambda p, m: write_svmlight(p, m, 16)),
                                       ("csr.npz", options.npz, write_npz), ("rows.mtx", options.mtx, write_mtx)):
            if megabytes:
                files.append(os.path.join(folder, name))
                write(files[-1], megabytes)
        print(f"{'file':14} {'MB':>7}" + "".join(f" {who:>8} {'MB/s':>7} {'MiB':>7}" for who in ("kmgen s", "peer s"))
              + f" {'ratio':>7}")
        for path in files:
            measure(path, options)


if __name__ == "__main__":
    main()
