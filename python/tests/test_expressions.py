"""Arithmetic of values, and losses of the user's own formula."""

import numpy
import pytest

import keelson
from conftest import batch_of
from keelson import layers

a_values, b_values = numpy.random.default_rng(3).uniform(0.5, 2, (2, 12, 4)).astype(numpy.float32)


@pytest.mark.parametrize("formula", [
    lambda a, b, f: a + b, lambda a, b, f: a - b, lambda a, b, f: a * b, lambda a, b, f: a / b,
    lambda a, b, f: a + 2, lambda a, b, f: 2 + a, lambda a, b, f: a - 2.5, lambda a, b, f: 2.5 - a,
    lambda a, b, f: a * 3, lambda a, b, f: 3 * a, lambda a, b, f: a / 4, lambda a, b, f: 4 / a,
    lambda a, b, f: -a, lambda a, b, f: abs(a - b), lambda a, b, f: a ** 2, lambda a, b, f: (a - b) ** 3,
    lambda a, b, f: a ** 0.5, lambda a, b, f: a ** -1.5, lambda a, b, f: f.exp(a), lambda a, b, f: f.log(a),
    lambda a, b, f: f.log(f.exp(a - b) + f.exp(b - a)) / numpy.float32(2),
])
def test_values_calculate_as_arrays_do(formula):
    graph = keelson.Graph("formula")
    a, b = graph.input("a", (4,)), graph.input("b", (4,))
    graph.output("result", formula(a, b, layers))
    inference = keelson.Inference(keelson.Parameters(graph, keelson.Context()), batch=12)
    fields = {"a": a_values, "b": b_values}
    result = inference(**{name: fields[name] for name in inference.inputs})
    numpy.testing.assert_allclose(result, formula(a_values, b_values, numpy), rtol=3e-6, atol=1e-6)


def test_sums_and_means_are_those_of_a_samples_elements():
    images = numpy.random.default_rng(4).normal(size=(3, 2, 5, 7)).astype(numpy.float32)
    graph = keelson.Graph("sums")
    x = graph.input("x", (2, 5, 7))
    assert x.mean().shape == x.sum().shape == layers.flatten(x).mean().shape == (1, 1)
    graph.output("mean", x.mean())
    graph.output("sum", layers.flatten(x).sum())
    result = keelson.Inference(keelson.Parameters(graph, keelson.Context()), batch=3)(images)
    numpy.testing.assert_allclose(result["mean"][:, 0], images.mean((1, 2, 3)), atol=1e-6)
    numpy.testing.assert_allclose(result["sum"][:, 0], images.sum((1, 2, 3)), rtol=1e-5, atol=1e-5)


def line(loss, context, precision="fp32"):
    """History and parameters of a fit to y = 2 x1 - x2 + noise."""
    random = numpy.random.default_rng(5)
    x = random.normal(size=(256, 2)).astype(numpy.float32)
    y = (2 * x[:, :1] - x[:, 1:] + random.exponential(1, (256, 1))).astype(numpy.float32)
    graph = keelson.Graph("line")
    inputs = {"x": graph.input("x", (2,)), "y": graph.input("y", (1,)), "w": graph.input("w", ())}
    prediction = layers.dense(inputs["x"], 1, name="head")
    graph.output("prediction", prediction)
    loss(prediction, inputs["y"], inputs["w"])
    parameters = keelson.Parameters(graph, context, seed=1)
    data = {"x": x, "y": y, "w": numpy.linspace(0, 2, 256, dtype=numpy.float32)}
    trainer = keelson.Trainer(parameters, data, epochs=60, batch=batch_of(32), learning_rate=0.02, precision=precision)
    history = trainer.run(progress=False)
    return history["loss"], parameters, data


def test_an_own_formula_trains_as_the_loss_that_is_there(context):
    theirs, weights, _ = line(lambda p, y, w: layers.mse(p, y, sample_weight=w), context)
    ours, own_weights, _ = line(lambda p, y, w: layers.mean_loss((p - y) ** 2, sample_weight=w), context)
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-5)
    numpy.testing.assert_allclose(own_weights["head/weights"], weights["head/weights"], rtol=1e-4)


def test_the_pinball_loss_finds_a_quantile(context):
    graph = keelson.Graph("quantile")
    x, y = graph.input("x", (8,)), graph.input("y", (1,))
    prediction = layers.dense(layers.dense(x, 32, activation="relu"), 1)
    graph.output("prediction", prediction)
    error = y - prediction
    layers.mean_loss(0.9 * layers.relu(error) + 0.1 * layers.relu(-error))  # nine of ten targets lie below
    parameters = keelson.Parameters(graph, context, seed=1)
    random = numpy.random.default_rng(6)
    x = random.normal(size=(1024, 8)).astype(numpy.float32)
    y = (x[:, :1] + random.exponential(1, (1024, 1))).astype(numpy.float32)
    trainer = keelson.Trainer(parameters, {"x": x, "y": y}, epochs=15, batch=batch_of(64), learning_rate=0.01)
    trainer.run(progress=False)
    below = (y < keelson.Inference(parameters, batch=64)(x)).mean()
    assert 0.85 < below < 0.95


def test_an_expression_is_computed_in_float32_behind_the_prediction(context):
    """In bf16 a target of 1000.5 would be 1000."""
    graph = keelson.Graph("precision")
    x, y = graph.input("x", (2,)), graph.input("y", (1,))
    prediction = layers.dense(x, 1, bias=False, name="head")
    layers.mean_loss((prediction - y) ** 2)
    parameters = keelson.Parameters(graph, context, seed=1)
    data = {"x": numpy.zeros((8, 2), numpy.float32), "y": numpy.full((8, 1), 1000.5, numpy.float32)}
    trainer = keelson.Trainer(parameters, data, epochs=1, batch=batch_of(8), precision="bf16")
    assert abs(trainer.run(progress=False)["loss"][0] - 1000.5 ** 2) < 1


@pytest.mark.parametrize("formula", [
    lambda p, y: abs(p - y) / y, lambda p, y: y * layers.log(abs(p)), lambda p, y: abs(p - y) ** 0.5,
    lambda p, y: (p ** 2) ** 0])
def test_the_padding_of_a_short_batch_makes_nothing_infinite(context, formula):
    graph = keelson.Graph("short")
    x, y = graph.input("x", (2,)), graph.input("y", (1,))
    layers.mean_loss(formula(layers.dense(x, 1, bias=False, name="head"), y))
    parameters = keelson.Parameters(graph, context, seed=1)
    data = {"x": numpy.arange(1, 15, dtype=numpy.float32).reshape(7, 2), "y": numpy.arange(1, 8, dtype=numpy.float32)[:, None]}
    trainer = keelson.Trainer(parameters, data, epochs=2, batch=batch_of(4))
    assert numpy.isfinite(trainer.run(progress=False)["loss"]).all() and numpy.isfinite(parameters["head/weights"]).all()


def test_gradients_are_those_of_the_formula(alone):
    graph = keelson.Graph("gradients")
    x, y = graph.input("x", (2,)), graph.input("y", (1,))
    prediction = layers.dense(x, 1, name="head")
    graph.output("beside", layers.dense(x, 3, name="beside"))
    layers.mean_loss(abs(prediction - y) ** 3)
    parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
    data = {"x": numpy.ones((4, 2), numpy.float32), "y": numpy.arange(4, dtype=numpy.float32)[:, None]}
    before = parameters["head/weights"].sum() + parameters["head/bias"][0]
    trainer = keelson.Trainer(parameters, data, epochs=1, batch=4)
    next(iter(trainer))
    gradients = trainer.gradients()
    assert sorted(gradients) == ["head/bias", "head/weights"]  # the loss does not depend on the other layer
    d = before - data["y"]
    numpy.testing.assert_allclose(gradients["head/bias"], [(3 * d ** 2 * numpy.sign(d)).mean()], rtol=1e-5)


def test_formulas_that_do_not_fit_are_refused_in_a_line(alone):
    graph = keelson.Graph("wrong")
    x, y, classes = graph.input("x", (4,)), graph.input("y", (1,)), graph.input("c", (), "int32")
    with pytest.raises(keelson.InputError, match="values of different shapes cannot be added: 1x4 and 1x1"):
        x - y
    for wrong in (lambda: x + numpy.ones(4), lambda: numpy.ones(4) * x):
        with pytest.raises(keelson.InputError, match="Make it an input of the graph"):
            wrong()
    for wrong in (lambda: x + "1", lambda: x ** y):
        with pytest.raises(TypeError, match="unsupported operand type"):
            wrong()
    with pytest.raises(keelson.InputError, match="the importance of samples is 1 int32"):
        layers.mean_loss(x * x, sample_weight=classes)
    layers.mean_loss(x * x)
    with pytest.raises(keelson.InputError, match="the network has a loss already"):
        layers.mean_loss(x + x)
