"""Networks that lose units while they train."""

import numpy
import pytest

import keelson
from conftest import batch_of
from keelson import layers, optim


class Changes:
    def __init__(self):
        self.texts = []

    def on_network_change(self, trainer, text):
        self.texts.append(text)


@pytest.fixture
def data():
    draw = numpy.random.default_rng(3)
    x = draw.normal(size=(512, 6)).astype("float32")
    return {"x": x, "y": numpy.ascontiguousarray(x[:, :2] * x[:, 2:4])}


def parameters_of(context, hidden=64):
    graph = keelson.Graph("apoptosis")
    h = layers.relu(layers.dense(graph.input("x", (6,)), hidden, name="hidden"))
    h = layers.dense(h, 2, name="out")
    graph.output("prediction", h)
    layers.loss(h, graph.input("y", (2,)), "mse")
    return keelson.Parameters(graph, context, seed=2)


def trainer_of(parameters, data, epochs=8, **others):
    return keelson.Trainer(parameters, data, batch=batch_of(16), epochs=epochs, optimizer=optim.Adam(), learning_rate=0.01,
                           apoptosis="aggressive", **others)


def test_parameters_and_inferences_follow(context, data):
    parameters, changes = parameters_of(context), Changes()
    before = keelson.Inference(parameters, batch=16)
    trainer_of(parameters, data, callbacks=[changes]).run()
    width = len(parameters["hidden/bias"])
    assert 8 <= width < 64 and width % 8 == 0
    assert parameters["out/weights"].shape == (2, width)
    assert changes.texts and f"-> {width} (" in changes.texts[-1]
    with pytest.raises(keelson.InputError, match="lost or gained units or layers since this inference was made"):
        before(data["x"][:16])
    h = numpy.maximum(data["x"][:16] @ parameters["hidden/weights"].T + parameters["hidden/bias"], 0)
    wanted = h @ parameters["out/weights"].T + parameters["out/bias"]
    numpy.testing.assert_allclose(keelson.Inference(parameters, batch=16)(data["x"][:16]), wanted, atol=1e-4)


def test_resumes(context, data, tmp_path):
    whole = parameters_of(context)
    trainer_of(whole, data, checkpoints=tmp_path / "run", keep=100).run()
    parameters = parameters_of(context)
    trainer = trainer_of(parameters, data)
    trainer.resume(str(tmp_path / "run" / "step-0000000160.h5"))  # after the first event, and before the last one
    trainer.run()
    for name, array in whole.items():
        numpy.testing.assert_array_equal(parameters[name], array)


def test_unknown_name(context, data):
    with pytest.raises(keelson.InputError, match="expected conservative, normal or aggressive"):
        keelson.Trainer(parameters_of(context), data, epochs=1, apoptosis="fast")
