"""Prints what the network of `./dev demo insitu` has learned, when its trigger turned on, and the time of a step; draws
the last state. Exit code 1: the network has not learned."""

import argparse
import json
import pathlib
import re
import struct
import sys
import zlib

import h5py
import numpy

PARTS = ("pack", "infer", "train", "trigger", "write")


def png(path, pixels):
    """Writes an RGB picture of 8 bits (W3C PNG, third edition)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def draw(snapshot, path, scale=3):
    """Draws density in grey, and shocks: green if network and criterion agree, red if the network missed it, blue if
    only the network found it."""
    with h5py.File(snapshot) as f:
        density, truth, found = f["density"][()], f["truth"][()] > 0.5, f["shock"][()] > 0.5
    grey = (density - density.min()) / (density.max() - density.min())
    grey = (40 + 200 * grey[..., None].repeat(3, -1)).astype("u1")
    plain = grey.copy()
    grey[truth & found] = (0, 200, 80)
    grey[truth & ~found] = (230, 30, 30)
    grey[~truth & found] = (50, 90, 255)
    both = numpy.concatenate([plain, grey], 0)  # side by side, with y upwards
    both = both.transpose(1, 0, 2)[::-1].repeat(scale, 0).repeat(scale, 1)
    png(path, numpy.ascontiguousarray(both))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--require", type=float, default=0)
    o = parser.parse_args()
    iou = float(re.search(r"intersection over union: (\S+)", (o.run / "euler_kokkos.log").read_text()).group(1))
    totals = json.loads((o.run / "insitu.log").read_text().splitlines()[-1])
    steps = totals["steps"]
    print(f"intersection over union with the criterion on velocities, in the second half of the run: {iou:.3f}")
    for snapshot in sorted(o.run.glob("strong-*.h5")):
        with h5py.File(snapshot) as f:
            print(f"trigger on: step {f.attrs['step']}, time {f.attrs['time']:.4f}: {snapshot.name}")
    print(f"{steps} steps of {1000 * totals['step_seconds'] / steps:.2f} ms, of which the network took {100 * totals['share']:.1f} %:")
    for part in PARTS:
        print(f"  {part:<8}{1000 * totals[part] / steps:9.3f} ms")
    print(f"{totals['train_steps']} training steps, last loss {totals['loss']:.4f}")
    draw(o.run / "last.h5", o.run / "shocks.png")
    print(f"The picture: {(o.run / 'shocks.png').resolve()}")
    print("  left: density; right: shocks that both found (green), that the network missed (red), that it alone found (blue)")
    if iou < o.require:
        sys.exit(f"not good enough: the intersection over union is {iou:.3f}, expected at least {o.require}")


if __name__ == "__main__":
    main()
