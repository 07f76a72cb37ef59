#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The best K of K = 2..12 from Python: kmgen.find_k beside what people write today, by time, lines and answer.

The peers are scikit-learn's KMeans looped over K with silhouette_score, and yellowbrick's KElbowVisualizer (whose
elbow, and whose silhouette). Each is a text of LINES below, run as it stands, so that its lines can be counted: the
same points (float32, six clusters), ten restarts of each K by greedy k-means++. Silhouettes of many points take
n^2: with more than SILHOUETTES_MAX points scikit-learn's is of a sample of 10,000, as its docs say to do; yellowbrick
has no such choice, and is left out then.

Usage: PYTHONPATH=FOLDER_OF_KMGEN bench/python_peers.py [--points 10000,100000,1000000] [--runs N]
"""

import argparse
import statistics
import sys
import textwrap
import time
import warnings

import numpy as np

SILHOUETTES_MAX = 20_000
LINES = {
    "kmgen.find_k": """
        import kmgen
        best = kmgen.find_k(X, "2..12").k
    """,
    "scikit-learn, silhouette_score": """
        from sklearn.cluster import KMeans
        from sklearn.metrics import silhouette_score
        scores = {}
        for k in range(2, 13):
            labels = KMeans(k, n_init=10, random_state=0).fit_predict(X)
            scores[k] = silhouette_score(X, labels, sample_size=sample, random_state=0)
        best = max(scores, key=scores.get)
    """,
    "yellowbrick, elbow": """
        from sklearn.cluster import KMeans
        from yellowbrick.cluster import KElbowVisualizer
        shown = KElbowVisualizer(KMeans(n_init=10, random_state=0), k=(2, 13), timings=False)
        best = shown.fit(X).elbow_value_
    """,
    "yellowbrick, silhouette": """
        from sklearn.cluster import KMeans
        from yellowbrick.cluster import KElbowVisualizer
        shown = KElbowVisualizer(KMeans(n_init=10, random_state=0), k=(2, 13), metric="silhouette", timings=False)
        best = shown.fit(X).elbow_value_
    """,
}


def points(n, d=4, k=6):
    draw = np.random.default_rng(0)
    centers = draw.uniform(-15, 15, (k, d)).astype(np.float32)
    return centers[draw.integers(0, k, n)] + draw.standard_normal((n, d), dtype=np.float32)


def run(text, X):
    names = {"X": X, "sample": 10_000 if len(X) > SILHOUETTES_MAX else None}
    began = time.perf_counter()
    exec(text, names)
    return time.perf_counter() - began, names["best"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", default="10000,100000,1000000", help="numbers of points, by commas")
    parser.add_argument("--runs", type=int, default=3, help="of each, in turns; the median counts; default: 3")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    texts = {name: textwrap.dedent(text).strip() for name, text in LINES.items()}
    for name, text in list(texts.items()):  # imports, first use
        try:
            run(text, points(500))
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            del texts[name]
    print("| points | by | lines | seconds | times kmgen's | K |\n|---|---|---|---|---|---|")
    for n in (int(word) for word in given.points.split(",")):
        X, took = points(n), {}
        chosen = [name for name in texts if n <= SILHOUETTES_MAX or name != "yellowbrick, silhouette"]
        for _ in range(max(1, given.runs)):
            for name in chosen:
                took.setdefault(name, []).append(run(texts[name], X))
        own = statistics.median(s for s, _ in took["kmgen.find_k"])
        for name in chosen:
            seconds, best = statistics.median(s for s, _ in took[name]), took[name][-1][1]
            lines = texts[name].count("\n") + 1
            print(f"| {n:,} | {name} | {lines} | {seconds:.3f} | {seconds / own:.1f} | {best} |")


if __name__ == "__main__":
    main()
