"""Data from NumPy, h5py and DLPack, samples and batches of other packages, and data of the programs."""

import ctypes
import re

import h5py
import numpy
import pytest

import keelson
from conftest import batch_of, cubes, small_network
from keelson import data as kd
from keelson import layers


class Tensor:
    """Stands for a tensor of another package: it has DLPack, but no buffer."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def weights_after(context, data, **options):
    parameters = keelson.Parameters(small_network(), context, seed=1)
    trainer = keelson.Trainer(parameters, data, batch=batch_of(16), epochs=2, learning_rate=0.01,
                              **{"shuffle": False, **options})
    trainer.run()
    trainer.close()
    return parameters["conv1/weights"]


def test_all_kinds_of_data_train_alike(context, world, folder):
    arrays = cubes(64)
    expected = weights_after(context, arrays)

    def check(data, **options):
        assert numpy.array_equal(weights_after(context, data, **options), expected)

    check(kd.ArrayDataset(**arrays))
    check({name: Tensor(a) for name, a in arrays.items()})
    fast = kd.empty((64, 1, 8, 8, 8))
    fast[:] = arrays["x"]
    check({"x": fast, "y": numpy.asfortranarray(arrays["y"])})
    check(kd.from_samples([(x, y) for x, y in zip(arrays["x"], arrays["y"])]), loader_threads=2)
    check([{"y": y, "x": x} for x, y in zip(arrays["x"], arrays["y"])])
    path = f"{folder}/samples.h5"
    if world.rank == 0:
        with h5py.File(path, "w") as file:
            for name, a in arrays.items():
                file[name] = a
    world.barrier()
    with h5py.File(path) as file:
        check({"x": file["x"], "y": file["y"]})
        check(kd.from_storage({"x": file["x"], "y": file["y"]}), loader_threads=2)
    size = batch_of(16)
    mine = [{name: a[i + world.rank * size:i + (world.rank + 1) * size] for name, a in arrays.items()}
            for i in range(0, 64, 16)]
    check(kd.from_batches(mine, size, ranks=world.size))
    check(kd.from_batches([(b["x"], b["y"]) for b in mine], size, ranks=world.size))
    parameters = keelson.Parameters(small_network(), context, seed=1)
    assert keelson.evaluate(parameters, kd.from_batches(mine, size, ranks=world.size), batch=size, loader_threads=2).loss \
        == keelson.evaluate(parameters, arrays, batch=size).loss
    trainer = keelson.Trainer(parameters, arrays, batch=size, epochs=2, learning_rate=0.01)
    for _ in range(2):
        for batch in mine:
            trainer.step(batch)
    assert numpy.array_equal(parameters["conv1/weights"], expected)


def test_samples_are_read_in_place():
    arrays = cubes(4)
    data = kd.ArrayDataset(arrays)
    assert len(data) == 4 and data.fields == {"x": ((1, 8, 8, 8), "float32"), "y": ((1,), "float32")}
    arrays["x"][2, 0, 1, 2, 3] = 99
    assert data[2]["x"][0, 1, 2, 3] == 99 and numpy.array_equal(data[-2]["x"], arrays["x"][2])
    with pytest.raises(IndexError):
        data[4]


def test_empty_is_aligned_and_channels_last():
    array = kd.empty((2, 3, 4, 5))
    assert array.shape == (2, 3, 4, 5) and array.strides == (240, 4, 60, 12)
    assert array.ctypes.data % 64 == 0
    assert kd.empty((2, 3), "int32").dtype == numpy.int32
    assert kd.empty((2, 3, 4, 5), channels_last=False).flags.c_contiguous


def test_arrays_of_many_channels_lie_as_they_should():
    x = numpy.random.default_rng(0).random((3, 5, 4, 6, 2), dtype=numpy.float32)
    for given in (x, x[:, ::-1][:, ::-1], numpy.moveaxis(numpy.ascontiguousarray(numpy.moveaxis(x, 1, -1)), -1, 1)):
        assert numpy.array_equal(kd.ArrayDataset(x=given)[1]["x"], x[1])


@pytest.mark.parametrize("make, words", [
    (lambda: kd.ArrayDataset(), "no array was given"),
    (lambda: kd.ArrayDataset(x=numpy.zeros(3)), "x has the dtype float64. Expected float32"),
    (lambda: kd.ArrayDataset(y=numpy.zeros(3, "int64")), "give y.astype('int32')"),
    (lambda: kd.ArrayDataset(x=numpy.float32(3)), "x is a single number"),
    (lambda: kd.from_storage({"x": numpy.zeros((2, 3), "int16")}), "dtypes={'x': 'float32'}"),
    (lambda: kd.from_storage({"x": numpy.zeros((2, 3), "f4"), "y": numpy.zeros(3, "f4")}), "{'x': 2, 'y': 3}"),
    (lambda: kd.from_samples([(1, 2, 3)]), "Give names=('x', 'y')"),
    (lambda: kd.from_batches(iter([cubes(2)]), 2, steps=1), "can be iterated once only"),
    (lambda: kd.from_batches([cubes(3)], 2), "has 3 samples. Expected 2"),
    (lambda: kd.as_dataset(object()), "the data are a object"),
])
def test_data_sets_that_cannot_be_are_refused(make, words):
    with pytest.raises(keelson.InputError) as raised:
        make()
    assert words in str(raised.value)


def test_samples_are_converted_where_asked():
    data = kd.from_storage({"x": numpy.arange(6, dtype="int16").reshape(3, 2)}, dtypes={"x": "float32"})
    assert data[1]["x"].tolist() == [2, 3] and data[1]["x"].dtype == numpy.float32


def test_errors_of_samples_reach_the_trainer(context, alone):
    def read(i):
        if i == 5:
            raise OSError("disk 5 is gone")
        return numpy.zeros((1, 8, 8, 8), "f4"), numpy.zeros(2 if i == 6 else 1, "f4")

    fields = [("x", (1, 8, 8, 8), "float32"), ("y", (1,), "float32")]
    with pytest.raises(OSError, match="disk 5 is gone"):
        weights_after(context, kd.FunctionDataset(read, 16, fields), shuffle=False)
    with pytest.raises(keelson.InputError, match="y of sample 6 has the shape \\(2,\\). Expected \\(1,\\), as in sample 0"):
        kd.FunctionDataset(read, 16, fields)[6]
    short = kd.from_batches([cubes(16)], 16, steps=2)
    with pytest.raises(keelson.InputError, match="ended after 1 batches. Expected 2: give steps=1"):
        weights_after(context, short)


def test_universes(context, world, folder):
    kd.generate_universes(folder, train=8, validation=4, size=32, particles=1, comm=world)
    data = kd.UniverseDataset(folder + "/train", comm=world)
    assert len(data) == 8 and data.fields["x"] == ((4, 32, 32, 32), "float32")
    assert [name for name, _, _ in data.targets] == ["Omega_m", "sigma_8", "N_spec", "H_0"]
    parameters = keelson.Parameters(keelson.nets.cosmoflow(size=32, dropout=0), context)
    trainer = keelson.Trainer(parameters, data, kd.UniverseDataset(folder + "/validation", comm=world),
                              batch=batch_of(4), epochs=1, learning_rate=1e-3, transform=kd.RandomCubeSymmetry(),
                              metrics=[keelson.metrics.MeanAbsoluteError(data.targets)])
    assert trainer.run().reason == "all epochs done" and numpy.isfinite(trainer.state.metric)


def test_texts(context, world, folder):
    if world.rank == 0:
        best = kd.generate_text(folder, words=4000, validation_words=600, test_words=300, vocab_size=50)
        assert 1 < best["best"] < best["bigram"] < best["unigram"] < 50
    world.barrier()
    text = kd.TextDataset([folder + "/ptb.train.txt"], streams=4, unroll=10, comm=world)
    validation = kd.TextDataset([folder + "/ptb.valid.txt"], streams=4, unroll=10, like=text, pad=True, comm=world)
    assert text.decode(text.encode(["<eos>", "no such word"])) == ["<eos>", "<unk>"]
    net = keelson.nets.lstm_lm(text.vocabulary_size, hidden=16, layers=1, unroll=10)
    parameters = keelson.Parameters(net, context)
    trainer = keelson.Trainer(parameters, text, validation, batch=batch_of(4), learning_rate=1.0, epochs=2,
                              optimizer=keelson.optim.SGD(clip_norm=5), metrics=[keelson.metrics.Perplexity()])
    trainer.run()
    assert trainer.state.metric < text.vocabulary_size
    with pytest.raises(keelson.InputError, match="opened with 4 streams"):
        keelson.Trainer(parameters, text, batch=3, epochs=1)


def test_snapshots(context, world, folder):
    kd.generate_snapshots(folder, train=4, validation=2, rows=64, columns=96, comm=world)
    data = kd.SnapshotDataset(folder + "/train", comm=world)
    validation = kd.SnapshotDataset(folder + "/validation", like=data, comm=world)
    sample = data[0]
    assert sample["x"].shape == (16, 64, 96) and 0 <= sample["x"].min() and sample["x"].max() <= 1
    assert set(numpy.unique(sample["y"])) <= {0, 1, 2}
    net = keelson.nets.tiramisu(rows=64, columns=96, growth=4, first=8, blocks=[2, 2], kernel=3, dropout=0)
    parameters = keelson.Parameters(net, context)
    trainer = keelson.Trainer(parameters, data, validation, batch=batch_of(2), epochs=1,
                              metrics=[keelson.metrics.MeanImageIoU(), keelson.metrics.PooledIoU()])
    trainer.run()
    assert 0 < trainer.state.metric <= 1


def test_a_table_of_ones_own(tmp_path):
    points = numpy.random.default_rng(3).uniform(-1, 1, (300, 2)).round(3)
    with open(tmp_path / "points.csv", "w") as file:
        file.write("east,north,side\n")
        file.writelines(f"{east},{north},{'left' if east < north else 'right'}\n" for east, north in points)

    table = keelson.data.TableDataset(str(tmp_path / "points.csv"), targets="side", classes=True, standardise=True)
    graph = keelson.Graph("side")
    x, y = graph.input("x", (len(table.features),)), graph.input("y", (), "int32")
    logits = layers.dense(layers.tanh(layers.dense(x, 8)), len(table.classes))
    graph.output("logits", logits)
    layers.cross_entropy(logits, y)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
    keelson.Trainer(parameters, table, batch=20, epochs=20, optimizer=keelson.optim.Adam(), learning_rate=0.05).run()
    predicted = keelson.Inference(parameters, batch=100)(((points - table.means) / table.deviations).astype("float32"))

    sides = numpy.array(table.classes)[predicted.argmax(axis=1)]
    assert (sides == numpy.where(points[:, 0] < points[:, 1], "left", "right")).mean() > 0.97
    assert table.features == ["east", "north"] and len(table) == 300
    assert [int(table[i]["y"]) for i in range(300)] == [int(east >= north) for east, north in points]
    again = keelson.data.TableDataset(str(tmp_path / "points.csv"), like=table)
    numpy.testing.assert_array_equal(again[7]["x"], table[7]["x"])


@pytest.mark.parametrize("options, says", [
    ({"targets": "wrong"}, "has no column 'wrong'. Expected one of 3 columns: a, b, c"),
    ({"targets": 2}, "the column 'c' has 'x' in line 3. Expected a finite number"),
    ({"delimiter": ";;"}, "the delimiter ';;': expected one character"),
])
def test_tables_that_do_not_fit(tmp_path, options, says):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n4,5,x\n")
    with pytest.raises(keelson.InputError, match=re.escape(says)):
        kd.TableDataset(str(tmp_path / "t.csv"), **options)
    data = kd.TableDataset(str(tmp_path / "t.csv"), targets=["b"], features=[0])
    numpy.testing.assert_array_equal(data[1]["y"], [5])


def test_array_files_of_ones_own(tmp_path):
    rng = numpy.random.default_rng(5)
    images = rng.integers(0, 255, (60, 8, 8), dtype=numpy.uint8)
    classes = (images[:, :, :4].mean((1, 2)) > images[:, :, 4:].mean((1, 2))).astype(numpy.int64)
    numpy.save(tmp_path / "images.npy", images)    # (60, 8, 8), uint8
    numpy.save(tmp_path / "classes.npy", classes)  # (60,), int64
    data = keelson.data.ArrayFileDataset(str(tmp_path), x="images.npy", y="classes.npy", layout=None, classes=True)
    graph = keelson.Graph("brightness")
    x, y = graph.input("x", (1, 8, 8)), graph.input("y", (), "int32")
    logits = layers.dense(layers.flatten(x), 2)
    layers.cross_entropy(logits, y)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
    losses = [step.loss for step in keelson.Trainer(parameters, data, batch=20, epochs=30, optimizer=keelson.optim.Adam(),
                                                    learning_rate=1e-3)]
    assert len(losses) == 90 and losses[-1] < losses[0] / 2

    numpy.savez(tmp_path / "stored.npz", x=images, y=classes)
    numpy.savez_compressed(tmp_path / "deflated.npz", x=images, y=classes)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("set/x", data=images, chunks=(7, 8, 8), compression="gzip")
        f["set/y"] = classes

    assert len(data) == 60 and str(tmp_path) in repr(data)
    for data in (data, kd.ArrayFileDataset(str(tmp_path / "stored.npz"), layout=None, classes=True),
                 kd.ArrayFileDataset(str(tmp_path / "deflated.npz"), layout=None, classes=True),
                 kd.ArrayFileDataset(str(tmp_path / "a.h5"), x="set/x", y="set/y", layout=None, classes=True)):
        for i in (0, 31, 59):
            numpy.testing.assert_array_equal(data[i]["x"], images[i][None].astype("float32"))
            assert int(data[i]["y"]) == classes[i] and data[i]["y"].dtype == numpy.int32


def test_array_files_of_several_inputs(tmp_path):
    """Each input of a network has an array."""
    rng = numpy.random.default_rng(6)
    front, side = rng.random((40, 1, 6, 4), dtype="f4"), rng.random((40, 1, 6, 2), dtype="f4")
    with h5py.File(tmp_path / "views.h5", "w") as f:
        f["views/front"], f["views/side"] = front, side
        f["kind"] = (front.mean((1, 2, 3)) > side.mean((1, 2, 3))).astype("u1")
    data = keelson.data.ArrayFileDataset(str(tmp_path), x="views/front", inputs=[("side", "views/side")], y="kind",
                                         layout="channels_first", classes=True)
    assert list(data[0]) == ["x", "side", "y"]
    numpy.testing.assert_array_equal(data[7]["side"], side[7])
    graph = keelson.Graph("views")
    x, s, y = graph.input("x", (1, 6, 4)), graph.input("side", (1, 6, 2)), graph.input("y", (), "int32")
    layers.cross_entropy(layers.dense(layers.concat([layers.flatten(x), layers.flatten(s)]), 2), y)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
    losses = [step.loss for step in keelson.Trainer(parameters, data, batch=20, epochs=40, optimizer=keelson.optim.Adam(),
                                                    learning_rate=0.03)]
    assert losses[-1] < losses[0] / 2


def test_array_files_are_standardised(tmp_path):
    rng = numpy.random.default_rng(6)
    x = rng.normal((3, -20, 1e4), (2, 1, 50), (9, 4, 5, 3)).astype("float32")
    for name, part in (("a", x[:4]), ("b", x[4:])):
        numpy.savez(tmp_path / f"{name}.npz", x=part)
        numpy.savez(tmp_path / f"{name}-labels.npz", y=numpy.full(len(part), len(part)))
    pattern = str(tmp_path / "?.npz")
    data = kd.ArrayFileDataset(pattern, y_path=str(tmp_path / "?-labels.npz"), classes=True, standardise=True)
    numpy.testing.assert_allclose(data.means, x.mean((0, 1, 2), dtype="float64"), rtol=1e-12)
    numpy.testing.assert_allclose(data.deviations, x.std((0, 1, 2), dtype="float64"), rtol=1e-12)
    expected = ((x - numpy.array(data.means)) / data.deviations).astype("float32")
    part = kd.ArrayFileDataset(str(tmp_path / "b.npz"), like=data, y_path=str(tmp_path / "b-labels.npz"))
    given = kd.ArrayFileDataset(pattern, y=None, means=data.means, deviations=data.deviations)
    for found in (data[4]["x"], part[0]["x"], given[4]["x"]):
        numpy.testing.assert_array_equal(found, numpy.moveaxis(expected[4], -1, 0))
    assert int(data[0]["y"]) == 4 and int(part[0]["y"]) == 5
    assert kd.ArrayFileDataset(pattern, y=None).means == []


def test_a_named_dimension_of_netcdf4(tmp_path):
    field = numpy.arange(24, dtype=">i2").reshape(2, 3, 4)
    with h5py.File(tmp_path / "a.nc", "w") as f:
        for name, length in (("lat", 2), ("lon", 3), ("time", 4)):
            f[name] = numpy.arange(length, dtype="float64")
            f[name].make_scale(name)
        f.create_dataset("t", data=field, chunks=(1, 3, 2), compression="gzip")
        f["t"].attrs["scale_factor"], f["t"].attrs["add_offset"] = 0.5, 100.0
        f["t"].attrs["_FillValue"] = numpy.array([5], "int16")
        for axis, name in enumerate(("lat", "lon", "time")):
            f["t"].dims[axis].attach_scale(f[name])
    data = kd.ArrayFileDataset(str(tmp_path / "a.nc"), x="t", y="time", sample_dimension="time", missing=-1)
    assert len(data) == 4
    expected = numpy.where(field == 5, -1, field * 0.5 + 100).astype("float32")
    for i in range(4):
        numpy.testing.assert_array_equal(data[i]["x"], expected[:, :, i])
        assert data[i]["y"] == i
    with pytest.raises(keelson.InputError, match="'t' has no dimension 'step'. Its dimensions are lat, lon, time"):
        kd.ArrayFileDataset(str(tmp_path / "a.nc"), x="t", y="time", sample_dimension="step")
