# SPDX-License-Identifier: MIT
"""Families of tables with a known number of clusters, or with none, made with seeds: what bench/decision.py counts on.

A family is a function of a numpy generator. Those of CLUSTERED return (points, clusters), those of NONE points.
Separations are in standard deviations of a cluster. Few of them were made for a criterion to like: clusters overlap,
differ in size and density, are long, have tails, lie in noise, or are few in columns of unequal scales.
"""
import math
import os

import numpy as np

SHARED = ["faithful", "ruspini", "s1", "a1", "unbalance"]
SHARED_K = {"faithful": 2, "ruspini": 4, "s1": 15, "a1": 20, "unbalance": 8}


def centres(r, k, d, apart):
    """k centres in a box, the nearest `apart` from each other at least; the box grows until they fit."""
    side, out = apart * k ** (1 / d) * 1.1, []
    while len(out) < k:
        for _ in range(300):
            c = r.uniform(0, side, d)
            if all(np.linalg.norm(c - o) >= apart for o in out):
                out.append(c)
                break
        else:
            side *= 1.1
    return np.array(out)


def sizes(r, n, k, power):
    share = r.uniform(0.05 if power else 1, 1, k) ** power
    return np.maximum((n * share / share.sum()).astype(int), 12)


def mixture(r, means, counts, shapes=None, spread=None, tail=None):
    parts, d = [], means.shape[1]
    for j, (mean, n) in enumerate(zip(means, counts)):
        z = r.standard_normal((n, d))
        if tail == "t":
            z /= np.sqrt(r.chisquare(5, (n, 1)) / 5)
        if tail == "skewed":
            z = (r.gamma(2, 1, (n, d)) - 2) / math.sqrt(2)
        if shapes is not None:
            z = z @ shapes[j]
        if spread is not None:
            z = z * spread[j]
        parts.append(mean + z)
    return np.vstack(parts), len(means)


def shape(r, d, ratio):
    """A random symmetric matrix of determinant 1, whose axes differ up to `ratio` times."""
    q, _ = np.linalg.qr(r.standard_normal((d, d)))
    s = np.exp(r.uniform(-1, 1, d) * math.log(ratio) / 2)
    return (q * (s / np.exp(np.log(s).mean()))) @ q.T


def draw(r, low, high):
    return int(r.integers(low, high + 1))


def equal(r):
    k, d = draw(r, 3, 12), draw(r, 2, 10)
    return mixture(r, centres(r, k, d, r.uniform(5, 9)), sizes(r, 120 * k, k, 0))


def overlap(r):
    k, d = draw(r, 4, 15), draw(r, 2, 4)
    return mixture(r, centres(r, k, d, r.uniform(3, 4.2)), sizes(r, 200 * k, k, 0))


def unequal_sizes(r):
    k, d = draw(r, 3, 9), draw(r, 2, 8)
    return mixture(r, centres(r, k, d, r.uniform(5, 8)), sizes(r, 200 * k, k, 2))


def unequal_densities(r):
    k, d = draw(r, 3, 9), draw(r, 2, 5)
    spread = np.exp(r.uniform(-1.2, 0.4, k))
    return mixture(r, centres(r, k, d, r.uniform(5, 8)), sizes(r, 200 * k, k, draw(r, 0, 1)), spread=spread)


def elongated(r):
    k, d = draw(r, 3, 8), draw(r, 2, 6)
    shapes = [shape(r, d, r.uniform(4, 25)) for _ in range(k)]
    return mixture(r, centres(r, k, d, r.uniform(6, 10)), sizes(r, 150 * k, k, 0), shapes)


def many(r):
    k, d = draw(r, 18, 40), draw(r, 2, 4)
    return mixture(r, centres(r, k, d, r.uniform(4.5, 8)), sizes(r, 80 * k, k, draw(r, 0, 1)))


def noise(r):
    k, d = draw(r, 3, 8), draw(r, 2, 4)
    x, _ = mixture(r, centres(r, k, d, r.uniform(6, 9)), sizes(r, 200 * k, k, 0))
    more = r.uniform(x.min(0), x.max(0), (int(len(x) * r.uniform(0.03, 0.15)), d))
    return np.vstack([x, more]), k


def features(r):
    k, d = draw(r, 3, 11), int(r.choice([16, 32, 64]))
    return mixture(r, centres(r, k, d, r.uniform(5, 10)), sizes(r, 100 * k, k, draw(r, 0, 1)))


def few_scaled(r):
    """Like measured tables: two to four overlapping classes, features that hang together, some that say little."""
    k, d = draw(r, 2, 4), draw(r, 4, 20)
    common = shape(r, d, 30)
    shapes = [common @ shape(r, d, 3) for _ in range(k)]
    x, _ = mixture(r, centres(r, k, d, r.uniform(3.5, 7)), sizes(r, 150 * k, k, draw(r, 0, 1)), shapes)
    return x / x.std(0), k


def few_unscaled(r):
    x, k = few_scaled(r)
    return x * np.exp(r.uniform(-2, 2, x.shape[1])), k


def tails(r):
    k, d = draw(r, 3, 8), draw(r, 2, 8)
    return mixture(r, centres(r, k, d, r.uniform(6, 10)), sizes(r, 150 * k, k, 0), tail=str(r.choice(["t", "skewed"])))


def groups(r):
    """Clusters in groups; the clusters count, not the groups."""
    g, m, d = draw(r, 2, 4), draw(r, 2, 4), draw(r, 2, 5)
    means = np.vstack([o + centres(r, m, d, r.uniform(4.5, 6)) for o in centres(r, g, d, r.uniform(14, 25))])
    return mixture(r, means, sizes(r, 120 * len(means), len(means), 0))


def heavy_overlap(r):
    return mixture(r, centres(r, 15, 2, r.uniform(2.3, 3.0)), sizes(r, 5000, 15, 0))


def rings(r):
    """One cluster inside a ring of seven inside a ring of seven."""
    angles = np.linspace(0, 2 * np.pi, 8)[:-1]
    ring = np.c_[np.cos(angles), np.sin(angles)]
    means = np.vstack([np.zeros((1, 2)), 2.2 * ring, 6 * ring]) * r.uniform(2.4, 3.6)
    return mixture(r, means, [40] * 15)


def lattice(r):
    means = np.array([(i, j) for i in range(6) for j in range(6)]) * r.uniform(3.5, 5)
    return mixture(r, means, [300] * 36)


def two(r):
    d = int(r.choice([2, 8, 16, 32]))
    return mixture(r, np.vstack([np.zeros(d), np.full(d, r.uniform(2.6, 6) / math.sqrt(d))]), [1024] * 2)


def integers(r):
    x, k = equal(r)
    return np.round(x * r.uniform(0.5, 3)), k


def sparse(r):
    """Counts of words, yes and no, or measurements of which most are 0, in many columns."""
    k, n, d = int(r.integers(3, 9)), int(r.integers(1500, 4000)), int(r.integers(40, 300))
    label, kind = r.integers(0, k, n), int(r.integers(3))
    if kind == 0:
        return r.poisson(r.gamma(0.3, 1, (k, d))[label]).astype(float), k
    if kind == 1:
        return (r.random((n, d)) < np.where(r.random((k, d)) < 0.15, 0.6, 0.03)[label]).astype(float), k
    means = 5 * r.random((k, d)) * (r.random((k, d)) < 0.1)
    return means[label] * (r.random((n, d)) < 0.6) + r.random((n, d)) * (r.random((n, d)) < 0.03), k


CLUSTERED = [equal, overlap, unequal_sizes, unequal_densities, elongated, many, noise, features, few_scaled,
             few_unscaled, tails, groups, heavy_overlap, rings, lattice, two, integers, sparse]


def shape_of_none(r):
    return int(r.choice([200, 1000, 5000])), int(r.choice([2, 3, 5, 10]))


def uniform(r):
    return r.uniform(size=shape_of_none(r))


def normal(r):
    return r.standard_normal(shape_of_none(r))


def normal_correlated(r):
    n, d = shape_of_none(r)
    return r.standard_normal((n, d)) @ shape(r, d, 30)


def uniform_turned(r):
    n, d = shape_of_none(r)
    return r.uniform(size=(n, d)) @ shape(r, d, 30)


def exponential(r):
    return r.exponential(size=shape_of_none(r))


def lognormal(r):
    return np.exp(0.7 * r.standard_normal(shape_of_none(r)))


def student(r):
    n, d = shape_of_none(r)
    return r.standard_normal((n, d)) / np.sqrt(r.chisquare(4, (n, 1)) / 4)


def ball(r):
    n, d = shape_of_none(r)
    z = r.standard_normal((n, d))
    return z / np.linalg.norm(z, axis=1)[:, None] * r.uniform(size=(n, 1)) ** (1 / d)


def normal_integers(r):
    return np.round(r.standard_normal(shape_of_none(r)) * r.choice([1, 3, 15]))


def ratings(r):
    return np.clip(np.round(3 + 1.2 * r.standard_normal(shape_of_none(r))), 1, 5)


def counts(r):
    return r.poisson(r.gamma(2, 3, shape_of_none(r)))


def many_features(r):
    return r.standard_normal((int(r.choice([50, 200, 1000])), int(r.choice([20, 60]))))


NONE = [uniform, normal, normal_correlated, uniform_turned, exponential, lognormal, student, ball,
        normal_integers, ratings, counts, many_features]


def real(folder):
    """(name, points, clusters) of measured and of published tables: scikit-learn's, and those of `folder`."""
    from sklearn import datasets

    tables = [("iris", datasets.load_iris().data, 3), ("wine", datasets.load_wine().data, 3),
              ("wdbc", datasets.load_breast_cancer().data, 2), ("digits", datasets.load_digits().data, 10)]
    for name in SHARED:
        path = os.path.join(folder, name + ".csv")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                head = not lines.readline().strip()[0].isdigit()
            tables.append((name, np.loadtxt(path, delimiter=",", skiprows=int(head)), SHARED_K[name]))
    for name, x, k in tables:
        yield name, x, k
        if name in ("iris", "wine", "wdbc", "faithful"):
            yield name + " scaled", x / x.std(0), k
