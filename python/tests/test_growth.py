"""Networks that gain units and layers while they train."""

import json
import pathlib
import subprocess

import numpy
import pytest

import keelson
from conftest import batch_of
from keelson import layers, optim

BLUEPRINT = {"epochs": [2, 4], "layers": "all", "rate": "lemon", "widths": {"*": ["0.5x", "2x"]}, "depth": {"hidden": 1}}
TEXT = """epochs = [2, 4]
layers = "all"
rate = "lemon"
[widths]
"*" = ["0.5x", "2x"]
[depth]
hidden = 1
"""


class Changes:
    def __init__(self, parameters):
        self.parameters, self.first, self.texts = parameters, None, []

    def on_start(self, trainer, resumed_from):
        self.first = len(self.parameters["hidden/bias"])

    def on_network_change(self, trainer, text):
        self.texts.append(text)


@pytest.fixture
def data():
    draw = numpy.random.default_rng(3)
    x = draw.normal(size=(256, 6)).astype("float32")
    return {"x": x, "y": numpy.ascontiguousarray(x[:, :2] * x[:, 2:4])}


def parameters_of(context):
    graph = keelson.Graph("growth")
    h = layers.relu(layers.dense(graph.input("x", (6,)), 16, name="hidden"))
    h = layers.dense(h, 2, name="out")
    graph.output("prediction", h)
    layers.loss(h, graph.input("y", (2,)), "mse")
    return keelson.Parameters(graph, context, seed=2)


def trainer_of(parameters, data, grow, epochs=6, **others):
    return keelson.Trainer(parameters, data, batch=batch_of(16), epochs=epochs, optimizer=optim.Adam(), learning_rate=0.01,
                           grow=grow, **others)


def test_begins_small_and_grows(context, data, folder):
    path = pathlib.Path(folder) / "blueprint.toml"
    path.write_text(TEXT)
    found = []
    for grow in (BLUEPRINT, str(path), path):
        parameters = parameters_of(context)
        before = keelson.Inference(parameters, batch=16)
        changes = Changes(parameters)
        trainer_of(parameters, data, grow, callbacks=[changes]).run()
        assert changes.first == 8
        assert [text.split(";")[0] for text in changes.texts] == [
            "growth: hidden 8 -> 12 (copy)", "growth: hidden 12 -> 18 (copy)"]
        with pytest.raises(keelson.InputError, match="lost or gained units or layers since this inference was made"):
            before(data["x"][:16])
        found.append(dict(parameters.items()))
    assert found[0]["out/weights"].shape == (2, 18)
    for other in found[1:]:
        for name, array in found[0].items():
            numpy.testing.assert_array_equal(other[name], array)


def test_new_layers(context, data):
    parameters = parameters_of(context)
    trainer_of(parameters, data, {**BLUEPRINT, "widths": {"*": ["0.5x", "0.5x"]}}, epochs=3).run()
    assert parameters["hidden+1/weights"].shape == (8, 8)
    x = data["x"][:16]
    h = numpy.maximum(x @ parameters["hidden/weights"].T + parameters["hidden/bias"], 0)
    h = numpy.maximum(h @ parameters["hidden+1/weights"].T + parameters["hidden+1/bias"], 0)
    wanted = h @ parameters["out/weights"].T + parameters["out/bias"]
    numpy.testing.assert_allclose(keelson.Inference(parameters, batch=16)(x), wanted, atol=1e-4)


def test_a_network_that_begins_whole_keeps_its_values(context, data):
    parameters = parameters_of(context)
    weights = parameters["hidden/weights"]
    trainer = trainer_of(parameters, data, {"widths": {"hidden": "2x"}, "epochs": [1]})
    numpy.testing.assert_array_equal(parameters["hidden/weights"], weights)
    trainer.run()
    assert len(parameters["hidden/bias"]) == 24


def test_resumes(context, data, folder):
    whole = parameters_of(context)
    trainer_of(whole, data, BLUEPRINT, checkpoints=folder + "/run", keep=100).run()
    for step in (32, 48, 64):  # before the first event, between both, before the second one
        parameters = parameters_of(context)
        trainer = trainer_of(parameters, data, BLUEPRINT)
        trainer.resume(f"{folder}/run/step-{step:010}.h5")
        trainer.run()
        for name, array in whole.items():
            numpy.testing.assert_array_equal(parameters[name], array)


@pytest.mark.parametrize("grow, says", [
    ("nowhere.toml", "grow nowhere.toml: cannot be read"),
    (3, r"grow = 3: expected the path of a blueprint, or a dict with its keys"),
    ({"widths": {"*": "2x"}, "factr": 2}, r"grow: unknown key 'factr'; expected one of .*did you mean factor\?"),
    ({"widths": {"*": "2x"}, "factor": True}, r"grow: factor = true: expected a number above 1"),
    ({"widths": {"*": [1, 2, 3]}}, r"grow: \* = 1, 2, 3: expected the most units, or \[units at first, most units\]"),
    ({"widths": "2x"}, r"grow: widths = 2x: expected a section with a value for each layer"),
    ({"width": {"*": "2x"}}, r"grow: unknown section \[width\]; expected \[widths\] or \[depth\]"),
    ({"widths": {"hiden": "2x"}, "epochs": [1]}, "grow: the layer 'hiden' cannot grow: .* expected one of hidden"),
    ({"depth": {"out": 1}, "epochs": [1]}, "grow: no copies can follow the layer 'out'"),
    ({}, r"grow: has no section \[widths\] or \[depth\]"),
    ({"widths": {"*": "2x"}}, "growth without validation data")])
def test_mistakes(context, data, grow, says):
    with pytest.raises(keelson.InputError, match=says) as refusal:
        trainer_of(parameters_of(context), data, grow)
    assert "\n" not in str(refusal.value)


def test_refused_trainings_leave_the_parameters_alone(context, data):
    parameters = parameters_of(context)
    before = dict(parameters.items())
    with pytest.raises(keelson.InputError, match="one adds units, the other removes them"):
        trainer_of(parameters, data, BLUEPRINT, apoptosis="normal")
    with pytest.raises(keelson.Error):
        trainer_of(parameters, {"x": data["x"][:, :5].copy(), "y": data["y"]}, BLUEPRINT)
    for name, array in before.items():
        numpy.testing.assert_array_equal(parameters[name], array)


def test_a_program_goes_on(alone, program, tmp_path):
    """The checkpoint has the blueprint."""
    keelson.data.generate_universes(str(tmp_path / "data"), train=4, validation=2, size=32, particles=1)
    data = keelson.data.UniverseDataset(str(tmp_path / "data" / "train"))
    parameters = keelson.Parameters(keelson.nets.cosmoflow(size=32, dropout=0), keelson.Context(), seed=1)
    blueprint = {"epochs": [1, 2], "layers": "all", "widths": {"*": ["0.125x", "0.125x"], "conv1": [4, 9]}}
    keelson.Trainer(parameters, data, batch=2, epochs=2, grow=blueprint, checkpoints=tmp_path / "run" / "checkpoints").run()
    assert len(parameters["conv1/bias"]) == 6
    done = subprocess.run([program("keelson-cosmoflow"), "train", "--resume", tmp_path / "run", "--data", tmp_path / "data",
                           "--epochs", "3"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert "growth: conv1 6 -> 9 (copy)" in done.stdout
    told = subprocess.run([program("keelson-cosmoflow"), "evaluate", "--checkpoint", tmp_path / "run", "--data",
                           tmp_path / "data", "--json"], text=True, stdout=subprocess.PIPE, check=True)
    assert json.loads(told.stdout)["value"] > 0
