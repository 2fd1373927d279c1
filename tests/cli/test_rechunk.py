"""rechunk: copies whose samples are stored in another form, and the advice that leads to it."""

import json
import os
import pathlib
import resource
import signal
import unittest

from programs import Case, Program, h5py, needs_h5py, numpy

COSMOFLOW, CLIMATE, BENCH = (Program(f"keelson-{name}") for name in ("cosmoflow", "climate", "bench"))
SMALL = ("--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3, "--max-steps", 1)


def contents(path):
    """Values, types and attributes of all objects, and the targets of links."""
    found = {}

    def add(name, o):
        found[name] = [{k: numpy.asarray(v).tolist() for k, v in o.attrs.items()}]
        if isinstance(o, h5py.Dataset):
            found[name] += [o.dtype.newbyteorder("="), o.shape, o[()].tolist()]

    with h5py.File(path) as f:
        add("/", f)
        f.visititems(add)
        f.visititems_links(lambda name, link: isinstance(link, h5py.SoftLink) and found.update({name: link.path}))
    return found


@needs_h5py
class Rechunk(Case):
    program = COSMOFLOW

    def make(self, name="data", files=5, samples=3, edge=16):
        """Files with badly chunked samples, and with all that a file may hold besides."""
        folder = self.folder / name
        for i in range(files):
            path = folder / ("train" if i else "validation") / f"u{i}.h5"
            path.parent.mkdir(parents=True, exist_ok=True)
            x = numpy.random.default_rng(i).integers(0, 300, (samples, edge, edge, edge, 2)).astype(">i2")
            with h5py.File(path, "w") as f:
                f.create_dataset("x", data=x, chunks=(samples, edge, 5, edge, 1), compression=4, shuffle=True)
                f["x"].attrs["unit"] = "particles"
                f["y"] = numpy.linspace(-1, 1, samples * 4).reshape(samples, 4).astype("f4")
                f.attrs["parameter_names"] = ["a", "b", "c", "d"]
                f.attrs["numbers"] = numpy.arange(6.0).reshape(2, 3)
                f.attrs["empty"] = h5py.Empty("f4")
                f["more/deep/texts"] = ["Ω", ""]
                f["more/deep"].attrs["note"] = numpy.bytes_("fixed")
                f.create_dataset("more/z", data=numpy.arange(100), chunks=(7,), fletcher32=True)
                f["alias"] = h5py.SoftLink("/more/z")
        return folder

    def rechunk(self, data, *options, out=None, **run):
        return self.succeed("rechunk", "--data", data, "--out", out or self.out, *options, **run)

    def assert_same(self, data, out):
        names = sorted(p.relative_to(data) for p in data.rglob("*.h5"))
        self.assertEqual(names, sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file()))
        for name in names:
            expected, found = contents(data / name), contents(out / name)
            expected["/"][0].pop("empty"), found["/"][0].pop("empty")  # no numbers
            self.assertEqual(found, expected, name)

    def test_keeps_all_and_stores_samples_anew(self):
        data = self.make()
        sources = {p: p.read_bytes() for p in data.rglob("*.h5")}
        for options, chunks, filters in (((), None, (None, False)),
                                         (("--chunk", "sample"), (1, 16, 16, 16, 2), (None, False)),
                                         (("--gzip", 1, "--shuffle"), (1, 16, 16, 16, 2), ("gzip", True)),
                                         (("--chunk", "8,16,16,2", "--gzip", 9), (1, 8, 16, 16, 2), ("gzip", False))):
            out = self.folder / f"out{len(options)}{options[-1] if options else ''}"
            text = self.rechunk(data, *options, out=out, ranks=2)
            self.assertIn("5 files made", text)
            self.assert_same(data, out)
            for path in out.rglob("*.h5"):
                with h5py.File(path) as f:
                    self.assertEqual(f["x"].chunks, chunks)
                    self.assertEqual((f["x"].compression, f["x"].shuffle), filters)
                    self.assertTrue(f["x"].dtype.isnative)
                    self.assertEqual(f["more/z"].chunks, (7,))
                    self.assertTrue(f["more/z"].fletcher32)
        self.assertEqual(sources, {p: p.read_bytes() for p in data.rglob("*.h5")})

    def test_the_same_file_gives_the_same_copy(self):
        data = self.make(files=1)
        copies = []
        for name in ("a", "b"):
            self.rechunk(data, "--gzip", 1, out=self.folder / name)
            copies.append((self.folder / name / "validation/u0.h5").read_bytes())
        self.assertEqual(*copies)

    def test_starts_again_where_it_ended(self):
        data = self.make()
        self.rechunk(data, "--gzip", 1)
        files = sorted(self.out.rglob("*.h5"))
        before = {p: p.stat().st_mtime_ns for p in files}
        files[2].unlink()
        self.assertRegex(self.rechunk(data, "--gzip", 1, ranks=2), r"1 file made .*, 4 there already")
        self.assertEqual([p for p in files if p.stat().st_mtime_ns != before[p]], [files[2]])
        self.refused("rechunk", "--data", data, "--out", self.out, "--gzip", 2, says="exists, with other chunks")
        source = data / files[0].relative_to(self.out)
        os.utime(source, ns=(2 * before[files[0]],) * 2)
        self.refused("rechunk", "--data", data, "--out", self.out, "--gzip", 1, says="is older than its original")

    def test_a_full_disk_leaves_no_file(self):
        """The limit on a file's size stands in for a full disk: writing fails in the same way."""
        data = self.make(files=1)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))

        for options in ((), ("--gzip", 1)):
            self.ends(1, "rechunk", "--data", data, "--out", self.out, *options, preexec_fn=limit,
                      says="u0.h5.*cannot be written.*File too large")
            self.assertEqual([p for p in self.out.rglob("*") if p.is_file()], [])
        self.rechunk(data)
        self.assert_same(data, self.out)

    def test_refusals(self):
        data = self.make(files=2)
        one = data / "train/u1.h5"
        for options, says in ((("--data", data, "--out", data), "lies in the folder of the data"),
                              (("--data", data, "--out", data / "train/new"), "lies in the folder of the data"),
                              (("--data", one, "--out", one.parent), "lies in the folder of the data"),
                              (("--data", data), "give --out"), (("--out", self.out), "give --data"),
                              (("--data", data, "--out", self.out, "--chunk", "16,16"), "Expected 4 numbers"),
                              (("--data", data, "--out", self.out, "--chunk", "16,x"), "--chunk 16,x: expected"),
                              (("--data", self.folder / "absent", "--out", self.out), "does not exist")):
            with self.subTest(says):
                self.refused("rechunk", *options, says=says)
        with h5py.File(one, "a") as f:
            del f["x"]
            f.create_dataset("x", (3, 16, 16, 16, 2), "i2", chunks=(1, 16, 16, 16, 2))[0] = 1
        self.refused("rechunk", "--data", one, "--out", self.out, says="u1.h5: 'x': some of its elements were never written")
        with h5py.File(one, "a") as f:
            del f["x"]
            f["x"] = numpy.ones((3, 16, 16, 16, 2), "i2")
            f["x"].attrs["reference"] = f["y"].ref
        self.refused("rechunk", "--data", one, "--out", self.out, says="'reference' refers to other objects")
        other = self.folder / "other"
        other.mkdir()
        with h5py.File(other / "a.h5", "w") as f:
            f["z"] = [1, 2]
        self.refused("rechunk", "--data", other, "--out", self.out, says="none of 1 file holds samples")

    def test_advice(self):
        """It is given where samples share compressed chunks, names the command, and is gone after the command."""
        data = self.make(files=3, edge=32)
        run = ("--out", self.folder / "run", "--max-steps", 1, "--overwrite")
        text = self.succeed("train", "--data", data, *run)
        self.assertRegex(text, r"note: .*u1.h5: 'x' \(3, 32, 32, 32, 2\) is stored in chunks of \(3, 32, 5, 32, 1\).*"
                               r"3\.\d times as much.*Expected at most 1.5.*keelson-cosmoflow rechunk --data .*train --out")
        measured = json.loads(BENCH.run("input", "--data", data, "--epochs", 1, "--json").stdout)
        self.assertAlmostEqual(measured["read_amplification"], 3 * 35 / 32)
        self.assertEqual(measured["chunk"], [3, 32, 5, 32, 1])
        self.assertIn("read amplification 3.28", BENCH.run("input", "--data", data, "--epochs", 1).stdout)
        for options in ((), ("--gzip", 1)):
            out = self.folder / f"new{len(options)}"
            self.rechunk(data, *options, out=out)
            self.assertNotIn("note:", self.succeed("train", "--data", out, *run))
            self.assertEqual(json.loads(BENCH.run("input", "--data", out, "--epochs", 1, "--json").stdout)["read_amplification"], 1)


@needs_h5py
class RechunkSnapshots(Case):
    program = CLIMATE

    def test_snapshots(self):
        data = self.folder / "weather"
        self.succeed("generate", "--out", data, "--height", 64, "--width", 96, "--cyclones", 2, "--train", 2, "--validation", 1,
                     "--test", 0)
        bad = self.folder / "bad"
        for source in data.rglob("*.h5"):
            path = bad / source.relative_to(data)
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(source) as f, h5py.File(path, "w") as g:
                for name in f:
                    f.copy(name, g)
                if "data" in f["climate"]:
                    del g["climate/data"]
                    g.create_dataset("climate/data", data=f["climate/data"][()], chunks=(40, 60, 16), compression=1)
        train = ("--out", self.folder / "run", "--overwrite", *SMALL)
        self.assertIn("keelson-climate rechunk", self.succeed("train", "--data", bad, *train))
        text = self.succeed("rechunk", "--data", bad, "--out", self.out, ranks=2)
        self.assertRegex(text, "3 files made .*, 1 without samples copied as they are")
        for path in bad.rglob("*.h5"):
            self.assertEqual(contents(self.out / path.relative_to(bad)), contents(path))
        self.assertEqual((self.out / "stats.h5").read_bytes(), (bad / "stats.h5").read_bytes())
        self.assertNotIn("rechunk", self.succeed("train", "--data", self.out, *train))
        compressed = pathlib.Path(self.folder / "compressed")
        self.succeed("rechunk", "--data", self.out, "--out", compressed, "--gzip", 1, "--shuffle")
        with h5py.File(next((compressed / "train").iterdir())) as f:
            self.assertEqual(f["climate/data"].chunks, (64, 96, 16))
            self.assertEqual(f["climate/labels_0"].chunks, (64, 96))


if __name__ == "__main__":
    unittest.main(verbosity=2)
