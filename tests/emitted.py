# SPDX-License-Identifier: MIT
# Tables for tests/emitted.sh, and what must be equal.
# usage: emitted.py make FOLDER            points.f32, first.f32, and first.npy for kmgen fit --init
#        emitted.py compare JSON STDOUT [LABELS.npy LABELS]      of kmgen fit, and of the example
import array
import json
import random
import sys

D, KS, N = 4, range(2, 7), 20011


def write_npy(path, rows, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {D}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


def make(folder):
    draw = random.Random(3)
    centroids = [[draw.uniform(-4, 4) + 100 for _ in range(D)] for _ in range(5)]
    points = array.array("f", (draw.gauss(m, 1) for _ in range(N) for m in draw.choice(centroids)))
    first = array.array("f")
    for k in KS:
        for i in draw.sample(range(N), k):
            first.extend(points[i * D : i * D + D])
    # A centroid that no point is nearest to: it is given one.
    first[-D:] = array.array("f", [300.0] * D)
    for name, values in (("points", points), ("first", first)):
        with open(f"{folder}/{name}.f32", "wb") as file:
            values.tofile(file)
    write_npy(f"{folder}/first.npy", sum(KS), first)


def compare(json_path, stdout_path, labels_path=None, own_labels_path=None):
    models = {m["k"]: m for m in json.load(open(json_path))["models"]}
    lines = [line.split() for line in open(stdout_path)][1:]
    assert [int(line[0]) for line in lines] == list(KS), lines
    for line in lines:
        k, passes, inertia = int(line[0]), int(line[1]), float(line[2])
        wanted = models[k]["inertia"]
        assert passes == models[k]["n_iter"], (k, passes, models[k]["n_iter"])
        assert abs(inertia - wanted) <= 1e-9 * wanted, (k, inertia, wanted)
    print(f"{len(lines)} K: passes and inertia are those of kmgen fit")
    if not labels_path:
        return
    data = open(labels_path, "rb").read()
    columns = array.array("i", data[len(data) - 4 * N * len(KS) :])  # a row a point, a column a K
    own = array.array("i", open(own_labels_path, "rb").read())  # one K after the other
    assert len(own) == N * len(KS), len(own)
    for q in range(len(KS)):
        differ = sum(own[q * N + i] != columns[i * len(KS) + q] for i in range(N))
        assert differ == 0, (KS[q], differ)
    print(f"{len(own)} labels are those of kmgen fit")


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    compare(*sys.argv[2:])
