"""Graphs, layers and parameters."""

import ast
import collections.abc
import pathlib

import numpy
import pytest

import keelson
from conftest import small_network
from keelson import layers


def image_graph():
    graph = keelson.Graph("layers")
    return graph, graph.input("x", (4, 8, 12))


def test_every_layer_says_its_shape():
    graph, x = image_graph()
    assert layers.conv(x, 6).shape == (1, 6, 8, 12)
    assert layers.conv(x, 6, 5, stride=2).shape == (1, 6, 4, 6)
    assert layers.conv(x, 6, (3, 1), padding="valid", bias=False, name="tall").shape == (1, 6, 6, 12)
    assert "tall/bias" not in graph.parameters
    assert layers.conv(x, 6, padding=2).shape == (1, 6, 10, 14)
    assert layers.conv(x, 6, padding=((0, 1), (1, 0))).shape == (1, 6, 7, 11)
    assert layers.conv(x, 8, groups=4, dilation=2).shape == (1, 8, 8, 12)
    assert layers.transposed_conv(x, 2, stride=2).shape == (1, 2, 16, 24)
    assert layers.transposed_conv(x, 2, stride=2, padding=1, output_padding=1).shape == (1, 2, 16, 24)
    assert layers.max_pool(x).shape == layers.average_pool(x, 2).shape == (1, 4, 4, 6)
    assert layers.max_pool(x, 3, stride=1, padding=1).shape == (1, 4, 8, 12)
    assert layers.global_average_pool(x).shape == (1, 4, 1, 1)
    assert layers.resize(x, 16, 6).shape == (1, 4, 16, 6)
    assert layers.batch_norm(x).shape == layers.layer_norm(x).shape == layers.group_norm(x, 2).shape == x.shape
    for activation in (layers.relu, layers.tanh, layers.sigmoid, layers.gelu, layers.silu, layers.elu, layers.softplus):
        assert activation(x).shape == x.shape
    assert layers.leaky_relu(x, 0.3).shape == layers.scale(x, 2, 1).shape == layers.softmax(x).shape == x.shape
    assert layers.dropout(x, 0.5).shape == x.shape
    flat = layers.flatten(x)
    assert flat.shape == (1, 384) and layers.flatten(x, features=4, order="channels_last").shape == (96, 4)
    assert layers.reshape(x, (2, 192)).shape == (1, 2, 192)
    assert layers.dense(flat, 7).shape == (1, 7) and layers.rms_norm(flat).shape == flat.shape
    assert layers.layer_norm(flat, epsilon=1e-3).shape == flat.shape
    assert layers.add([x, x]).shape == (x + x).shape == x.shape
    assert layers.multiply([x, x, x]).shape == (x * x).shape == x.shape
    assert layers.concat([x, x]).shape == (1, 8, 8, 12)
    tokens = graph.input("tokens", (5,), dtype="int32")
    words = layers.embedding(tokens, 10, 3)
    assert words.shape == (5, 3)
    assert layers.lstm(words, 4, layers=2).shape == layers.gru(words, 4).shape == (5, 4)
    assert layers.attention(words, words, words, 3).shape == (5, 3)
    assert layers.multi_head_attention(words, 3, causal=True).shape == layers.multi_head_attention(words, 1).shape == (5, 3)


def test_activations_are_arguments_of_layers():
    graph, x = image_graph()
    last = layers.conv(x, 6, activation="relu", name="c")
    assert last.name == "c_relu" and last.shape == (1, 6, 8, 12)
    assert layers.transposed_conv(x, 2, activation="elu", name="t").name == "t_elu"
    for name in ("relu", "tanh", "sigmoid", "gelu", "silu", "elu", "softplus"):
        assert layers.dense(layers.flatten(x), 7, activation=name).shape == (1, 7)
    assert layers.dense(layers.flatten(x), 7, activation=None, name="d").name == "d"


def test_a_network_with_attention_learns(context):
    generator = numpy.random.default_rng(1)
    samples, features, labels = numpy.arange(320), numpy.zeros((320, 20, 16), numpy.float32), generator.integers(0, 3, 320)
    features[:, :, 3:] = generator.normal(size=(320, 20, 13))
    features[samples, generator.integers(0, 20, 320), labels] = 4  # one step says which class it is
    graph = keelson.Graph("transformer")
    x, y = graph.input("x", (20, 16)), graph.input("y", (), "int32")
    h = layers.flatten(x, features=16)  # a row for each step
    h = layers.layer_norm(h + layers.multi_head_attention(h, heads=4))
    h = layers.layer_norm(h + layers.dense(layers.dense(h, 32, activation="gelu"), 16))
    logits = layers.dense(layers.last_step(h), 3)
    graph.output("logits", logits)
    layers.cross_entropy(logits, y)
    trainer = keelson.Trainer(keelson.Parameters(graph, context, seed=1), {"x": features, "y": labels.astype(numpy.int32)}, batch=16,
                              epochs=15, optimizer=keelson.optim.Adam(), learning_rate=3e-3)
    losses = [step.loss for step in trainer]
    assert numpy.mean(losses[-20:]) < 0.6, "1.1 is chance"


def test_losses_are_the_graphs():
    for loss in (layers.mse, layers.mae, layers.huber, lambda p, t: layers.loss(p, t, "huber", delta=2)):
        graph, x = image_graph()
        assert loss(layers.dense(layers.flatten(x), 2), graph.input("y", (2,))).name == "loss"
    graph, x = image_graph()
    target = graph.input("y", (8, 12), dtype="int32")
    layers.pixel_cross_entropy(layers.conv(x, 3), target, class_weights=[1, 2, 0], mean="counted")
    graph, x = image_graph()
    layers.cross_entropy(layers.dense(layers.flatten(x), 3), graph.input("y", (), dtype="int32"))
    graph, x = image_graph()
    layers.loss(layers.dense(layers.flatten(x), 4), graph.input("y", (2,)), "gaussian_nll")
    assert '"loss"' in graph.topology


def test_a_graph_tells_what_it_has():
    graph = small_network()
    assert graph.inputs == {"x": ((1, 8, 8, 8), "float32"), "y": ((1,), "float32")}
    assert graph.outputs == ["prediction"]
    assert graph.parameters["conv1/weights"] == (8, 1, 3, 3, 3)
    assert graph.parameter_count == 8 * 27 + 8 + 8 + 1
    assert "conv1" in graph.summary() and "small" in repr(graph)


@pytest.mark.parametrize("call, words", [
    (lambda g, x: layers.conv(x, 6, padding="sam"), "padding is 'sam'. Expected one of 'same', 'valid'"),
    (lambda g, x: layers.conv(x, 6, (3, 3, 3), name="c"), "c:"),
    (lambda g, x: layers.dense(x, 3, name="d"), "d:"),
    (lambda g, x: layers.add([]), "at least one"),
    (lambda g, x: layers.multiply([x, layers.max_pool(x)]), "values of different shapes cannot be multiplied"),
    (lambda g, x: layers.dense(x, 3, activation="Tanh"), "activation is 'Tanh'. Expected one of 'relu', 'tanh'"),
    (lambda g, x: layers.group_norm(x, 3), "4 channels cannot be divided into 3 groups"),
    (lambda g, x: layers.multi_head_attention(layers.flatten(x, features=4), 3), "3 heads on 4 features: expected a number of heads"),
    (lambda g, x: layers.resize(x, 4, 4, grid="pytorch"), "'half_pixel', 'asymmetric', 'align_corners'"),
    (lambda g, x: g.input("z", (3,), dtype="float64"), "Expected one of 'float32', 'int32'"),
    (lambda g, x: g.input("x", (3,)), "x"),
    (lambda g, x: small_network().output("p", x), "another graph"),
])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(keelson.InputError) as raised:
        call(*image_graph())
    assert words in str(raised.value)


def test_a_second_loss_is_refused():
    graph, x = image_graph()
    y = graph.input("y", (4,))
    prediction = layers.dense(layers.flatten(x), 4)
    layers.mse(prediction, y)
    with pytest.raises(keelson.InputError, match=r"the network has a loss already, loss \(mse\); expected one loss. Leave this one \(mae\) out"):
        layers.mae(prediction, y)


def test_values_of_two_graphs_do_not_mix():
    _, a = image_graph()
    _, b = image_graph()
    with pytest.raises(keelson.Error):
        layers.add([a, b])


def test_parameters_are_a_mapping(context):
    graph = small_network()
    parameters = keelson.Parameters(graph, context, seed=3)
    assert isinstance(parameters, collections.abc.Mapping)
    assert list(parameters) == list(graph.parameters) and len(parameters) == 4
    assert {name: array.shape for name, array in parameters.items()} == graph.parameters
    assert "conv1/weights" in parameters and "conv9/weights" not in parameters and 3 not in parameters
    assert parameters.get("conv9/weights") is None
    with pytest.raises(KeyError, match="no parameter is called 'conv9/weights'. Expected one of: conv1/weights"):
        parameters["conv9/weights"]
    again = keelson.Parameters(graph, context, seed=3)
    other = keelson.Parameters(graph, context, seed=4)
    assert numpy.array_equal(parameters["head/weights"], again["head/weights"])
    assert not numpy.array_equal(parameters["head/weights"], other["head/weights"])


def test_parameters_can_be_written_before_and_after_the_first_plan(context):
    parameters = keelson.Parameters(small_network(), context)
    weights = numpy.arange(216, dtype=numpy.float32).reshape(8, 1, 3, 3, 3)
    parameters["conv1/weights"] = weights
    inference = keelson.Inference(parameters)
    assert numpy.array_equal(parameters["conv1/weights"], weights)
    parameters["conv1/weights"] = weights[::-1]
    assert numpy.array_equal(parameters["conv1/weights"], weights[::-1])
    bias = parameters.view("head/bias")
    parameters["head/bias"] = numpy.float32([7])
    assert bias[0] == 7, "a view shares the memory"
    with pytest.raises(ValueError, match="was given an array of the shape \\(3, 2\\). Expected \\(8,\\)"):
        parameters["conv1/bias"] = numpy.zeros((3, 2), numpy.float32)
    with pytest.raises(ValueError, match="has the dtype float64. Expected float32"):
        parameters["conv1/bias"] = numpy.zeros(8)
    inference.close()


def test_context_says_what_it_is():
    context = keelson.Context()
    assert context.comm is None and context.threads >= 1
    assert context.memory["total"] > 0
    with pytest.raises(keelson.InputError, match="device 'tpu'"):
        keelson.Context("tpu")
    with pytest.raises(keelson.InputError, match="comm is a int"):
        keelson.Context(comm=5)
    with pytest.raises(keelson.InputError, match="threads is"):
        keelson.Context(threads=context.threads + 1)


def public(module):
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


def test_everything_is_documented_and_typed():
    modules = (keelson, keelson.layers, keelson.nets, keelson.data, keelson.optim, keelson.metrics)
    checked = 0
    for module in modules:
        for name, thing in public(module).items():
            if not callable(thing) or getattr(thing, "__module__", "").split(".")[0] != "keelson":
                continue
            assert thing.__doc__, f"{module.__name__}.{name}"
            checked += 1
            for method, function in public(thing).items() if isinstance(thing, type) else ():
                if not issubclass(thing, BaseException):
                    assert function.__doc__, f"{name}.{method}"
    assert checked > 60
    folder = pathlib.Path(keelson.__file__).parent
    assert (folder / "py.typed").exists()
    stubs = {path.stem: ast.parse(path.read_text()) for path in (folder / "_engine").glob("*.pyi")}
    assert {"__init__", "layers", "nets", "data", "optim", "metrics"} <= set(stubs)
    functions = {node.name for node in stubs["layers"].body if isinstance(node, ast.FunctionDef)}
    assert functions >= set(public(keelson.layers))


def test_a_refused_layer_adds_no_node():
    graph = keelson.Graph("again")
    x = layers.flatten(graph.input("x", (4, 6)), features=6)  # a row for each step
    with pytest.raises(keelson.InputError, match="activation"):
        layers.dense(x, 6, activation="sigmod", name="d1")
    with pytest.raises(keelson.InputError, match="4 heads on 6 features"):
        layers.multi_head_attention(x, heads=4, name="a")
    assert not list(graph.parameters)
    layers.multi_head_attention(layers.dense(x, 6, activation="sigmoid", name="d1"), heads=3, name="a")
