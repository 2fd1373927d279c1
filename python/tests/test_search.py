"""keelson.search finds networks, as keelson-search does, and both go on with each other's searches."""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import keelson

TABLE = {"dense": {"layers": [1, 2], "units": [16, 23, 32]}, "training": {"batch": [16, 32]}}
IMAGES = {"stages": {"number": [1, 2], "filters": [4, 6, 8]}, "dense": {"layers": [0, 1], "units": [16, 32]},
          "training": {"batch": [16, 32]}}


def table(samples, seed=0):
    """Features in units of their own, a class that follows from them, and two numbers."""
    random = numpy.random.default_rng(seed)
    x = 3 + 2 * random.standard_normal((samples, 5))
    kinds = (x[:, 0] > 4).astype(int) + (x[:, 1] > 3.6)
    return x, kinds, numpy.stack([100 + 7 * x[:, 0], x[:, 1] * x[:, 2]], 1)


def lines(folder, kind):
    found = [json.loads(line) for line in open(os.path.join(folder, "search.jsonl"))]
    return [line for line in found if line["type"] == kind]


def found(folder, data, **options):
    return keelson.search(data, **{"networks": 6, "epochs": 2, "space": TABLE, "out": folder, "progress": False, **options})


def test_numbers_are_predicted_in_their_units(world, folder):
    """The loss of the log follows from the predictions for raw x: scaling, checkpoint and validation data are right."""
    x, _, y = table(200)
    x_validation, _, y_validation = table(60, seed=1)
    result = found(folder, (x, y), validation=(x_validation, y_validation))
    assert len(result.networks) == 6 and result.settings["classes"] is False
    model = result.load()
    predicted = model(x_validation)
    assert predicted.shape == (60, 2) and not model.classifies
    errors = (predicted - y_validation) / y.std(0)
    assert result.best.loss == pytest.approx((errors ** 2).mean(), rel=1e-3)
    assert result.best.parameters == model.graph.parameter_count
    # All ranks see the same search, and each has trained networks of its own.
    assert len(set(world.allgather(f"{result.best} {predicted.tobytes().hex()}"))) == 1
    assert len({line["slot"] for line in lines(folder, "birth")}) == world.size


def test_a_network_on_all_ranks(world, folder):
    x, kinds, _ = table(100)
    result = found(folder, (x, kinds), networks=3, ranks_per_network=world.size)
    assert len(result.ranking) == 3 and {line["slot"] for line in lines(folder, "birth")} == {0}


def test_several_objectives(folder):
    x, _, y = table(100)
    result = found(folder, (x, y), objectives=["loss", "parameters"], seed=3, networks=8)
    points = [(n.loss, n.parameters) for n in result.networks]
    beaten = [any(a <= p and b <= q and (a, b) != (p, q) for a, b in points) for p, q in points]
    assert {n.number for n in result.front} == {k for k, one in enumerate(beaten) if not one}


def test_classes_and_the_course(world, folder):
    x, kinds, _ = table(200)
    x_validation, kinds_validation, _ = table(60, seed=1)
    told = []
    result = found(folder, (x, kinds), validation=(x_validation, kinds_validation), epochs=4, first_epochs=1,
                   budget={"networks": 8}, networks=None, progress=told.append)
    model = result.load()
    p = model(x_validation)
    assert p.shape == (60, 3) and numpy.allclose(p.sum(1), 1, atol=1e-5) and model.classifies
    assert result.best.loss == pytest.approx(-numpy.log(p[numpy.arange(60), kinds_validation]).mean(), rel=1e-4)
    assert result.best.metric == pytest.approx((p.argmax(1) == kinds_validation).mean())
    # Early stopping: some networks have trained longer than others.
    assert {n.epochs for n in result.networks} == {1, 4}
    networks, best = result.curve()
    seconds, same = result.curve("seconds")
    assert networks[-1] == 8 and best[-1] == same[-1] == result.best.loss
    assert numpy.all(numpy.diff(networks) >= 0) and numpy.all(numpy.diff(seconds) >= 0) and seconds[0] > 0
    assert [n.loss for n in result.ranking] == sorted(n.loss for n in result.networks)
    if world.rank == 0:
        assert "3 classes" in told[0] and "by evolution; 4 epochs, the first of 2 rungs" in told[1]
        assert re.search(r"best \d: loss", " ".join(told))
        assert "Ancestors of the best" in open(result.report()).read()
    # More networks, from the folder alone, which may have been moved.
    world.barrier()
    moved = folder + "-moved"
    if world.rank == 0:
        os.rename(folder, moved)
    world.barrier()
    more = keelson.search(resume=moved, networks=10, progress=False)
    assert [n.genome for n in more.networks[:8]] == [n.genome for n in result.networks] and len(more.networks) == 10


@pytest.mark.parametrize("layout, change", [("", lambda x: x), ("channels_last", lambda x: numpy.moveaxis(x, 1, -1)),
                                            (None, lambda x: x[:, 0])])
def test_layouts_of_images(folder, layout, change):
    random = numpy.random.default_rng(0)
    x = random.standard_normal((80, 1 if layout is None else 2, 8, 8))
    y = x[:, 0].mean((1, 2)) + x[:, -1, 0, 0]
    result = found(folder, (change(x)[:60], y[:60]), validation=(change(x)[60:], y[60:]), space=IMAGES, networks=3,
                   layout=layout)
    model = result.load()
    assert model.graph.inputs["x"][0] == x.shape[1:]
    errors = (model(change(x)[60:])[:, 0] - y[60:]) / y[:60].std()
    assert result.best.loss == pytest.approx((errors ** 2).mean(), rel=1e-3)


def test_data_sets_are_read_in_place(folder):
    """x as it is given; the log cannot name the data."""
    x, kinds, y = table(120)
    x, y = x.astype("float32"), y.astype("float32")
    data = keelson.data.FunctionDataset(lambda i: (x[i], y[i]), 100, [("x", (5,), "float32"), ("y", (2,), "float32")])
    validation = keelson.data.ArrayDataset(x=x[100:], y=y[100:])
    result = found(folder, data, validation=validation, networks=3)
    errors = (result.load()(x[100:]) - y[100:]) / y[:100].std(0)
    assert result.best.loss == pytest.approx((errors ** 2).mean(), rel=1e-3)
    with pytest.raises(keelson.InputError, match="began with a data set in memory"):
        keelson.search(resume=folder, networks=4, progress=False)
    with pytest.raises(keelson.InputError, match="x .float32. and y, in this order"):
        found(folder + "-other", keelson.data.ArrayDataset(y=y, x=x))
    with pytest.raises(keelson.InputError, match="y is float32. Expected int32"):
        found(folder + "-other", keelson.data.ArrayDataset(x=x, y=y), classes=True)


def test_arrays_in_storage_are_read_in_place(alone, tmp_path):
    """Those of h5py and numpy.memmap; validation data in memory are converted."""
    h5py = pytest.importorskip("h5py")
    x, kinds, _ = table(120)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"], file["y"] = x.astype("float32"), kinds.astype("int32")
        numpy.save(tmp_path / "x.npy", x.astype("float32"))
        mapped = numpy.load(tmp_path / "x.npy", mmap_mode="r")
        for name, data in (("h5", (file["x"], file["y"])), ("map", {"x": mapped, "y": kinds.astype("int32")})):
            result = found(tmp_path / name, data, validation=(x[80:], kinds[80:]), networks=3)
            p = result.load()(x[80:].astype("float32"))
            assert result.best.loss == pytest.approx(-numpy.log(p[numpy.arange(40), kinds[80:]]).mean(), rel=1e-4)
            assert not (tmp_path / name / "data.npz").exists()
            more = keelson.search(data, validation=(x[80:], kinds[80:]), resume=tmp_path / name, networks=4, progress=False)
            assert len(more.networks) == 4


def write_table(path, target):
    x, kinds, y = table(150)
    with open(path, "w") as out:
        out.write("a,b,c,d,e,kind\n")
        for row, one in zip(x, target(kinds, y)):
            out.write(",".join(f"{v:.5f}" for v in row) + f",{one}\n")
    return path


@pytest.mark.parametrize("target, classes", [
    (lambda kinds, y: numpy.array(["none", "ice", "water"])[kinds], ["ice", "none", "water"]),
    (lambda kinds, y: 4 * kinds, ["0", "4", "8"]),
    (lambda kinds, y: y[:, 0], []),
    (lambda kinds, y: numpy.arange(150), [])])
def test_tables_say_whether_they_have_classes(world, folder, target, classes):
    path = os.path.join(folder, "table.csv")
    if world.rank == 0:
        write_table(path, target)
    world.barrier()
    result = found(os.path.join(folder, "out"), path, networks=2)
    model = result.load()
    assert model.classes == classes and model.classifies == bool(classes)
    assert found(os.path.join(folder, "numbers"), path, networks=2, features=["a", "b"],
                 **({"classes": True} if classes else {})).load().graph.inputs["x"][0] == (2,)


def test_arrays_in_files_say_whether_they_have_classes(alone, tmp_path):
    x, kinds, y = table(60)
    for name, targets, classes in (("whole", kinds, True), ("numbers", y, False)):
        numpy.savez(tmp_path / f"{name}.npz", x=x.astype("float32"), y=targets)
        result = found(tmp_path / f"{name}-out", tmp_path / f"{name}.npz", networks=2)
        assert result.settings["classes"] is classes
    assert found(tmp_path / "whole-numbers", tmp_path / "whole.npz", classes=False).load()(x).shape == (60, 1)
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "kinds.npy", kinds)
    assert found(tmp_path / "out", tmp_path, networks=2, x="x.npy", y="kinds.npy").settings["classes"] is True


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_program_goes_on_with_searches_of_python(alone, program, tmp_path):
    x, kinds, _ = table(150)
    out, tool = tmp_path / "out", program("keelson-search")
    result = found(out, (x, kinds), epochs=4, first_epochs=1)
    assert "6 networks, 0 running, 0 failed" in run(tool, "status", out)
    told = run(tool, "replay", out, "--retrain", 2, "--scratch", tmp_path / "scratch")
    assert "6 networks made again from the log, 0 differ" in told and told.count("as in the log") == 2
    run(tool, "report", out)
    run(tool, "best", out, "--out", tmp_path / "best")
    model = keelson.Predictor(tmp_path / "best" / "checkpoint.h5")
    assert numpy.array_equal(model(x), result.load()(x))
    run(tool, "resume", out, "--networks", 8)
    assert len(keelson.SearchResult(out).networks) == 8
    refused = subprocess.run([tool, "resume", found(tmp_path / "set", keelson.data.ArrayDataset(
        x=x.astype("float32"), y=kinds.astype("int32")), networks=2).folder], text=True, stderr=subprocess.PIPE)
    assert refused.returncode == 2 and "began in Python with a data set" in refused.stderr


ONE = {"dense": {"layers": [1, 1], "units": [16], "activation": ["relu"], "batch_norm": ["no"], "dropout": ["0"]},
       "training": {"batch": [16, 32], "schedule": ["constant"], "warmup": ["0"]}}


def test_populations(world, folder):
    """The members are one network; as many as networks= says, of the only design of the space, or that of start."""
    x, kinds, _ = table(150)
    result = found(folder, (x, kinds), method="pbt", networks=5, epochs=6, interval=2, space=ONE)
    assert len(result.networks) == 5 and {n.epochs for n in result.ranking} == {6}
    assert result.settings["population"] == {"members": 5, "interval": 2, "tournament": 0, "partition": False}
    assert all(len(n.genome["dense"]) == 1 for n in result.networks)
    model = result.load()
    assert model(x).shape == (150, 3) and model.graph.parameter_count == result.best.parameters
    start = {**result.best.genome, "dense": 2 * result.best.genome["dense"]}
    result = found(folder, (x, kinds), method="ltfb", networks=4, epochs=2, partition=True, tournament=0.2, start=start,
                   overwrite=True, space=None)
    assert result.settings["population"] == {"members": 4, "interval": 1, "tournament": 0.2, "partition": True}
    assert all(n.genome["dense"] == start["dense"] for n in result.networks)
    assert lines(folder, "birth")[0]["genome"] == start and len(lines(folder, "result")) == 8
    assert numpy.isfinite(result.load()(x)).all()
    again = keelson.search(resume=folder, progress=False)  # nothing is left to do
    assert len(lines(folder, "result")) == 8 and again.best == result.best


def test_a_search_goes_on_with_its_start(alone, program, tmp_path):
    """Without start= at resume, the first 8 networks are changes of it."""
    x, kinds, _ = table(80)
    start = found(tmp_path / "first", (x, kinds), networks=1).best.genome
    found(tmp_path / "out", (x, kinds), networks=2, start=start, seed=3)
    result = keelson.search(resume=tmp_path / "out", networks=8, progress=False)
    assert result.networks[0].genome == start
    assert [n.origin for n in result.networks] == ["given"] + 7 * ["mutation"]
    assert "8 networks made again from the log, 0 differ" in run(program("keelson-search"), "replay", tmp_path / "out")


def test_one_blueprint_for_a_search_and_for_growth(world, folder):
    """A network that a search has found within a blueprint grows within it."""
    x, kinds, _ = table(80)
    blueprint = {"epochs": [1], "layers": "all", "widths": {"dense1": [6, 12]}, "depth": {"dense1": [0, 1]}}
    space = {"dense": {"layers": [1, 1], "activation": ["relu"], "batch_norm": ["no"]},
             "training": {"optimizer": ["kfac"], "options": ["damping=0.01"], "rate": [0.0123]}}
    result = found(folder, (x, kinds), networks=4, space=space, blueprint=blueprint)
    layers = [network.genome["dense"][0] for network in result.networks]
    assert all(6 <= int(layer["units"]) <= 12 and int(layer["copies"]) <= 1 for layer in layers)
    parameters = keelson.Parameters(result.load().graph, keelson.Context())
    keelson.Trainer(parameters, {"x": x.astype("f"), "y": kinds.astype("i")}, batch=8, epochs=2,
                    grow={**blueprint, "widths": {"dense1": [6, 24]}}).run()
    assert dict(parameters.items())["dense1/weights"].shape[0] > 6
    with pytest.raises(keelson.InputError, match="conv3"):
        found(folder, (x, kinds), blueprint={"widths": {"conv3": 5}}, overwrite=True)


def test_python_goes_on_with_searches_of_the_program(alone, program, tmp_path):
    path = write_table(tmp_path / "table.csv", lambda kinds, y: numpy.array(["none", "ice", "water"])[kinds])
    space = tmp_path / "space.json"
    space.write_text(json.dumps(TABLE))
    run(program("keelson-search"), "run", "--data", path, "--classes", "--out", tmp_path / "out", "--networks", 3,
        "--epochs", 2, "--space", space, "--features", "a,b,c")
    result = keelson.search(resume=tmp_path / "out", networks=5, progress=False)
    assert len(result.networks) == 5 and result.load().classes == ["ice", "none", "water"]
    with pytest.raises(keelson.InputError, match="the data are not those with which the search began"):
        keelson.search(write_table(tmp_path / "other.csv", lambda kinds, y: kinds), resume=tmp_path / "out", progress=False)


def end_soon(folder, results=3):
    """Sends this process the signal of Ctrl-C when the log has some results."""
    def watch():
        while not os.path.exists(folder / "search.jsonl") or (folder / "search.jsonl").read_text().count('"result"') < results:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_interrupt_ends_the_search_and_it_goes_on(alone, tmp_path):
    x, kinds, _ = table(150)
    watch = end_soon(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt, match=re.escape(f"keelson.search(resume='{tmp_path / 'out'}') goes on")):
        found(tmp_path / "out", (x, kinds), networks=10 ** 6)
    watch.join()
    stopped = keelson.SearchResult(tmp_path / "out")
    assert 3 <= len(stopped.ranking) and (tmp_path / "out" / "report.html").exists()
    count = len(stopped.networks) + 2
    more = keelson.search(resume=tmp_path / "out", networks=count, progress=False)
    assert len(more.networks) == len(more.ranking) == count
    # The pause between the starts does not count.
    times = [line["time"] for line in map(json.loads, open(tmp_path / "out" / "search.jsonl")) if "time" in line]
    assert more.curve("seconds")[0][-1] < times[-1] - times[0]


def test_an_interrupt_of_one_rank_ends_all(world, folder):
    """The others use up the budget before."""
    x, kinds, _ = table(100)
    watch = end_soon(pathlib.Path(folder)) if world.rank == world.size - 1 else None
    with pytest.raises(KeyboardInterrupt, match="goes on"):
        found(folder, (x, kinds), networks=10 ** 6, seconds=5)
    if watch:
        watch.join()
    assert len(set(world.allgather(str(len(lines(folder, "birth")))))) == 1


def test_a_function_that_fails_ends_the_search(alone, tmp_path):
    x, kinds, _ = table(100)

    def tell(line):
        if "best" in line:
            raise LookupError("of the user")

    with pytest.raises(LookupError, match="of the user"):
        found(tmp_path / "out", (x, kinds), networks=10 ** 6, progress=tell)
    assert len(keelson.search(resume=tmp_path / "out", networks=3, progress=False).networks) >= 3


def test_a_page_that_cannot_be_written(world, folder):
    """All ranks learn it, and the search is complete."""
    x, kinds, _ = table(100)
    if world.rank == 0:
        os.mkdir(os.path.join(folder, "report.html"))
    world.barrier()
    with pytest.raises(keelson.Error, match="report.html: is a folder"):
        found(folder, (x, kinds), networks=4)
    assert len(keelson.SearchResult(folder).ranking) == 4


def test_a_page_that_cannot_be_written_hides_no_failure(alone, tmp_path):
    x, kinds, _ = table(100)

    def tell(line):
        if "best" in line:
            raise LookupError("of the user")

    (tmp_path / "out" / "report.html").mkdir(parents=True)
    with pytest.raises(LookupError, match="of the user"):
        found(tmp_path / "out", (x, kinds), networks=10 ** 6, progress=tell)
    watch = end_soon(tmp_path / "other")
    (tmp_path / "other" / "report.html").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt, match="goes on"):
        found(tmp_path / "other", (x, kinds), networks=10 ** 6)
    watch.join()


def test_refusals(world, folder):
    x, kinds, y = table(60)
    found(folder, (x, kinds), networks=2)
    other = folder + "-other"
    for call, says in ((lambda: found(folder, (x, kinds)), "holds a search; keelson.search.resume="),
                       (lambda: found(other, None), "no data were given"),
                       (lambda: found(other, (x, kinds[:5])), "Expected .samples, ...."),
                       (lambda: found(other, (x, numpy.array(["a"] * 60))), "numpy.unique"),
                       (lambda: found(other, (x, kinds), method="magic"), "no method \"magic\""),
                       (lambda: found(other, (x, kinds), start={"dense": []}), "a genome without"),
                       (lambda: found(other, (x, kinds), start={"dense": []}, method="random"), "begins with random networks"),
                       (lambda: found(other, (x, kinds), method="pbt"), "the method pbt trains one network"),
                       (lambda: found(other, (x, kinds), method="pbt", first_epochs=1), "leave out the first epochs"),
                       (lambda: found(other, (x, kinds), method="pbt", interval=0), "interval is 0. Expected at least 1"),
                       (lambda: found(other, (x, kinds), partition=True), "the method evolution trains all networks on all"),
                       (lambda: found(other, (x, kinds), method="ltfb", space=ONE, networks=30), "too few for 30 members"),
                       (lambda: found(other, (x, kinds), objectives=["beauty"]), "no objective"),
                       (lambda: found(other, (x, kinds), space={"dense": {"activation": ["step"]}}), "no choice \"step\""),
                       (lambda: found(other, (x, kinds), space="none.json"), "none.json"),
                       (lambda: found(other, (x, kinds), networks=0), "networks is 0"),
                       (lambda: found(other, (x, kinds), validation="v.npz"), "validation is a str. Expected .x, y."),
                       (lambda: found(other, "data.npz", validation=(x, kinds)), "validation is a tuple. Expected a path"),
                       (lambda: found(other, (x, kinds), validation=2), "validation is 2"),
                       (lambda: found(other, (x, kinds), eta=1), "eta is 1. Expected at least 2 and at most 64"),
                       (lambda: found(other, (x, kinds), layout="NCHW"), "layout is 'NCHW'"),
                       (lambda: found(other, (x, kinds), keep=0), "keep is 0"),
                       (lambda: found(other, (x, kinds), budget=5), "budget is 5"),
                       (lambda: found(other, (x, kinds), budget={"networks": 5}), "budget is"),
                       (lambda: found(other, (x, y[:, 0]), classes=True), "Expected whole numbers"),
                       (lambda: found(other, (x, y), classes=True), "a class must be one number for each sample"),
                       (lambda: found(other, (x, kinds), context=keelson.Context()), "has no ranks"),
                       (lambda: found(None, (x, kinds), resume=folder), "Leave data out"),
                       (lambda: found(None, None, resume=folder + "-none"), "No such file"),
                       (lambda: keelson.SearchResult(folder).load(99), "was not kept"),
                       (lambda: keelson.SearchResult(folder).curve("days"), "over is 'days'")):
        with pytest.raises(keelson.InputError, match=says):
            call()
        world.barrier()
    assert len(found(folder, (x, kinds), networks=3, overwrite=True).networks) == 3


def test_two_searches_in_a_folder(alone, tmp_path):
    x, kinds, _ = table(100)
    code = ("import keelson, numpy, sys; x, y = numpy.load(sys.argv[1]), numpy.load(sys.argv[2]);"
            "keelson.search((x, y), out=sys.argv[3], networks=10 ** 6, epochs=1)")
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "y.npy", kinds)
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "out"],
                             stdout=subprocess.DEVNULL)
    try:
        while not (tmp_path / "out" / "search.jsonl").exists():
            assert other.poll() is None
            time.sleep(0.05)
        with pytest.raises(keelson.InputError, match="is in use by"):
            found(tmp_path / "out", (x, kinds), overwrite=True)
        # What the other one reads is as it was.
        assert numpy.array_equal(numpy.load(tmp_path / "out" / "data.npz")["y"], kinds)
        joined = keelson.search(resume=tmp_path / "out", join=True, seconds=1, progress=False)
        assert len({line["slot"] for line in lines(tmp_path / "out", "birth")}) == 2 and joined.networks
    finally:
        other.kill()
        other.wait()


def test_tpe_needs_optuna(folder):
    if importlib.util.find_spec("optuna"):
        pytest.skip("optuna is installed")
    x, kinds, _ = table(60)
    with pytest.raises(ImportError, match="needs the package optuna: pip install optuna"):
        found(folder, (x, kinds), method="tpe")
    assert not os.path.exists(os.path.join(folder, "search.jsonl"))


@pytest.mark.parametrize("data, space", [("table", TABLE), ("images", IMAGES)])
def test_tpe(alone, tmp_path, program, data, space):
    pytest.importorskip("optuna")
    x, kinds, _ = table(100)
    if data == "images":
        x = numpy.random.default_rng(0).standard_normal((100, 1, 6, 6)) + kinds[:, None, None, None]
    options = {"method": "tpe", "epochs": 4, "first_epochs": 1, "space": space, "networks": 14}
    result = found(tmp_path / "out", (x, kinds), **options)
    assert {n.origin for n in result.networks} == {"tpe"} and result.settings["method"] == "tpe"
    assert {n.epochs for n in result.networks} == {1, 4}
    # The same proposals in the same order: they follow from the log and the seed. Early stopping depends on no clock.
    again = found(tmp_path / "again", (x, kinds), **options)
    assert [n.genome for n in again.networks] == [n.genome for n in result.networks]
    more = keelson.search(resume=tmp_path / "out", networks=16, progress=False)
    assert len(more.networks) == 16 and more.networks[15].origin == "tpe"
    assert "16 networks" in run(program("keelson-search"), "status", tmp_path / "out")
    refused = subprocess.run([program("keelson-search"), "resume", tmp_path / "out"], text=True, stderr=subprocess.PIPE)
    assert refused.returncode == 2 and "works in keelson.search alone" in refused.stderr
    with pytest.raises(keelson.InputError, match="Expected the loss alone"):
        found(tmp_path / "third", (x, kinds), method="tpe", objectives=["loss", "flops"])
