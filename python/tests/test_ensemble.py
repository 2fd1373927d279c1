"""Ensembles of networks and of functions, against the formulas and against the programs."""

import json
import math
import subprocess

import numpy
import pytest

import keelson
from keelson import data as kd
from keelson import layers

RANDOM = numpy.random.default_rng(5)


def of_arrays(arrays, **options):
    """An ensemble whose members return these arrays."""
    return keelson.Ensemble([lambda x, a=a: a for a in arrays], **options)


def softmax(logits):
    e = numpy.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def entropy(p):
    return -(p * numpy.log(p)).sum(1)


@pytest.fixture
def logits():
    return [RANDOM.standard_normal((50, 4)).astype("float32") * 3 for _ in range(3)]


def test_classes(logits):
    y = RANDOM.integers(0, 4, 50)
    ensemble = of_arrays(logits, classes=True)
    p = [softmax(m.astype("float64")) for m in logits]
    mean = sum(p) / 3
    assert numpy.allclose(ensemble.predict(None), mean, atol=1e-6)
    assert numpy.allclose(ensemble.predict(None, members=True), p, atol=1e-6)
    u = ensemble.uncertainty(None)
    assert numpy.allclose(u["total"], entropy(mean), rtol=1e-6)
    assert numpy.allclose(u["aleatoric"], sum(map(entropy, p)) / 3, rtol=1e-6)
    assert numpy.allclose(u["epistemic"], u["total"] - u["aleatoric"]) and numpy.all(u["epistemic"] > 0)
    s = ensemble.scores(None, y)
    hit = numpy.arange(50), y
    assert s["nll"] == pytest.approx(-numpy.log(mean[hit]).mean(), rel=1e-6)
    assert s["brier"] == pytest.approx(((mean - numpy.eye(4)[y]) ** 2).sum(1).mean(), rel=1e-6)
    assert s["accuracy"] == (mean.argmax(1) == y).mean()
    assert s["ece"] == pytest.approx(sum(n / 50 * abs(c - a) for n, c, a in s["reliability"]))
    assert sum(n for n, _, _ in s["reliability"]) == 50 and s["epistemic"] == pytest.approx(u["epistemic"].mean())
    assert [m["nll"] for m in s["members"]] == pytest.approx([-numpy.log(q[hit]).mean() for q in p], rel=1e-6)
    assert s["nll"] <= sum(m["nll"] for m in s["members"]) / 3


def test_the_temperature_is_fitted_after_averaging(logits):
    y = RANDOM.integers(0, 4, 50)  # follows from nothing: the members are far too sure
    ensemble = of_arrays(logits, classes=True)
    before = ensemble.scores(None, y)["nll"]
    mean = ensemble.predict(None).astype("float64")
    t = ensemble.calibrate(None, y)
    assert t == ensemble.temperature > 2 and ensemble.scores(None, y)["nll"] < before
    powers = mean ** (1 / t)
    assert numpy.allclose(ensemble.predict(None), powers / powers.sum(1, keepdims=True), atol=1e-5)

    def nll(temperature):
        q = mean ** (1 / temperature)
        return -numpy.log((q / q.sum(1, keepdims=True))[numpy.arange(50), y]).mean()

    assert ensemble.scores(None, y)["nll"] == pytest.approx(nll(t), rel=1e-5)
    assert nll(t) <= min(nll(1.05 * t), nll(t / 1.05))
    # What the members do not agree on does not depend on it.
    assert numpy.allclose(ensemble.uncertainty(None)["total"], entropy(mean), rtol=1e-5)


def test_pixels():
    """(samples, classes, rows, columns); pixels of the class -1 do not count."""
    logits = [RANDOM.standard_normal((3, 4, 2, 5)).astype("float32") for _ in range(2)]
    y = RANDOM.integers(-1, 4, (3, 2, 5))
    ensemble = of_arrays(logits, classes=True)
    mean = sum(softmax(m.astype("float64")) for m in logits) / 2
    assert numpy.allclose(ensemble.predict(None), mean, atol=1e-6)
    assert numpy.allclose(ensemble.uncertainty(None)["total"], entropy(mean), rtol=1e-6)
    true = numpy.take_along_axis(mean, numpy.maximum(y, 0)[:, None], 1)[:, 0]
    assert ensemble.scores(None, y)["nll"] == pytest.approx(-numpy.log(true[y >= 0]).mean(), rel=1e-6)


def test_numbers():
    values = [RANDOM.standard_normal((40, 2)).astype("float32") for _ in range(5)]
    y = 2 * RANDOM.standard_normal((40, 2))
    ensemble = of_arrays(values)
    mean, variance = numpy.mean(values, 0, dtype="float64"), numpy.var(values, 0, dtype="float64")
    assert numpy.allclose(ensemble.predict(None), mean, atol=1e-6)
    assert numpy.array_equal(ensemble.predict(None, members=True), values)
    u = ensemble.uncertainty(None)
    assert numpy.allclose(u["total"], variance) and numpy.all(u["aleatoric"] == 0) and numpy.allclose(u["epistemic"], variance)

    def check(scales):
        for t, s in enumerate(ensemble.scores(None, y)):
            error, sigma = y[:, t] - mean[:, t], numpy.sqrt(scales[t] * variance[:, t])
            z = error / sigma
            cdf = numpy.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in z])
            density = numpy.exp(-z ** 2 / 2) / math.sqrt(2 * math.pi)
            assert s["rmse"] == pytest.approx(numpy.sqrt((error ** 2).mean()), rel=1e-5)
            assert s["mae"] == pytest.approx(abs(error).mean(), rel=1e-5)
            assert s["nll"] == pytest.approx((z ** 2 / 2 + numpy.log(2 * math.pi * sigma ** 2) / 2).mean(), rel=1e-5)
            assert s["crps"] == pytest.approx((sigma * (z * (2 * cdf - 1) + 2 * density - 1 / math.sqrt(math.pi))).mean(),
                                              rel=1e-5)
            assert s["coverage_50"] == (abs(cdf - 0.5) <= 0.25).mean() and s["coverage_90"] == (abs(cdf - 0.5) <= 0.45).mean()
            assert sum(s["pit"]) == 40 and len(s["members"]) == 5

    check([1, 1])
    scales = ensemble.calibrate(None, y)
    assert numpy.allclose(scales, ((y - mean) ** 2 / variance).mean(0), rtol=1e-5)
    check(scales)
    assert numpy.allclose(ensemble.uncertainty(None)["total"], scales * variance)


def test_networks_of_different_design():
    """Members are parameters and inferences. The mean of the members' errors is never below that of the mean."""
    def network(units, seed, **options):
        graph = keelson.Graph("point")
        x, y = graph.input("x", (3,)), graph.input("y", (), "int32")
        h = layers.dense(layers.tanh(layers.dense(x, units)), 3)
        graph.output("prediction", h)
        layers.cross_entropy(h, y)
        return keelson.Parameters(graph, keelson.Context(), seed=seed)

    parameters = network(8, 1)
    other = keelson.Inference(network(5, 2), batch=4)
    ensemble = keelson.Ensemble([parameters, other], batch=16)
    assert len(ensemble) == 2 and ensemble.classifies
    x = RANDOM.standard_normal((10, 3)).astype("float32")
    alone = [keelson.Inference(parameters, batch=10)(x), other(x)]
    assert numpy.allclose(ensemble.predict(x), sum(map(softmax, alone)) / 2, atol=1e-6)
    one = keelson.Ensemble([parameters])
    assert numpy.all(one.uncertainty(x)["epistemic"] == 0)


def test_found_networks(folder):
    x = numpy.random.default_rng(7).standard_normal((80, 4))  # the same on all ranks
    y = 10 * x[:, 0] + x[:, 1]
    found = keelson.search((x, y), networks=4, epochs=2, out=folder, progress=False,
                           space={"dense": {"layers": [1, 1], "units": [16, 23]}, "training": {"batch": [8]}})
    models = [found.load(n.number) for n in found.ranking[:3]]
    ensemble = keelson.Ensemble(models)
    assert numpy.allclose(ensemble.predict(x), sum(m(x) for m in models) / 3, atol=1e-4)
    s = ensemble.scores(x, y)
    assert s["rmse"] ** 2 == pytest.approx(sum(m["rmse"] ** 2 for m in s["members"]) / 3 - s["epistemic"], rel=1e-4)


def test_refusals(tmp_path, logits):
    with pytest.raises(keelson.InputError, match="at least one"):
        keelson.Ensemble([])
    with pytest.raises(keelson.InputError, match="a member is a int"):
        keelson.Ensemble([3])
    with pytest.raises(keelson.InputError, match="ensemble.json.*train --members"):
        keelson.Ensemble.load(tmp_path)
    with pytest.raises(keelson.InputError, match="float64. Expected whole numbers"):
        of_arrays(logits, classes=True).scores(None, numpy.zeros(50))
    with pytest.raises(keelson.InputError, match="the class 4"):
        of_arrays(logits, classes=True).scores(None, numpy.full(50, 4))
    with pytest.raises(keelson.InputError, match="the same number of samples"):
        of_arrays(logits, classes=True).scores(None, numpy.zeros(7, int))
    with pytest.raises(keelson.InputError, match="Expected the same in all"):
        of_arrays([logits[0], logits[1][:, :3]], classes=True).predict(None)
    with pytest.raises(keelson.InputError, match="do not all predict the same"):
        of_arrays([logits[0]] * 2).calibrate(None, numpy.zeros((50, 4)))


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def samples_of(data):
    """All samples of a data set, as arrays."""
    samples = [data[i] for i in range(len(data))]
    return {name: numpy.stack([s[name] for s in samples]) for name in ("x", "y")}


def test_members_of_numbers(alone, program, tmp_path):
    """The scores are those of `evaluate`."""
    kd.generate_universes(str(tmp_path / "data"), train=8, validation=4, size=32, particles=1)
    tool = program("keelson-cosmoflow")
    run(tool, "train", "--data", tmp_path / "data", "--out", tmp_path / "two", "--members", 2, "--epochs", 1, "--batch", 4)
    told = json.loads(run(tool, "evaluate", "--checkpoint", tmp_path / "two", "--data", tmp_path / "data", "--json"))
    ensemble = keelson.Ensemble.load(tmp_path / "two", batch=4)
    data = samples_of(kd.UniverseDataset(str(tmp_path / "data" / "validation")))
    scores = ensemble.scores(data["x"], data["y"])
    assert len(scores) == len(told["targets"]) == 4
    for mine, theirs in zip(scores, told["targets"]):
        assert mine["rmse"] ** 2 == pytest.approx(theirs["mse"], rel=1e-4)
        assert mine["epistemic"] == pytest.approx(theirs["epistemic_variance"], rel=1e-4)
        assert mine["pit"] == theirs["pit"]


def test_members_of_pixels(alone, program, tmp_path):
    kd.generate_snapshots(str(tmp_path / "data"), train=2, validation=2, rows=64, columns=96)
    tool = program("keelson-climate")
    run(tool, "train", "--data", tmp_path / "data", "--out", tmp_path / "two", "--members", 2, "--max-steps", 2, "--blocks",
        "1,1", "--growth", 4, "--first", 4, "--kernel", 3)
    told = json.loads(run(tool, "evaluate", "--checkpoint", tmp_path / "two", "--data", tmp_path / "data", "--json"))
    training = kd.SnapshotDataset(str(tmp_path / "data" / "train"))
    data = samples_of(kd.SnapshotDataset(str(tmp_path / "data" / "validation"), like=training))
    scores = keelson.Ensemble.load(tmp_path / "two").scores(data["x"], data["y"])
    for name, theirs in (("nll", "NLL"), ("brier", "Brier score"), ("ece", "ECE")):
        assert scores[name] == pytest.approx(told["scores"][theirs]["ensemble"], rel=1e-3)
    assert scores["epistemic"] == pytest.approx(told["bald"], rel=1e-3)
