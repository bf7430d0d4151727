"""What the panes of latency.sh say: of each pair the mean and the 99th percentile with moves held back and allowed.

usage: pairs.py DIRECTORY; exit code 1 if moves add more than 10 % to the median pair's mean.
"""

import glob
import re
import statistics
import sys


def latencies(name):
    """In ms; fio writes one line for each read, the second column in ns."""
    with open(glob.glob(name + "_lat.1.log")[0]) as lines:
        return [int(line.split(",")[1]) / 1e6 for line in lines]


def percentile(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:+.1f} % (quartiles {low:+.1f} to {high:+.1f}, all {min(values):+.1f} to {max(values):+.1f})"


directory = sys.argv[1]
pairs = sorted(int(re.search(r"held\.(\d+)\.work", name).group(1)) for name in glob.glob(directory + "/held.*.work"))
rows, every, moved = [], {"held": [], "moving": []}, {"held": [0] * 5, "moving": [0] * 5}
for pair in pairs:
    row = []
    for kind in ("held", "moving"):
        name = f"{directory}/{kind}.{pair}"
        found = latencies(name)
        every[kind] += found
        row += [statistics.mean(found), percentile(found, 0.99)]
        numbers = [int(number) for number in open(name + ".work").read().split()]
        work = [after - before for before, after in zip(numbers[:5], numbers[5:])]
        moved[kind] = [a + b for a, b in zip(moved[kind], work)]
        row += [(work[0] + work[1]) / 2**20]
    rows.append(row)
print("| pair | held: mean, p99 in ms | moving: mean, p99 in ms | MiB moved and copied | mean |\n|---|---|---|---|---|")
for pair, (held, held99, _, moving, moving99, mib) in zip(pairs, rows):
    change = (moving / held - 1) * 100
    print(f"| {pair} | {held:.3f}, {held99:.2f} | {moving:.3f}, {moving99:.2f} | {mib:.0f} | {change:+.1f} % |")
means = [(row[3] / row[0] - 1) * 100 for row in rows]
print(f"mean latency with moves, by pairs: median {spread(means)}")
print(f"99th percentile, by pairs: median {spread([(row[4] / row[1] - 1) * 100 for row in rows])}")
held, moving = every["held"], every["moving"]
print(
    f"all {len(held)} and {len(moving)} reads: mean {statistics.mean(held):.3f} and {statistics.mean(moving):.3f} ms, median "
    f"{statistics.median(held):.3f} and {statistics.median(moving):.3f}, p99 {percentile(held, 0.99):.2f} and "
    f"{percentile(moving, 0.99):.2f}, longest {max(held):.1f} and {max(moving):.1f}"
)
for kind in ("held", "moving"):
    move, copy, up, down, copies = moved[kind]
    print(f"{kind}: {up} segments up, {down} down, {copies} copied; {(move + copy) / 2**20:.0f} MiB")
if statistics.median(means) > 10:
    print("aim missed: moves delay others by more than 10 %")
    sys.exit(1)
