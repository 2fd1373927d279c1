"""Predictions, plans and checkpoints."""

import numpy
import pytest

import keelson
from conftest import cubes, small_network
from keelson import layers


@pytest.fixture
def context():
    return keelson.Context()


def reference(parameters, x):
    """The small network, computed by NumPy."""
    w, b = parameters["conv1/weights"], parameters["conv1/bias"]
    padded = numpy.pad(x[:, 0], ((0, 0), (1, 1), (1, 1), (1, 1)))
    sums = numpy.zeros((len(x), 8, 8, 8, 8))
    for d in range(3):
        for h in range(3):
            for v in range(3):
                part = padded[:, d:d + 8, h:h + 8, v:v + 8]
                sums += part[:, None] * w[None, :, 0, d, h, v, None, None, None]
    hidden = numpy.maximum(sums + b[:, None, None, None], 0).mean(axis=(2, 3, 4))
    return hidden @ parameters["head/weights"].T + parameters["head/bias"]


def test_predictions_are_right_for_any_number_of_samples(context):
    parameters = keelson.Parameters(small_network(), context)
    x = cubes(7)["x"]
    inference = keelson.Inference(parameters, batch=3)
    assert inference.inputs == ["x"], "the target is not needed"
    expected = reference(parameters, x)
    for given in (x, x[:3], x[:1], x[::2]):
        assert numpy.allclose(inference(given), reference(parameters, given), atol=1e-5)
    assert numpy.allclose(inference(x=x), expected, atol=1e-5)
    assert numpy.allclose(inference({"x": x}), expected, atol=1e-5)
    assert inference(x[:0]).shape == (0, 1)


def test_aligned_arrays_are_read_in_place(context):
    parameters = keelson.Parameters(small_network(), context)
    inference = keelson.Inference(parameters, batch=4)
    x = keelson.data.empty((4, 1, 8, 8, 8))
    x[:] = cubes(4)["x"]
    first = inference(x)
    view = inference.view("prediction")
    assert numpy.array_equal(view, first) and numpy.array_equal(numpy.from_dlpack(view), first)
    x[:] *= 2
    second = inference(x)
    assert not numpy.array_equal(first, second), "what was returned is a copy"
    assert numpy.array_equal(view, second), "the view is not"
    assert numpy.array_equal(inference(cubes(4)["x"]), first), "other arrays are copied as before"


def test_inferences_see_what_trainers_write(context):
    parameters = keelson.Parameters(small_network(), context)
    inference = keelson.Inference(parameters, batch=8)
    data = cubes(32)
    before = inference(data["x"])
    keelson.Trainer(parameters, data, batch=8, epochs=1, learning_rate=0.01).run()
    assert not numpy.array_equal(before, inference(data["x"]))
    assert numpy.allclose(inference(data["x"]), reference(parameters, data["x"]), atol=1e-5)


@pytest.mark.parametrize("call, words", [
    (lambda i, x: i(), "no array was given for the input 'x'. Expected samples of (1, 8, 8, 8), float32"),
    (lambda i, x: i(x[0]), "x is one sample of (1, 8, 8, 8). Expected an array of samples: give x[None]"),
    (lambda i, x: i(x, x), "2 arrays were given. Expected 1: x"),
    (lambda i, x: i(z=x), "Expected x"),
    (lambda i, x: i(x.astype("int32")), "x has the dtype int32. Expected float32"),
])
def test_arrays_that_do_not_fit_are_refused(context, call, words):
    inference = keelson.Inference(keelson.Parameters(small_network(), context))
    with pytest.raises(keelson.InputError) as raised:
        call(inference, cubes(2)["x"])
    assert words in str(raised.value)


def test_several_outputs_come_by_name(context):
    graph = keelson.Graph()
    h = layers.dense(graph.input("x", (3,)), 2, name="d")
    graph.output("linear", h)
    graph.output("positive", layers.relu(h))
    results = keelson.Inference(keelson.Parameters(graph, context), batch=2)(numpy.ones((5, 3), "f4"))
    assert set(results) == {"linear", "positive"}
    assert numpy.array_equal(results["positive"], numpy.maximum(results["linear"], 0))
    with pytest.raises(keelson.InputError, match="no output"):
        keelson.Inference(keelson.Parameters(keelson.Graph(), context))


def test_states_are_carried_where_asked(context):
    net = keelson.nets.lstm_lm(11, hidden=4, layers=1, unroll=3, logits_output=True)
    inference = keelson.Inference(keelson.Parameters(net, context), batch=2)
    tokens = numpy.int32([[1, 2, 3], [4, 5, 6]])
    first = inference(tokens)
    assert first.shape == (6, 11) and numpy.array_equal(inference(tokens), first)
    assert numpy.array_equal(inference(tokens, carry_states=True), first)
    assert not numpy.array_equal(inference(tokens), first)
    inference.reset_states()
    assert numpy.array_equal(inference(tokens), first)


def test_a_plan_shows_itself(context):
    parameters = keelson.Parameters(small_network(), context)
    plan = keelson.Plan(parameters, batch=4, training=True, optimizer=keelson.optim.Adam())
    assert {row["phase"] for row in plan.rows} >= {"forward", "backward", "update"}
    assert plan.memory["parameters"] > 0 and "conv1" in str(plan)
    assert "update" not in {row["phase"] for row in keelson.Inference(parameters).plan.rows}


def test_the_published_networks_have_their_parameters():
    nets = keelson.nets
    assert nets.cosmoflow().parameter_count == 8_907_556
    assert nets.cosmoflow("paper").parameter_count == 7_041_443
    assert nets.minerva().parameter_count == 1_690_367
    assert nets.minerva(channels=2, classes=11).parameter_count == 1_686_071
    assert nets.minerva("evolved633167").parameter_count == 2_858_397
    assert nets.lstm_lm().parameter_count == 4_651_600
    assert nets.tiramisu().parameter_count == 7_504_835
    assert nets.deepcam().parameter_count == 56_454_720
    assert nets.deeplab_sc18().parameter_count == 43_669_251
    with pytest.raises(keelson.InputError, match="Expected one of 'mlperf', 'paper'"):
        nets.cosmoflow("resnet")


def test_a_checkpoint_makes_network_and_parameters_again(context, tmp_path):
    net = keelson.nets.cosmoflow(size=32, channels=2, dropout=0, widths={"conv1": 3, "dense2": 5})
    parameters = keelson.Parameters(net, context)
    rng = numpy.random.default_rng(0)
    data = {"x": rng.random((4, 2, 32, 32, 32), dtype="f4"), "y": rng.random((4, 4), dtype="f4")}
    trainer = keelson.Trainer(parameters, data, batch=2, epochs=1, checkpoints=tmp_path / "c")
    trainer.run()
    checkpoint = keelson.Checkpoint(tmp_path / "c")
    again = keelson.Parameters(keelson.nets.from_checkpoint(checkpoint.state), context)
    checkpoint.load(again)
    assert checkpoint.state.step == 2 and checkpoint.state.network == "cosmoflow-mlperf"
    assert all(numpy.array_equal(again[name], parameters[name]) for name in parameters)
    inference = keelson.Inference(again)
    assert numpy.array_equal(inference(data["x"]), keelson.Inference(parameters)(data["x"]))
    again["conv1/bias"] = numpy.zeros(3, "f4")
    checkpoint.load(again)
    assert numpy.array_equal(again["conv1/bias"], parameters["conv1/bias"])
    with pytest.raises(keelson.InputError, match="is a checkpoint of another network"):
        checkpoint.load(keelson.Parameters(small_network(), context))
    with pytest.raises(keelson.InputError):
        keelson.Checkpoint(tmp_path / "nothing")


def test_every_kind_of_network_comes_back(context, tmp_path):
    nets = keelson.nets
    small = dict(rows=32, columns=32, channels=2)
    tokens = {"x": numpy.zeros((2, 3), "i4"), "y": numpy.zeros((2, 3), "i4")}
    images = {"x": numpy.zeros((2, 2, 32, 32), "f4"), "y": numpy.zeros((2, 32, 32), "i4")}
    for i, (net, data) in enumerate([
            (nets.lstm_lm(7, hidden=4, unroll=3, cell="gru", embedding=3), tokens),
            (nets.tiramisu(**small, first=4, growth=2, blocks=[1, 2], kernel=3), images),
            (nets.deepcam(**small, width=0.05, middle_blocks=1), images),
            (nets.deeplab_sc18(**small, width=0.05, decoder="bilinear"), images)]):
        parameters = keelson.Parameters(net, context)
        keelson.Trainer(parameters, data, batch=2, epochs=1, max_steps=0, checkpoints=tmp_path / str(i)).run()
        state = keelson.Checkpoint(tmp_path / str(i)).state
        assert nets.from_checkpoint(state).parameters == net.parameters, state.network


def test_onnx_models_predict_alike(context, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    parameters = keelson.Parameters(small_network(), context)
    x = cubes(5)["x"]
    path = tmp_path / "small.onnx"
    assert keelson.export_onnx(parameters, path, metadata={"unit": "none"}) is None
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(["prediction"], {"x": x})
    assert numpy.allclose(found, keelson.Inference(parameters, batch=5)(x), atol=1e-5)
    with pytest.raises(keelson.InputError):
        keelson.export_onnx(keelson.Parameters(keelson.Graph(), context), path)
