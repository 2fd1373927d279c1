"""Networks from ONNX files: they predict what onnxruntime does, and can be trained."""

import pathlib
import re

import numpy
import pytest

import keelson
from keelson import layers, nets

if keelson.world().size > 1:
    pytest.skip("for one process: each rank imports alike", allow_module_level=True)
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture
def context():
    return keelson.Context()


def inputs_for(path, count=3, seed=0):
    random = numpy.random.default_rng(seed)
    given = {}
    for i in runtime.InferenceSession(str(path)).get_inputs():
        shape = [count, *i.shape[1:]]
        if "int" in i.type:
            given[i.name] = random.integers(0, 3, shape).astype("int64" if "64" in i.type else "int32")
        else:
            given[i.name] = random.standard_normal(shape).astype("f4")
    return given


def assert_alike(found, expected, tolerance=1e-5):
    found = numpy.reshape(found, expected.shape)
    worst, largest = numpy.abs(found - expected).max(), numpy.abs(expected).max()
    assert worst <= tolerance * max(largest, 1e-6), f"{worst} of {largest}"


def imported(path, context, given=None, tolerance=1e-5, **options):
    """The network, whose predictions are those of onnxruntime, with the names and shapes that the file has."""
    model = keelson.from_onnx(path, **options)
    given = given or inputs_for(path)
    fed = {k: numpy.zeros_like(v) if k not in model.inputs else v for k, v in given.items()}
    names = list(model.outputs)
    expected = dict(zip(names, runtime.InferenceSession(str(path)).run(names, fed)))
    fields = {k: v.astype("i4") if v.dtype == numpy.int64 else v for k, v in given.items() if k in model.inputs}
    found = keelson.Inference(model.parameters(context), batch=2)(fields)
    found = found if isinstance(found, dict) else {names[0]: found}
    for name in names:
        assert_alike(found[name], expected[name], tolerance)
        assert found[name].shape == expected[name].shape
    return model


# --- networks that Keelson exports

def image(c=2, *spatial):
    return lambda g: g.input("x", (c, *(spatial or (5, 4))))


def rows(steps=3, features=4):
    return lambda g: layers.flatten(g.input("x", (steps, features)), features=features)


LAYERS = {
    "conv": (image(), lambda x: layers.conv(x, 3, name="conv1")),
    "conv, stride, groups": (image(4, 7, 6), lambda x: layers.conv(x, 4, (3, 2), stride=2, padding=((2, 0), (1, 1)), groups=2)),
    "conv, strides": (image(2, 7, 6), lambda x: layers.conv(x, 3, stride=(2, 1), dilation=2)),
    "conv of lines": (image(2, 9), lambda x: layers.conv(x, 3, 5, stride=2)),
    "conv of volumes": (image(2, 3, 4, 3), lambda x: layers.conv(x, 3, bias=False, activation="tanh")),
    "transposed_conv": (image(3, 3, 4), lambda x: layers.transposed_conv(x, 2, stride=2)),
    "transposed_conv, groups": (image(4, 3, 3), lambda x: layers.transposed_conv(
        x, 4, stride=2, padding=1, output_padding=1, groups=2, bias=False)),
    "transposed_conv of volumes": (image(2, 2, 3, 2), lambda x: layers.transposed_conv(x, 2, 2, padding="valid", dilation=2)),
    "max_pool": (image(2, 6, 4), lambda x: layers.max_pool(x, 3, stride=2, padding=((0, 0), (1, 1)))),
    "max_pool of volumes": (image(2, 4, 2, 5), lambda x: layers.max_pool(x)),
    "average_pool": (image(), lambda x: layers.average_pool(x, 3, stride=2, padding=1)),
    "average_pool, padding counts": (image(), lambda x: layers.average_pool(x, 3, stride=2, padding=1, count_padding=True)),
    "global_average_pool": (image(3, 4, 2, 3), lambda x: layers.global_average_pool(x, name="pool")),
    "resize": (image(2, 3, 2), lambda x: layers.resize(x, 6, 5)),
    "resize, asymmetric": (image(2, 5, 4), lambda x: layers.resize(x, 2, 7, grid="asymmetric")),
    "resize, corners": (image(2, 3, 2), lambda x: layers.resize(x, 6, 5, grid="align_corners")),
    "activations": (image(), lambda x: layers.softplus(layers.elu(layers.leaky_relu(layers.tanh(layers.relu(
        layers.scale(x, -1.5, .25))), .3), .7))),
    "gelu": (image(), lambda x: layers.gelu(x, name="act1")),
    "silu, sigmoid": (image(), lambda x: layers.sigmoid(layers.silu(x, name="act1"))),
    "dropout": (image(), lambda x: layers.dropout(x, .5)),
    "batch_norm": (image(), lambda x: layers.batch_norm(x, epsilon=1e-2, name="bn")),
    "batch_norm of rows": (lambda g: g.input("x", (6,)), lambda x: layers.batch_norm(x)),
    "rms_norm": (rows(), lambda x: layers.rms_norm(x, epsilon=.1, name="rms")),
    "layer_norm": (rows(), lambda x: layers.layer_norm(x, epsilon=.1, name="norm")),
    "layer_norm of images": (image(3, 4, 2), lambda x: layers.layer_norm(x)),
    "group_norm": (image(4, 3, 2), lambda x: layers.group_norm(x, 2, name="groups")),
    "group_norm of rows": (lambda g: g.input("x", (6,)), lambda x: layers.group_norm(x, 2)),
    "softmax": (image(), lambda x: layers.softmax(layers.softmax(x, 1), 3)),
    "add, multiply": (image(), lambda x: layers.multiply([layers.add([x, layers.tanh(x), x]), x, layers.sigmoid(x)])),
    "concat": (image(), lambda x: layers.concat([layers.concat([x, layers.tanh(x)]), layers.concat([x, x])], 3)),
    "flatten, channels last": (image(2, 3, 2, 2), lambda x: layers.dense(layers.flatten(x, order="channels_last"), 3)),
    "reshape": (image(2, 3, 4), lambda x: layers.reshape(x, (4, 6))),
    "dense": (rows(), lambda x: layers.dense(layers.dense(x, 5, name="a"), 4, bias=False, name="b")),
    "shared weights": (lambda g: g.input("x", (5,)), lambda x: layers.dense(
        layers.dense(x, 5, name="first"), 5, weights_of="first", name="second")),
    "embedding": (lambda g: g.input("x", (4,), "int32"), lambda x: layers.dense(
        layers.embedding(x, 3, 5, name="table"), 3, bias=False, weights_of="table", name="out")),
    "embedding of one": (lambda g: g.input("x", (), "int32"), lambda x: layers.embedding(x, 3, 5)),
    "lstm": (rows(), lambda x: layers.lstm(x, 3)),
    "gru, last step": (rows(), lambda x: layers.last_step(layers.gru(x, 3, carries_state=False))),
    "lstm without a state": (rows(), lambda x: layers.lstm(x, 3, carries_state=False)),
    "gru with a state": (rows(), lambda x: layers.gru(x, 3)),
    "attention": (rows(5, 4), lambda x: layers.attention(layers.scale(x, 3), layers.tanh(x), x, 2)),
    "multi_head_attention": (rows(4, 4), lambda x: layers.multi_head_attention(x, 2, causal=True, name="all")),
}


def exported(build, path, context, seed=3):
    graph = build()
    parameters = keelson.Parameters(graph, context, seed=seed)
    random = numpy.random.default_rng(seed)
    for name, values in parameters.items():
        if name.endswith(("bias", "shift", "mean", "variance", "scale")):
            parameters[name] = (.5 + random.random(values.shape)).astype("f4")
    keelson.export_onnx(parameters, path)
    return graph


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_come_back_as_they_were_exported(kind, context, tmp_path):
    make, layer = LAYERS[kind]

    def build():
        graph = keelson.Graph("layer")
        graph.output("prediction", layer(make(graph)))
        return graph
    graph = exported(build, tmp_path / "layer.onnx", context)
    model = imported(tmp_path / "layer.onnx", context)
    assert model.graph.parameters == graph.parameters


NETWORKS = {
    "cosmoflow": lambda: nets.cosmoflow("mlperf", size=32, channels=2, widths={"conv1": 4, "conv2": 4}),
    "mlp": lambda: nets.mlp(6, 3, batch_norm=True, activation="gelu", dropout=.1),
    "minerva": lambda: nets.minerva("epsilon", planes=22, width=.1),
    "lm": lambda: nets.lstm_lm(11, hidden=6, layers=2, unroll=4, embedding=6, tied=True, logits_output=True),
    "tiramisu": lambda: nets.tiramisu(rows=16, columns=16, channels=2, first=4, growth=2, blocks=[1, 1]),
    "deeplab": lambda: nets.deepcam(rows=32, columns=32, channels=2, width=.1, middle_blocks=1),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_come_back_as_they_were_exported(name, context, tmp_path):
    graph = exported(NETWORKS[name], tmp_path / "net.onnx", context)
    model = imported(tmp_path / "net.onnx", context)
    assert model.graph.parameter_count == graph.parameter_count
    assert set(model.graph.parameters) <= set(graph.parameters)


# --- operators as other programs write them

def value(seed, *shape):
    return numpy.random.default_rng(seed).uniform(.5, 1.5, shape).astype("f4")


def model_file(path, nodes, x=(3, 6, 5), dtype=TensorProto.FLOAT, opset=17, batch="n", outputs=("y",), inputs={}, **constants):
    """A file with the input x, of these nodes; the constants are its initializers."""
    constants = {k: numpy.asarray(v) for k, v in constants.items()}
    graph = helper.make_graph(
        nodes, "made", [helper.make_tensor_value_info(k, dtype, [batch, *v]) for k, v in {"x": x, **inputs}.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


def node(op, inputs, outputs="y", **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op.lower()}.{outputs.split()[0]}", **attributes)


def chain(*steps):
    """Nodes one after the other, from x to y: (operator, other inputs, attributes)."""
    made, at = [], "x"
    for i, (op, others, attributes) in enumerate(steps):
        out = "y" if i == len(steps) - 1 else f"v{i}"
        made.append(helper.make_node(op, [at, *others.split()], [out], name=f"{op}{i}", **attributes))
        at = out
    return made


NORM = [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d two", "p"),
        node("ReduceMean", "p", "v", axes=[-1]), node("Add", "v e", "w"), node("Sqrt", "w", "r"), node("Div", "d r", "n"),
        node("Mul", "n s", "o"), node("Add", "o t")]
IMAGE, FLAT, STEPS, W = (3, 6, 5), (6,), (4, 6), value(1, 4, 3, 3, 3)
MODELS = {
    "auto_pad": (IMAGE, chain(("Conv", "w", {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
                              ("Conv", "v", {"auto_pad": "SAME_UPPER"})), {"w": W, "v": value(2, 2, 4, 2, 2)}),
    "bias behind a convolution": (IMAGE, chain(("Conv", "w", {}), ("Add", "b", {}), ("Relu", "", {})), {"w": W, "b": value(2, 4, 1, 1)}),
    "pads": (IMAGE, chain(("Pad", "p", {}), ("Conv", "w", {"pads": [0, 1, 0, 0]}), ("Pad", "q", {}),
                          ("AveragePool", "", {"kernel_shape": [2, 2]})), {"w": W, "p": numpy.array([0, 0, 1, 2, 0, 0, 0, 1]), "q": numpy.array([0, 0, 1, 0, 0, 0, 0, 1])}),
    "auto_pad behind pads": (IMAGE, chain(("Pad", "p", {}), ("Conv", "w", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})),
                             {"w": W, "p": numpy.array([0, 0, 0, 1, 0, 0, 1, 0])}),
    "ceil_mode": (IMAGE, chain(("MaxPool", "", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
                               ("AveragePool", "", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})), {}),
    "pools of one window": (IMAGE, chain(("MaxPool", "", {"kernel_shape": [6, 2], "strides": [2, 1]}),
                                         ("MaxPool", "", {"kernel_shape": [1, 3], "strides": [2, 2]})), {}),
    "transposed to the same, with output_padding": ((3, 4, 5), chain(
        ("ConvTranspose", "w", {"auto_pad": "SAME_UPPER", "strides": [2, 2], "output_padding": [1, 1]})),
        {"w": value(3, 3, 2, 3, 3)}),
    "transposed, cut at the end": (IMAGE, chain(("ConvTranspose", "w", {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
                                                ("ConvTranspose", "v b", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})),
                                   {"w": value(3, 3, 2, 3, 3), "v": value(4, 2, 2, 3, 3), "b": value(5, 2)}),
    "activations": (IMAGE, chain(("Clip", "a b", {}), ("HardSwish", "", {}), ("Selu", "", {}), ("Celu", "", {"alpha": .7}),
                                 ("HardSigmoid", "", {}), ("Abs", "", {}), ("Neg", "", {}), ("PRelu", "s", {})),
                    {"a": numpy.float32(-.3), "b": numpy.float32(1.2), "s": value(1, 1)}),
    "limits": (IMAGE, chain(("Max", "a", {}), ("Min", "b", {}), ("Clip", "c", {}), ("Pow", "p", {})),
               {"a": numpy.float32(-.3), "b": numpy.float32(1.2), "c": numpy.float32(.1), "p": numpy.float32(3)}),
    "layer norm with vectors of other axes": ((4, 4), NORM, {
        "two": numpy.float32(2), "e": numpy.float32(1e-3), "s": value(1, 4), "t": value(2, 4, 1)}),
    "numbers": (IMAGE, [node("Sub", "one x", "a"), node("Div", "a two", "b"), node("Mul", "three b", "c"), node("Sub", "c one", "d"),
                        node("Sub", "d x", "e"), node("Sum", "e x a", "f"), node("Mul", "f x")],
                {"one": numpy.float32(1), "two": numpy.float32(2), "three": numpy.float32(3)}),
    "mathematics": (FLAT, [node("Abs", "x", "a"), node("Add", "a one", "b"), node("Log", "b", "c"), node("Exp", "x", "d"),
                           node("Sqrt", "b", "e"), node("Div", "c e", "f"), node("Div", "two b", "g"), node("Reciprocal", "d", "h"),
                           node("Pow", "b p", "i"), node("Sum", "f g h i")],
                    {"one": numpy.float32(1), "two": numpy.float32(2), "p": numpy.float32(1.5)}),
    "gelu": (FLAT, [node("Div", "x r", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "x c", "d"),
                    node("Mul", "d half")], {"r": numpy.float32(2 ** .5), "one": numpy.float32(1), "half": numpy.float32(.5)}),
    "gelu, halved first": (FLAT, [node("Mul", "x half", "h"), node("Mul", "x r", "a"), node("Erf", "a", "b"), node("Add", "one b", "c"),
                                  node("Mul", "c h")], {"r": numpy.float32(.5 ** .5), "one": numpy.float32(1), "half": numpy.float32(.5)}),
    "numbers with more axes": (FLAT, chain(("Add", "c", {}), ("Squeeze", "zero", {}), ("Abs", "", {}), ("Pow", "c", {}),
                                           ("Squeeze", "zero", {}), ("Max", "c", {}), ("Squeeze", "zero", {})),
                               {"c": value(1, 1, 1, 1), "zero": numpy.array([0])}),
    "a number of each sample": (FLAT, chain(("ReduceMean", "", {"axes": [-1], "keepdims": 0})), {}),
    "vectors": (IMAGE, chain(("Mul", "a", {}), ("Add", "b", {}), ("Add", "c", {}), ("Sub", "d", {}), ("Div", "e", {})),
                {"a": value(1, 3, 1, 1), "b": value(2, 3, 1, 1), "c": value(3, 1, 3, 6, 5), "d": value(4, 5), "e": value(5, 3, 6, 1)}),
    "steps with vectors": (STEPS, chain(("Add", "a", {}), ("Mul", "b", {}), ("MatMul", "w", {}), ("Add", "c", {})),
                           {"a": value(1, 1, 4, 6), "b": value(2, 6), "w": value(3, 6, 2), "c": value(4, 2)}),
    "gates of channels": ((4, 6, 5), [node("GlobalAveragePool", "x", "m"), node("Conv", "m w", "s"), node("Sigmoid", "s", "g"),
                                      node("Mul", "x g")], {"w": value(1, 4, 4, 1, 1)}),
    "gates of volumes": ((2, 3, 2, 2), [node("ReduceMean", "x", "m", axes=[2, 3, 4]), node("Sigmoid", "m", "g"), node("Mul", "x g")], {}),
    "matrices": (FLAT, chain(("Gemm", "w b", {"alpha": .5, "beta": 2.0}), ("Gemm", "v", {"transB": 1}), ("MatMul", "u", {})),
                 {"w": value(1, 6, 4), "b": value(2, 1, 4), "v": value(3, 5, 4), "u": value(4, 5, 2)}),
    "shapes": (IMAGE, [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Flatten", "t", "f"), node("Unsqueeze", "f ones", "u"),
                       node("Squeeze", "u ones", "s"), node("Reshape", "s r", "y")],
               {"ones": numpy.array([1]), "r": numpy.array([-1, 5, 18])}),
    "channels last": ((6, 5, 3), [node("Transpose", "x", "a", perm=[0, 3, 1, 2]), node("Conv", "a w", "b"), node("Transpose", "b", "c", perm=[0, 2, 3, 1]),
                                  node("Add", "c v", "d"), node("LayerNormalization", "d s s", "e"), node("ReduceMean", "e", axes=[1, 2])],
                      {"w": W, "v": value(2, 4), "s": value(3, 4)}),
    "shape of a value": (IMAGE, [node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Unsqueeze", "n zeros", "m"),
                                 node("Concat", "m rest", "r", axis=0), node("Reshape", "x r", "y")],
                         {"zero": numpy.array(0), "zeros": numpy.array([0]), "rest": numpy.array([-1])}),
    "reductions": (IMAGE, [node("ReduceMean", "x", "a", axes=[1]), node("ReduceMax", "x", "b", axes=[1]), node("ReduceSum", "x one", "c"),
                           node("Concat", "a b c", axis=1)], {"one": numpy.array([1])}),
    "resize": (IMAGE, [helper.make_node("Resize", ["x", "", "s"], ["a"], mode="nearest", nearest_mode="floor",
                                                      coordinate_transformation_mode="asymmetric"),
                       helper.make_node("Resize", ["a", "", "h"], ["y"], mode="linear")],
               {"s": numpy.float32([1, 1, 2, 3]), "h": numpy.float32([1, 1, .5, 2])}),
    "upsample": (IMAGE, [node("Upsample", "x s")], {"s": numpy.float32([1, 1, 4, 3]), "opset": 9}),
    "normalizations": (IMAGE, chain(("InstanceNormalization", "a b", {}), ("BatchNormalization", "a b b a", {"momentum": .7}),
                                    ("LayerNormalization", "c d", {"axis": -1}), ("LayerNormalization", "e", {"axis": 2})),
                       {"e": value(6, 6, 5), "a": value(1, 3), "b": value(2, 3), "c": value(3, 5), "d": value(4, 5)}),
    "layer norm, written out": (STEPS, NORM, {"two": numpy.float32(2), "e": numpy.float32(1e-3), "s": value(1, 6), "t": value(2, 6)}),
    "softplus of PyTorch": (FLAT, [node("Softplus", "x", "s"), node("Greater", "x t", "g"), node("Where", "g x s")],
                            {"t": numpy.float32(20)}),
    "softmax": (IMAGE, chain(("Softmax", "", {"axis": 1}), ("Softmax", "", {})), {}),
    "parts": (IMAGE, [node("Conv", "x w", "c"), node("Split", "c sizes", "a b", axis=1), node("Sigmoid", "b", "g"), node("Mul", "a g")],
              {"w": W, "sizes": numpy.array([2, 2])}),
    "joined and parted": (IMAGE, [node("Relu", "x", "a"), node("Concat", "x a", "c", axis=1), node("Slice", "c from to one", "b"),
                                  node("Mul", "b b")],
                          {"from": numpy.array([3]), "to": numpy.array([6]), "one": numpy.array([1])}),
    "first and last": (IMAGE, [node("Slice", "x zero big three two", "a"), node("ReduceMean", "a", "b", axes=[3], keepdims=0),
                               node("Gather", "x minus", "c", axis=3), node("Concat", "b c", "d", axis=1),
                               node("Gather", "x start", "e", axis=1), node("Concat", "d e", axis=2)],
                       {"zero": numpy.array([0]), "big": numpy.array([1 << 40]), "three": numpy.array([3]), "two": numpy.array([2]),
                        "minus": numpy.array(-1), "start": numpy.array(0)}),
    "a token before steps": (STEPS, [node("Shape", "x", "s"), node("Slice", "s zero one", "n"), node("Concat", "n t", "q", axis=0),
                                     node("Expand", "token q", "e"), node("Concat", "e x", "a", axis=1), node("Gather", "a first", axis=1)],
                             {"zero": numpy.array([0]), "one": numpy.array([1]), "t": numpy.array([1, 6]), "token": value(1, 1, 1, 6),
                              "first": numpy.array(0)}),
    "broadcast": (IMAGE, [node("ReduceMean", "x", "m", axes=[1]), node("Expand", "m s", "e"), node("Sub", "x e")],
                  {"s": numpy.array([1, 3, 6, 5])}),
    "lstm of steps": (STEPS, [node("Transpose", "x", "t", perm=[1, 0, 2]), node("LSTM", "t w r b", "s h", hidden_size=3),
                              node("Squeeze", "h zero", "y")],
                      {"w": value(1, 1, 12, 6), "r": value(2, 1, 12, 3), "b": value(3, 1, 24), "zero": numpy.array([0])}),
    "gru of steps": (STEPS, [node("Transpose", "x", "t", perm=[1, 0, 2]), node("GRU", "t w r b", "s", hidden_size=3, linear_before_reset=1),
                             node("Squeeze", "s one", "q"), node("Transpose", "q", "y", perm=[1, 0, 2])],
                     {"w": value(1, 1, 9, 6), "r": value(2, 1, 9, 3), "b": value(3, 1, 18), "one": numpy.array([1])}),
    "attention": (STEPS, [node("MatMul", "x w", "d"), node("Split", "d", "q k v", axis=2),
                          *(node("Reshape", f"{i} heads", f"{i}h") for i in "qkv"),
                          node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]), node("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
                          node("Transpose", "vh", "vt", perm=[0, 2, 1, 3]), node("MatMul", "qt kt", "p"), node("Div", "p root", "c"),
                          node("Add", "c mask", "m"), node("Softmax", "m", "a"), node("MatMul", "a vt", "o"),
                          node("Transpose", "o", "ot", perm=[0, 2, 1, 3]), node("Reshape", "ot rows", "y")],
                  {"w": value(1, 6, 12), "heads": numpy.array([0, 0, 2, 2]), "root": numpy.float32(1.3), "rows": numpy.array([0, 0, 4]),
                   "mask": numpy.triu(numpy.full((4, 4), -numpy.inf, "f4"), 1)}),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("batch", ["n", 1])
def test_operators_of_other_programs(kind, batch, context, tmp_path):
    x, nodes, constants = MODELS[kind]
    path = model_file(tmp_path / "m.onnx", nodes, x, batch=batch, **constants)
    imported(path, context, given={"x": numpy.random.default_rng(5).standard_normal((1 if batch == 1 else 3, *x)).astype("f4")})


GRU = {"w": value(1, 1, 9, 3), "r": value(2, 1, 9, 3), "zero": numpy.array([0]), "first": numpy.array(0)}


def gru(name):
    return helper.make_node("GRU", ["t", "w", "r", "", "", "h1"], ["", name], name=name, hidden_size=3, linear_before_reset=1)


def test_a_network_of_which_all_outputs_are_next_states(context, tmp_path):
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Unsqueeze", "h0 zero", "h1"), gru("h"),
             node("Squeeze", "h zero")]
    model = imported(model_file(tmp_path / "m.onnx", nodes, (5, 3), inputs={"h0": (3,)}, **GRU), context)
    assert list(model.inputs) == ["x"] and list(model.outputs) == ["y"]


@pytest.mark.parametrize("which", ["data", "two", "read elsewhere"])
def test_states_that_are_more_are_refused(which, tmp_path):
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Gather", "x first", "d", axis=1) if which == "data" else
             node("Identity", "h0", "d"), node("Unsqueeze", "d zero", "h1"), gru("h"), gru("k"),
             node("Add", {"two": "h k", "data": "h h", "read elsewhere": "h h0"}[which])]
    path = model_file(tmp_path / "m.onnx", nodes, (5, 3), inputs={"h0": (3,)}, **GRU)
    name = "x" if which == "data" else "h0"
    with pytest.raises(keelson.InputError, match=f"GRU 'h': its first state h1 comes from the input {name}. Expected"):
        keelson.from_onnx(path)


def test_limits_of_large_values(context, tmp_path):
    given = {"x": numpy.float32([[1e9, -1e9, .3], [numpy.inf, -numpy.inf, 7.25]])}
    for low, high in ((0, 6), (-1, 1), (2, 1)):
        path = model_file(tmp_path / "m.onnx", [node("Clip", "x a b")], (3,), a=numpy.float32(low), b=numpy.float32(high))
        imported(path, context, given)


def fold(path):
    """A file that reads the shape of its input, with all kinds of constant nodes."""
    return model_file(path, [node("Constant", "", "c", value_floats=[2.0, 2.0]), node("Cast", "half", "h", to=TensorProto.FLOAT),
                             node("Mul", "w h", "v"), node("Transpose", "v", "t", perm=[1, 0]), node("Gemm", "x t k", "a"),
                             node("Dropout", "a", "b"), node("Mul", "b c")], (6,),
                      w=value(1, 2, 6), half=numpy.float64(.5), k=value(2, 2))


def test_computed_weights(context, tmp_path):
    model = imported(fold(tmp_path / "m.onnx"), context)
    assert list(model.graph.parameters) == ["gemm.a/weights", "gemm.a/bias", "mul.y/weights"]


def test_a_network_is_trained_on_with_another_head(context, tmp_path):
    def build():
        graph = keelson.Graph("first")
        h = layers.batch_norm(layers.conv(graph.input("x", (1, 8, 8)), 6, name="conv1"), name="norm1")
        h = layers.dense(layers.flatten(layers.max_pool(layers.relu(h), 2)), 12, name="hidden")
        graph.output("logits", layers.dense(layers.gelu(h, name="features"), 5, name="head"))
        return graph
    file = tmp_path / "first.onnx"
    exported(build, file, context)
    random = numpy.random.default_rng(1)
    y = random.integers(0, 2, 128).astype("i4")
    x = (random.standard_normal((128, 1, 8, 8)) + y[:, None, None, None]).astype("f4")

    model = keelson.from_onnx(file, outputs="features")
    logits = layers.dense(model["features"], 2, name="new")
    model.graph.output("logits", logits)
    layers.cross_entropy(logits, model.graph.input("y", (), "int32"))
    parameters = model.parameters(context, seed=2)
    trainer = keelson.Trainer(parameters, {"x": x, "y": y}, epochs=6, batch=16, learning_rate=3e-3)

    assert "head/weights" not in parameters and model["features"].shape == (1, 12)
    assert numpy.array_equal(parameters["conv1/weights"], model.weights["conv1/weights"])
    history = trainer.run(progress=False)
    assert history["loss"][-1] < .5 * history["loss"][0]
    assert not numpy.array_equal(parameters["conv1/weights"], model.weights["conv1/weights"])
    keelson.export_onnx(parameters, tmp_path / "second.onnx")
    imported(tmp_path / "second.onnx", context)


def test_the_guide_shows_what_runs():
    here = pathlib.Path(__file__)
    guide = (here.parents[2] / "docs/onnx.md").read_text()
    blocks = re.findall(r"^```python run by python/tests/test_onnx_import.py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1 and blocks[0] in re.sub("^    ", "", here.read_text(), flags=re.MULTILINE)


def test_gradients_pass_through_what_operators_become(context, tmp_path):
    """Parts, repetitions and joined constants: a network in which all parameters change when it is trained."""
    nodes = [node("Conv", "x w", "c"), node("Split", "c sizes", "a b", axis=1), node("Sigmoid", "b", "g"), node("Mul", "a g", "m"),
             helper.make_node("Resize", ["m", "", "s"], ["u"], mode="nearest", nearest_mode="floor",
                              coordinate_transformation_mode="asymmetric"),
             node("Add", "u v", "p"), node("Gather", "p last", "q", axis=3), node("Flatten", "q", "f"), node("Gemm", "f k")]
    path = model_file(tmp_path / "m.onnx", nodes, w=value(1, 4, 3, 3, 3), sizes=numpy.array([2, 2]), v=value(2, 2, 1, 1),
                      s=numpy.float32([1, 1, 2, 3]), last=numpy.array(-1), k=value(3, 16, 1))
    model = imported(path, context)
    layers.mse(model["y"], model.graph.input("t", (1,)))
    parameters = model.parameters(context)
    data = {"x": numpy.random.default_rng(1).standard_normal((8, 3, 6, 5)).astype("f4"), "t": numpy.zeros((8, 1), "f4")}
    keelson.Trainer(parameters, data, epochs=1, batch=8).run(progress=False)
    assert all((parameters[name] != values).any() for name, values in model.weights.items()), list(model.weights)


def test_inner_values_and_inputs(context, tmp_path):
    path = model_file(tmp_path / "m.onnx", chain(("Relu", "", {}), ("Conv", "stem.weight", {}), ("LogSoftmax", "", {"axis": 1})),
                      **{"stem.weight": W})
    with pytest.raises(keelson.InputError, match=r"LogSoftmax 'LogSoftmax2': .*outputs=\['v1'\]"):
        keelson.from_onnx(path)
    model = keelson.from_onnx(path, outputs=["v1", "v0"])
    assert model.graph.outputs == ["v1", "v0"] and model.graph.inputs == {"x": ((3, 6, 5), "float32")}
    assert list(model.weights) == ["stem/weights"] and "v1" in repr(model)
    with pytest.raises(keelson.InputError, match="no value 'v'. Similar: v"):
        keelson.from_onnx(path, outputs="v")
    with pytest.raises(keelson.UnknownName, match="no input or output 'v7'. Expected one of: x, v1, v0"):
        model["v7"]
    wide = model_file(tmp_path / "wide.onnx", [node("GlobalAveragePool", "x")], (3, "rows", "columns"))
    with pytest.raises(keelson.InputError, match=r"shapes=\{'x': \(3, \?, \?\)\}"):
        keelson.from_onnx(wide)
    assert keelson.from_onnx(wide, shapes={"x": (3, 4, 7)})["x"].shape == (1, 3, 4, 7)
    for shape in ((3, 4), (5, 4, 4), (3, 0, 4), 3, ("a", 4, 4)):
        with pytest.raises(keelson.InputError, match=r"for the input x. Expected positive whole numbers: .3, \?, \?.$"):
            keelson.from_onnx(wide, shapes={"x": shape})
    with pytest.raises(keelson.InputError, match="names 'z', but the inputs are x"):
        keelson.from_onnx(wide, shapes={"x": (3, 4, 7), "z": (1,)})


REFUSED = {
    "Mul 'mul.y': computes with whole numbers .x.": ([node("Mul", "x two")], {"two": numpy.int64(2)}),
    "Softmax 'softmax.y': of products of two values. It is supported once": (
        [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "m"), node("Softmax", "m", "s"), node("Softmax", "s")], {}),
    "Einsum 'einsum.y': this operator is not supported .*outputs=": ([node("Einsum", "x x", equation="nchw,nchw->n")], {}),
    "MaxPool 'maxpool.y': dilations are .2, 2.. Expected 1": (
        [node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 2])], {}),
    "Conv 'conv.y': weights of the shape .4, 2, 3, 3. in 1 groups for samples of .3, 6, 5.": (
        [node("Conv", "x w")], {"w": value(1, 4, 2, 3, 3)}),
    "Conv 'conv.y': its weights depend on the inputs": ([node("Conv", "x x")], {}),
    "Transpose.*|Relu 'relu.y'|the output y: the batch is not the first axis": ([node("Transpose", "x", perm=[1, 0, 2, 3])], {}),
    "Reshape 'reshape.y': the shape .N, 3, 6, 5. of a batch cannot become .* without mixing samples": (
        [node("Reshape", "x s")], {"s": numpy.array([3, -1, 6, 5])}),
    "MatMul.*|Relu 'relu.y': reads products of two values. These are supported only in attention": (
        [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "m"), node("Relu", "m")], {}),
    "Relu 'relu.y': a Pad before it": ([node("Pad", "x p", "a"), node("Relu", "a")], {"p": numpy.array([0, 0, 1, 1, 0, 0, 1, 1])}),
    "Resize.*mode 'cubic'": ([helper.make_node("Resize", ["x", "", "s"], ["y"], mode="cubic")], {"s": numpy.float32([1, 1, 2, 2])}),
    "Slice 'slice.y': the engine has no layer that chooses this part": (
        [node("Slice", "x a b c")], {"a": numpy.array([1]), "b": numpy.array([2]), "c": numpy.array([1])}),
    "BatchNormalization 'batchnormalization.y': training_mode is 1": (
        [node("BatchNormalization", "x w w w w", training_mode=1)], {"w": value(1, 3)}),
    "InstanceNormalization.*: its scale has 2 values. Expected one for each of 3 channels": (
        [node("InstanceNormalization", "x w w")], {"w": value(1, 2)}),
    "_GroupNorm 'add.y': scale or shift of the shape .3, 1, 1, 1. behind group normalization of samples of .3, 6, 5.": (
        [node("Reshape", "x g", "a"), node("InstanceNormalization", "a o z", "b"), node("Shape", "x", "s"),
         node("Reshape", "b s", "c"), node("Mul", "c w", "d"), node("Add", "d w")],
        {"g": numpy.array([0, 3, -1]), "o": numpy.ones(3, "f4"), "z": numpy.zeros(3, "f4"), "w": value(1, 3, 1, 1, 1)}),
    "Div 'div.y': reads b, which is computed from the number of samples": (
        [node("Shape", "x", "s"), node("Gather", "s i", "a"), node("Cast", "a", "b", to=1), node("Div", "x b")],
        {"i": numpy.array(0)}),
    "Add 'add.y': values of the shapes .N, 3, 6, 5. and .4, 1, 1, 1. do not": ([node("Add", "x c")], {"c": value(1, 4, 1, 1, 1)}),
    "MaxPool 'maxpool.y': strides are .4, 1.. Expected": ([node("MaxPool", "x", kernel_shape=[3, 2], strides=[4, 1])], {}),
    "the output y: its first axis is not the batch .its shape is .1, N, 3, 6, 5.": (
        [node("Pow", "x c")], {"c": value(1, 1, 1, 1, 1, 1)}),
    "Gather 'gather.y': the engine has no layer that": ([node("Gather", "x i", axis=2)], {"i": numpy.array([0, 0])}),
    "Concat 'concat.y': it joins samples, or values such as .N.18, 5. that have no axis for": (
        [node("Reshape", "x s", "a"), node("Concat", "a a", axis=0)], {"s": numpy.array([-1, 5])}),
    "Gemm.*: multiplies 90 features by weights for 7": ([node("Flatten", "x", "f"), node("Gemm", "f w")], {"w": value(1, 7, 2)}),
    "ConvTranspose.*: output_shape is not supported": (
        [node("ConvTranspose", "x w", output_shape=[9, 9])], {"w": value(1, 3, 2, 3, 3)}),
    "com.example.Thing 'thing.y': this operator is not supported": (
        [helper.make_node("Thing", ["x"], ["y"], name="thing.y", domain="com.example")], {}),
    "Relu 'relu.y': the attribute slope is not supported": ([node("Relu", "x", slope=2.0)], {}),
    "LSTM 'lstm.y': direction is reverse. Expected forward": (
        [node("Reshape", "x s", "q"), node("Transpose", "q", "t", perm=[1, 0, 2]),
         node("LSTM", "t w r", hidden_size=2, direction="reverse")], {"s": numpy.array([-1, 3, 30]), "w": value(1, 1, 8, 30), "r": value(2, 1, 8, 2)}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_supported_is_refused_in_one_line(message, tmp_path):
    nodes, constants = REFUSED[message]
    dtype = TensorProto.INT64 if "whole" in message else TensorProto.FLOAT
    path = model_file(tmp_path / "m.onnx", nodes, dtype=dtype, **constants)
    with pytest.raises(keelson.InputError, match=message) as found:
        keelson.from_onnx(path)
    assert "\n" not in str(found.value) and str(found.value).startswith(str(path))


def test_files_that_are_none(tmp_path, monkeypatch):
    with pytest.raises(keelson.InputError, match="none.onnx: there is no such file"):
        keelson.from_onnx(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(keelson.InputError, match="is not a readable ONNX file"):
        keelson.from_onnx(tmp_path / "text.onnx")
    path = model_file(tmp_path / "bytes.onnx", [node("Relu", "x")], dtype=TensorProto.UINT8)
    with pytest.raises(keelson.InputError, match="the input x is uint8. Expected float or int"):
        keelson.from_onnx(path)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(keelson.Error, match="needs the package onnx"):
        keelson.from_onnx(path)
