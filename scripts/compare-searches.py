#!/usr/bin/env python3
"""Compares the searches of two methods that had the same seconds, from their logs.

    compare-searches.py --seconds 210 --svg courses.svg evolution=runs/evolution-1,runs/evolution-2 random=runs/random-1,...

Prints median and quartiles of the validation loss of the best network at the end of the time, of the networks that were
begun, and of the test loss where a file FOLDER.log has what keelson-search printed; and the two-sided p-value of the
exact Mann-Whitney test. --svg writes the loss of the best network over time: each search, and the medians.
"""

import argparse
import bisect
import itertools
import json
import math
import os
import re

COLORS = ("#2a78d6", "#d9653b")


def course(folder, limit):
    """Seconds since the start, and the loss of the network that was the best one then; and the networks begun."""
    begin, networks, losses, points = None, 0, {}, []
    for line in open(os.path.join(folder, "search.jsonl")):
        entry = json.loads(line)
        if entry["type"] == "start":
            begin = entry["time"]
        elif entry["type"] == "birth" and entry["time"] - begin <= limit:
            networks += 1
        elif entry["type"] == "result" and entry["time"] - begin <= limit:
            losses[entry["id"]] = entry["loss"]
            points.append((entry["time"] - begin, min(losses.values())))
    return points, networks


def test_loss(folder):
    if not os.path.exists(f"{folder}.log"):
        return None
    found = re.search(r"^test data: loss ([0-9.e+-]+)", open(f"{folder}.log").read(), re.M)
    return float(found[1]) if found else None


def quantile(values, part):
    values = sorted(values)
    place = part * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def mann_whitney(a, b):
    """The two-sided p-value: of all divisions of the values into groups of these sizes, those whose U is at least as
    far from its mean."""
    def u(first, second):
        return sum((x < y) + (x == y) / 2 for x in first for y in second)

    values, middle = a + b, len(a) * len(b) / 2
    extreme = total = 0
    for chosen in itertools.combinations(range(len(values)), len(a)):
        rest = [values[i] for i in range(len(values)) if i not in chosen]
        total += 1
        extreme += abs(u([values[i] for i in chosen], rest) - middle) >= abs(u(a, b) - middle) - 1e-9
    return extreme / total


def loss_at(points, time):
    place = bisect.bisect_right([t for t, _ in points], time)
    return points[place - 1][1] if place else math.inf


def svg(methods, limit):
    width, height, left, bottom = 760, 360, 70, 45
    finals = [points[-1][1] for courses in methods.values() for points in courses]
    low, high = min(finals), 2 * max(finals) - min(finals)
    low -= 0.05 * (high - low)

    def x(t):
        return left + t / limit * (width - left - 110)

    def y(loss):
        return 15 + (high - min(loss, high)) / (high - low) * (height - bottom - 15)

    def path(points, color, wide):
        steps, before = [], None
        for t, loss in points + [(limit, points[-1][1])]:
            if loss > high:
                continue
            steps += [f"{x(t):.1f},{y(before):.1f}"] if before is not None else []
            steps.append(f"{x(t):.1f},{y(loss):.1f}")
            before = loss
        return (f'<polyline points="{" ".join(steps)}" fill="none" stroke="{color}" stroke-width="{2.5 if wide else 1}" '
                f'opacity="{1 if wide else 0.45}"/>')

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for k in range(5):
        loss, t = low + (high - low) * k / 4, limit * k / 4
        out.append(f'<line x1="{left}" x2="{x(limit):.1f}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.3f}</text>'
                   f'<text x="{x(t):.1f}" y="{height - bottom + 20}" text-anchor="middle">{t:.0f}</text>')
    out.append(f'<text x="{x(limit / 2):.1f}" y="{height - 6}" text-anchor="middle">seconds</text>'
               f'<text x="16" y="{height / 2 - 15}" text-anchor="middle" transform="rotate(-90 16 {height / 2 - 15})">'
               'validation loss of the best network</text>')
    for k, (name, courses) in enumerate(methods.items()):
        times = sorted({t for points in courses for t, _ in points})
        median = [(t, quantile([loss_at(points, t) for points in courses], 0.5)) for t in times
                  if all(loss_at(points, t) < math.inf for points in courses)]
        out += [path(points, COLORS[k % 2], False) for points in courses]
        out.append(path(median, COLORS[k % 2], True))
        out.append(f'<text x="{width - 100}" y="{30 + 20 * k}" fill="{COLORS[k % 2]}" font-weight="bold">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs=2, metavar="NAME=FOLDER,...")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--svg")
    options = parser.parse_args()
    folders = {m.split("=")[0]: m.split("=")[1].split(",") for m in options.methods}
    methods, scores = {}, {"validation loss": {}, "test loss": {}}
    for name, those in folders.items():
        found = [course(folder, options.seconds) for folder in those]
        methods[name] = [points for points, _ in found]
        scores["validation loss"][name] = [points[-1][1] for points in methods[name]]
        scores["test loss"][name] = [loss for loss in map(test_loss, those) if loss is not None]
        print(f"{name}: networks {', '.join(str(n) for _, n in found)}")
    for what, of in scores.items():
        if not all(of.values()):
            continue
        for name, values in of.items():
            print(f"{what}, {name}: median {quantile(values, 0.5):.4f}, quartiles {quantile(values, 0.25):.4f} to "
                  f"{quantile(values, 0.75):.4f}; {', '.join(f'{v:.4f}' for v in values)}")
        print(f"{what}: Mann-Whitney, two-sided, p = {mann_whitney(*of.values()):.3g}")
    if options.svg:
        with open(options.svg, "w") as out:
            out.write(svg(methods, options.seconds))


if __name__ == "__main__":
    main()
