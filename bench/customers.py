# SPDX-License-Identifier: MIT
"""A table as people have them: customers of five segments, with an id, a name, a city, a date, and four numbers of
which 1 % are empty.

    bench/customers.py TABLE.csv [--rows 2000000] [--seed 1] [--segments SEGMENTS.npy]

SEGMENTS.npy: the segment of each row, to compare with what was found."""
import argparse

import numpy

CITIES = ["Lyon", "Porto", "Graz", "Turku", "Leeds", "Gdynia", "Aarhus", "Ghent", "Nantes", "Sevilla", "Bergen",
          "\"Frankfurt, Main\""]
FIRST = ["Ada", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gil", "Hana", "Ivo", "Jana", "Kurt", "Lea"]
LAST = ["Abel", "Bauer", "Costa", "Dahl", "Eder", "Ferro", "Gray", "Holm", "Ito", "Jansen", "Klein", "Lund", "Moser",
        "Novak", "Olsen", "Popov"]
# of each segment: its share, then mean and standard deviation of age, visits, spend, basket
SEGMENTS = [(0.30, (27, 3.0), (42, 4.0), (310, 40), (12.0, 2.0)),
            (0.25, (38, 3.5), (11, 2.5), (950, 70), (61.0, 6.0)),
            (0.20, (52, 3.0), (24, 3.0), (1800, 120), (33.0, 4.0)),
            (0.15, (66, 4.0), (6, 1.5), (240, 40), (24.0, 3.0)),
            (0.10, (45, 3.0), (55, 4.5), (3100, 150), (88.0, 7.0))]
COLUMNS = ["customer_id", "name", "city", "joined", "age", "visits", "spend", "basket"]
DIGITS = [1, 1, 2, 3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--segments")
    arguments = parser.parse_args()
    rng, n = numpy.random.default_rng(arguments.seed), arguments.rows
    segment = rng.choice(len(SEGMENTS), size=n, p=[s[0] for s in SEGMENTS])
    mean, deviation = (numpy.array([[number[i] for number in s[1:]] for s in SEGMENTS]) for i in (0, 1))
    numbers = mean[segment] + deviation[segment] * rng.standard_normal((n, 4))
    numbers = numpy.abs(numbers)
    columns = [[f"{100001 + i}" for i in range(n)]]
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    columns.append([names[i] for i in rng.integers(len(names), size=n)])
    columns.append([CITIES[i] for i in rng.integers(len(CITIES), size=n)])
    days = [str(day) for day in numpy.arange("2018-01-01", "2024-11-05", dtype="datetime64[D]")]
    columns.append([days[i] for i in rng.integers(len(days), size=n)])
    for f, digits in enumerate(DIGITS):
        cells = [f"{value:.{digits}f}" for value in numbers[:, f].tolist()]
        for i in numpy.flatnonzero(rng.random(n) < 0.01).tolist():
            cells[i] = ""
        columns.append(cells)
    with open(arguments.table, "w", encoding="utf-8") as table:
        table.write(",".join(COLUMNS) + "\n")
        table.writelines(",".join(row) + "\n" for row in zip(*columns))
    if arguments.segments:
        numpy.save(arguments.segments, segment.astype(numpy.int32))


if __name__ == "__main__":
    main()
