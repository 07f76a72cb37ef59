# SPDX-License-Identifier: MIT
"""What a fit does to the process around it: threads, signals, children, memory, imports."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import kmgen
import numpy as np
import pytest
from conftest import blobs, scores

LONG = {"clusters": "30..60", "n_init": 200, "tol": 0.0, "max_iter": 100000, "device": "cpu"}


def noise(n=60000, d=8):
    return np.random.default_rng(5).normal(size=(n, d)).astype(np.float32)


def interrupted(at_s, X, **options):
    """A fit of one thread with Ctrl-C once it took so many processor seconds: how many more it took."""
    sent = []

    def send():
        while time.process_time() < began + at_s:
            time.sleep(0.002)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    # A shell without job control starts what it puts into the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.process_time()
    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            kmgen.KMeansSweep(**options, threads=1).fit(X)
            thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return time.process_time() - sent[0]


def test_ctrl_c_stops_a_fit():
    interrupted(0.3, noise(), **LONG)  # hours, were it not heard


@pytest.mark.parametrize(
    ("phase", "n", "options"),
    [
        ("sweep", 60000, {"clusters": "30..60", "n_init": 2, "max_iter": 15, "refine": None, "tol": 0.0}),
        ("refine", 60000, {"clusters": "30..40", "n_init": 1, "max_iter": 10, "refine": 100}),
        ("finish", 100000, {"clusters": "2..60", "labels": "all", "n_init": 1, "max_iter": 1, "refine": None}),
        (
            "criteria",
            8000,
            {"clusters": "2..8", "criteria": ["silhouette_euclidean"], "n_init": 1, "max_iter": 1, "refine": None},
        ),
    ],
)
def test_ctrl_c_is_heard_in_each_phase(phase, n, options):
    X, options = noise(n, 16), {**options, "device": "cpu"}
    began = time.process_time()
    timing = kmgen.KMeansSweep(**options, threads=1).fit(X).timing_
    whole = time.process_time() - began
    assert timing[phase] > 0.4 * timing["total"], timing
    names = list(timing)
    first = sum(timing[name] for name in names[: names.index(phase)])
    # Half of what is left of the fit is far more than what lies between two questions.
    for share in (0.3, 0.5, 0.7) if os.environ.get("KMGEN_TEST_ALL") else (0.5,):
        at = whole * (first + share * timing[phase]) / timing["total"]
        left = whole - at
        assert interrupted(at, X, **options) < 0.5 * left, (share, whole, timing)


def test_predict_hears_signals(monkeypatch):
    """The library's own call ends by it, not what comes after."""
    from kmgen import _library

    class StoppedError(Exception):
        pass

    def stop(_number, _frame):
        raise StoppedError

    ended, call = [], _library.call

    def spy(name, *arguments):
        try:
            call(name, *arguments)
        except BaseException as error:
            ended.append((name, type(error)))
            raise

    model = kmgen.KMeans(2000, init="random", n_init=1, max_iter=1, refine=None, threads=1).fit(noise(4000))
    many = np.tile(noise(), (20, 1))
    monkeypatch.setattr(_library, "call", spy)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(StoppedError):
            model.predict(many)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended == [("km_predict", KeyboardInterrupt)]


def test_time_max_ends_with_a_result():
    sweep = kmgen.KMeansSweep(**LONG, time_max=0.2)
    with pytest.warns(kmgen.KmgenWarning, match="the fit was interrupted"):
        sweep.fit(noise(5000))
    assert sweep.interrupted_ and len(sweep.models_) == 31 and (sweep.predict(noise(5000)) == sweep.labels_).all()
    got = []

    def fit():  # signals are the main thread's, time is everybody's
        got.append(kmgen.KMeansSweep(**LONG, time_max=0.1).fit(noise(5000)).interrupted_)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert got == [True]
    with pytest.raises(ValueError, match="time_max must be a number of seconds"):
        kmgen.KMeansSweep("2..4", time_max=-1).fit(noise(100))


def test_memory_max(tmp_path):
    X = noise(1000000)
    assert not kmgen.KMeansSweep("2..4", n_init=1, max_iter=3, device="cpu").fit(X).interrupted_
    with pytest.raises(MemoryError, match="memory_max is"):
        kmgen.KMeansSweep("2..4", n_init=1, max_iter=3, device="cpu", memory_max=1 << 20).fit(X)
    with pytest.raises(ValueError, match="memory_max must be a whole number of at least 1"):
        kmgen.KMeansSweep("2..4", memory_max=0).fit(X)
    code = (
        "import sys, os, numpy as np, pytest, kmgen\n"
        "X = np.random.default_rng(5).normal(size=(3000000, 8)).astype(np.float32)\n"
        "_, resident, shared, *_ = map(int, open('/proc/self/statm').read().split())\n"
        "fit = dict(clusters='2..4', n_init=1, max_iter=3, device='cpu', algorithm='lloyd')\n"
        "most = (resident - shared) * os.sysconf('SC_PAGE_SIZE') + (80 << 20)\n"
        "with pytest.raises(MemoryError, match='scratch_dir takes what does not fit'):\n"
        "    kmgen.KMeansSweep(**fit, memory_max=most).fit(X)\n"
        "with pytest.warns(kmgen.KmgenWarning, match='lie in temporary files'):\n"
        "    some = kmgen.KMeansSweep(**fit, memory_max=most, scratch_dir=sys.argv[1]).fit(X)\n"
        "all_ = kmgen.KMeansSweep(**fit).fit(X)\n"
        "assert some.cluster_centers_.tobytes() == all_.cluster_centers_.tobytes()\n"
        "assert (some.labels_ == all_.labels_).all() and not os.listdir(sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_another_handler_is_obeyed():
    class StoppedError(Exception):
        pass

    def stop(_number, _frame):
        raise StoppedError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(StoppedError):
            kmgen.KMeansSweep(**LONG).fit(noise())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_meanwhile():
    """What another thread does once the fit is under way ends the fit; time ends it where that thread has no turn."""
    under_way = threading.Event()

    class Told(logging.Handler):
        def emit(self, record):
            if "points read" in record.getMessage():
                under_way.set()

    def end():
        under_way.wait()
        for _ in range(20):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    log, told = logging.getLogger("kmgen"), Told()
    level, before = log.level, signal.signal(signal.SIGINT, signal.default_int_handler)
    log.addHandler(told)
    log.setLevel("INFO")
    thread = threading.Thread(target=end)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            kmgen.KMeansSweep(**LONG, verbose=2, time_max=60).fit(noise())
    finally:
        under_way.set()
        thread.join()
        log.removeHandler(told)
        log.setLevel(level)
        signal.signal(signal.SIGINT, before)


def test_threads_side_by_side(points):
    wanted = scores(kmgen.KMeansSweep("2..6").fit(points))
    got = [None] * 4

    def fit(i):
        got[i] = scores(kmgen.KMeansSweep("2..6").fit(points))

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(wanted == one for one in got)


def _in_worker(n):
    points = blobs(n)[0]
    return kmgen.KMeansSweep("2..5").fit(points).best_k_


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_worker_processes(way):
    kmgen.KMeansSweep("2..3", threads=2, n_init=1, max_iter=3, device="cpu").fit(noise(20000))  # the parent has threads
    with multiprocessing.get_context(way).Pool(1) as pool:
        assert pool.map_async(_in_worker, [5000]).get(timeout=120) == [3]


def test_no_copy_of_the_points():
    """Memory grows by what the plan takes for its own: the points in its own order, labels. There is no third copy."""
    code = """
import numpy as np, kmgen

def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

points = np.random.default_rng(0).random((1_000_000, 16), dtype=np.float32)
short = kmgen.KMeans(2, n_init=1, max_iter=1, refine=None, device="cpu")
short.fit(points[:1000])
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = memory("VmRSS")
planned = short.fit(points).plan_.memory_bytes
print((memory("VmHWM") - before) / points.nbytes, planned / points.nbytes)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    more, planned = map(float, out.split())
    assert more < planned + 0.15, out


def test_import_brings_nothing_and_names_only_numpy():
    """What is large and may be there is imported when it is used (bench/python_import.py has the time)."""
    code = """
import sys, kmgen
assert "kmgen._library" not in sys.modules and "numpy" not in sys.modules
assert set(kmgen.__all__) <= set(dir(kmgen)) and not hasattr(kmgen, "nothing")
assert all(getattr(kmgen, name) is not None for name in kmgen.__all__)
large = ("sklearn", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm", "asyncio", "unittest")
print([name for name in large if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n", done


def test_only_numpy_is_needed(points):
    code = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm"):
            raise ImportError(name)
sys.meta_path.insert(0, Hide())
import numpy as np, kmgen
points = np.repeat([[0.0, 1.0], [9.0, 1.0], [0.0, 30.0]], 20, axis=0) + np.arange(60)[:, None] / 100
sweep = kmgen.KMeansSweep("2..4", verbose=1).fit(points)
assert sweep.best_k_ == 3 and sorted(sweep.criteria_)[:2] == ["aic", "bic"], sweep.criteria_
print(kmgen.find_k(points, "2..4").k)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "3\n", done


def test_progress_and_log(points, monkeypatch, caplog):
    pytest.importorskip("tqdm")
    from kmgen import _call

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(_call, "_ASK_EVERY_S", 0.0)
    shown = []
    monkeypatch.setattr(_call._Bar, "show", lambda self, *state: shown.append(state))
    with caplog.at_level("INFO", "kmgen"):
        kmgen.KMeansSweep("2..6", verbose=2).fit(points)
    assert {"seed", "sweep"} <= {state[0] for state in shown}
    assert any("memory:" in record.getMessage() for record in caplog.records)


def test_the_bar_counts_each_phase_anew(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    from kmgen import _call

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar = _call._Bar(True)
    texts = []
    for state in (("seed", 3, 12, 0), ("sweep", 0, 110, 0), ("sweep", 55, 110, 7), ("refine", 0, 0, 16)):
        if state[0] == "sweep" and not state[1]:
            bar._bar.start_t -= 3600  # seeding took an hour
        bar.show(*state)
        texts.append(str(bar._bar))
    bar.close()
    assert isinstance(bar._bar, tqdm.tqdm)
    assert texts[0].startswith("seed:  25%") and "3/12" in texts[0] and "pick" in texts[0]
    assert texts[2].startswith("sweep:  50%") and "55/110 [00:00<" in texts[2] and "7 passes" in texts[2]
    assert texts[3].startswith("refine: 16pass [00:00")
