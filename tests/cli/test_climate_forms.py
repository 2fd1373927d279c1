"""keelson-climate on snapshots in NetCDF and NumPy files, which other programs have written."""

import json
import pathlib
import shutil
import struct
import tempfile
import unittest

import programs
from programs import h5py, needs_h5py, numpy

CLIMATE = programs.Program("keelson-climate")
CHANNELS = "TMQ U850 V850 UBOT VBOT QREFHT PS PSL T200 T500 PRECT TS TREFHT Z1000 Z200 ZBOT".split()


def text(name):
    return struct.pack(">i", len(name)) + name.encode() + bytes(-len(name) % 4)


def history_file(path, variables):
    """Writes a CDF-2 file of variables (time, lat, lon), float32; time is unlimited."""
    times, height, width = next(iter(variables.values())).shape
    part = 4 * height * width

    def header(begin):
        out = b"CDF\2" + struct.pack(">iii", times, 10, 3)
        out += b"".join(text(n) + struct.pack(">i", d) for n, d in (("time", 0), ("lat", height), ("lon", width)))
        out += bytes(8) + struct.pack(">ii", 11, len(variables))
        for i, name in enumerate(variables):
            out += text(name) + struct.pack(">4i", 3, 0, 1, 2) + bytes(8) + struct.pack(">iiq", 5, part, begin + i * part)
        return out

    with open(path, "wb") as file:
        file.write(header(len(header(0))))
        for t in range(times):
            for array in variables.values():
                file.write(array[t].astype(">f4").tobytes())


@needs_h5py
class Forms(programs.Case):
    program = CLIMATE
    NET = ("--blocks", "1,1", "--growth", 4, "--first", 4, "--kernel", 3, "--optimizer", "adam", "--lr", 0.01, "--epochs", 2)

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="keelson-climate-"))
        cls.data = cls.shared / "data"
        done = CLIMATE.run("generate", "--out", cls.data, "--height", 64, "--width", 96, "--cyclones", 4, "--train", 4,
                           "--validation", 0, "--test", 0)
        assert done.returncode == 0, done.stderr
        (cls.data / "stats.h5").unlink()
        snapshots = [cls.data / f"train/data-000000{i}.h5" for i in range(4)]
        arrays = []
        for path in snapshots:
            with h5py.File(path) as f:
                arrays.append((f["climate/data"][()], f["climate/labels_0"][()]))
        for name in ("netcdf", "numpy", "unlabelled"):
            (cls.shared / name).mkdir()
        for first, times in ((0, 3), (3, 1)):  # as many snapshots in a file as there are times
            data, labels = (numpy.stack(a) for a in zip(*arrays[first:first + times]))
            variables = {name: data[..., c] for c, name in enumerate(CHANNELS)}
            history_file(cls.shared / f"unlabelled/cam.h1.{first}.nc", variables)
            history_file(cls.shared / f"netcdf/cam.h1.{first}.nc", {**variables, "LABELS": labels})
        for i, (data, labels) in enumerate(arrays):
            numpy.save(cls.shared / f"numpy/data-{i}.npy", numpy.concatenate([data, labels[..., None]], axis=2))
        cls.snapshots = arrays

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def test_all_forms_train_alike(self):
        losses = {}
        for form, path, ranks in (("HDF5", self.data / "train", 0), ("NetCDF", self.shared / "netcdf", 0),
                                  ("NumPy", self.shared / "numpy", 2)):
            out = self.folder / form
            self.succeed("train", "--train", path, "--validation", path, "--reproducible", "--batch", 2 if ranks == 0 else 1,
                         "--out", out, *self.NET, ranks=ranks)
            losses[form] = [(r["train_loss"], r["validation_loss"], r["metric"]) for r in programs.records(out, "epoch")]
        self.assertEqual(losses["NetCDF"], losses["HDF5"])
        for found, expected in zip(losses["NumPy"], losses["HDF5"]):
            numpy.testing.assert_allclose(found, expected, rtol=1e-4)
        evaluated = [json.loads(self.succeed("evaluate", "--checkpoint", self.folder / "HDF5", "--data", path, "--json"))
                     for path in (self.data / "train", self.shared / "netcdf", self.shared / "numpy")]
        for found in evaluated:
            found.pop("data")
            self.assertEqual(found, evaluated[0])

    def compare_without(self, form, names, more, ranks):
        """Trains on the files of the folder `form`, some of them broken, and on those of the folder `form`-good. Returns
        what the first run printed."""
        options = ("--reproducible", "--batch", 2 // max(ranks, 1), *self.NET, *more)
        parameters, printed = [], []
        for name in (form, f"{form}-good"):
            out = self.folder / f"run-{name}"
            skip = () if name.endswith("good") else ("--skip-broken", len(names))
            printed.append(self.succeed("train", "--train", self.folder / name, *options, *skip, "--out", out, ranks=ranks))
            parameters.append(programs.arrays(programs.newest(out)))
        self.assertEqual(parameters[0].keys(), parameters[1].keys())
        for name, values in parameters[0].items():
            self.assertTrue(numpy.array_equal(values, parameters[1][name]), f"{form}: {name}")
        report = (self.folder / f"run-{form}/report.html").read_text()
        for name in names:
            self.assertRegex(printed[0], rf"left out: .*{name}")
            self.assertTrue(name in report, name)
        few = self.program.run("train", "--train", self.folder / form, *options, "--skip-broken", len(names) - 1, "--out",
                               self.folder / "few", ranks=ranks)
        self.assertEqual(few.returncode, 2)
        self.assertRegex(few.stderr, r"at most \d may be left out")
        return printed[0]

    def test_broken_snapshots_are_left_out(self):
        """Files and samples of all forms; the run goes as if they were not there. The statistics, too, are computed without
        them."""
        validation = self.folder / "validation"
        for name in ("hdf5", "netcdf", "numpy"):
            (self.folder / name).mkdir()
            (self.folder / f"{name}-good").mkdir()
        shutil.copytree(self.data / "train", validation)
        for i, path in enumerate(sorted((self.data / "train").iterdir())):
            for folder in ("hdf5", "hdf5-good"):
                shutil.copy(path, self.folder / folder / f"{i}.h5")
        (self.folder / "hdf5/0.h5").write_bytes(path.read_bytes()[:5000])
        (self.folder / "hdf5-good/0.h5").unlink()
        (self.folder / "hdf5-good/2.h5").unlink()
        with h5py.File(self.folder / "hdf5/2.h5", "a") as f:
            f["climate/data"][3, 5, 7] = numpy.nan
        with h5py.File(validation / "data-0000000.h5", "a") as f:
            f["climate/labels_0"][9, 1] = 7
        printed = self.compare_without("hdf5", ["hdf5/0.h5", "hdf5/2.h5"], (), 0)
        self.assertRegex(printed, "a file is left out: .*hdf5/0.h5")
        self.assertRegex(printed, r"sample 1 is left out: .*hdf5/2.h5: 'climate/data' holds nan at \(3, 5, 7\)")
        # One of the validation samples, too: the report's maps begin with the next one.
        out = self.folder / "out"
        printed = self.succeed("train", "--train", self.folder / "hdf5-good", "--validation", validation, "--skip-broken", 1,
                               "--batch", 2, *self.NET, "--out", out)
        self.assertRegex(printed, "sample 0 is left out: .*data-0000000.h5: 'climate/labels_0' holds 7 at .*9, 1")
        maps = (out / "report.html").read_text().split("Maps of validation data")[1]
        self.assertNotIn("data-0000000.h5<", maps)
        self.assertIn("data-0000001.h5<", maps)
        self.refused("evaluate", "--checkpoint", out, says="data-0000000.h5: 'climate/labels_0' holds 7")

        data, labels = (numpy.stack(a) for a in zip(*self.snapshots))
        for name, times in (("netcdf", [0, 1, 2, 3]), ("netcdf-good", [0, 2, 3])):
            variables = {c: data[times, ..., i].copy() for i, c in enumerate(CHANNELS)}
            if name == "netcdf":
                variables["PRECT"][1, 2, 3] = numpy.inf
            history_file(self.folder / name / "a.nc", {**variables, "LABELS": labels[times]})
        shutil.copy(self.folder / "netcdf/a.nc", self.folder / "netcdf/b.nc")
        with open(self.folder / "netcdf/b.nc", "r+b") as f:
            f.truncate(700)
        printed = self.compare_without("netcdf", ["netcdf/a.nc", "netcdf/b.nc"], ("--channels", "0,5,10"), 2)
        self.assertRegex(printed, r"sample 1 is left out: .*'PRECT' holds inf at \(1, 2, 3\)")

        for i, (data, labels) in enumerate(self.snapshots):
            both = numpy.concatenate([data, labels[..., None]], axis=2)
            numpy.save(self.folder / f"numpy-good/{2 * i}.npy", both)
            numpy.save(self.folder / f"numpy/{2 * i}.npy", both)
        both[0, 0, 16] = 0.5
        numpy.save(self.folder / "numpy/1.npy", both)
        numpy.save(self.folder / "numpy/3.npy", both[:-2])
        self.compare_without("numpy", ["numpy/1.npy", "numpy/3.npy"], ("--labels", 0), 0)

    def test_history_files_are_labelled(self):
        expected, out = (self.folder / name for name in ("expected", "out"))
        self.succeed("label", "--data", self.data / "train", "--out", expected)
        self.succeed("label", "--data", self.shared / "unlabelled", "--out", out, "--with-data", ranks=2)
        names = ["cam.h1.0-0000.h5", "cam.h1.0-0001.h5", "cam.h1.0-0002.h5", "cam.h1.3.h5"]
        self.assertEqual(sorted(p.name for p in out.iterdir()), names)
        for i, name in enumerate(names):
            with h5py.File(out / name) as f, h5py.File(expected / f"data-000000{i}.h5") as of_hdf5:
                numpy.testing.assert_array_equal(f["climate/data"][()], self.snapshots[i][0])
                for labels in ("labels_0", "labels_1"):
                    numpy.testing.assert_array_equal(f[f"climate/{labels}"][()], of_hdf5[f"climate/{labels}"][()])
        self.refused("train", "--train", self.shared / "unlabelled", "--out", self.folder / "run", *self.NET,
                     says="label the snapshots with keelson-climate label --with-data")
        self.succeed("plot", "--data", self.shared / "unlabelled", "--out", self.folder / "maps.html")
        self.assertIn("cam.h1.0-0001", (self.folder / "maps.html").read_text())

    def test_files_of_one_name(self):
        both = self.folder / "both"
        both.mkdir()
        for ending in ("nc", "nc4"):
            shutil.copy(self.shared / "unlabelled/cam.h1.3.nc", both / f"a.{ending}")
        self.refused("label", "--data", both, "--out", self.folder / "out", says="would be the file of two snapshots")


if __name__ == "__main__":
    unittest.main(verbosity=2)
