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
