"""What each ONNX operator becomes. A handler takes the reader and a node, and returns the values of its results."""

import math

import numpy

from .._engine import layers
from .elements import ELEMENTS
from .norms import NORMS
from .recurrent import RECURRENT
from .shapes import SHAPES, gathered
from .values import Refused, Scores, Source, Value, ordered, rows_of, sample_of, text_of, weights_of, with_features
from .windows import WINDOWS

__all__ = ["HANDLERS"]


def _dense(reader, node, x, weights, bias, label):
    """A dense layer, made when it is read: a part of its features may be all that is read. weights: (features, in).
    label: (name of the constant, whether it is (features, in) in the file), or None: layers of one label share weights."""
    if x.shape[-1] != weights.shape[1]:
        raise Refused(f"multiplies {x.shape[-1]} features by weights for {weights.shape[1]}")
    var, axes, atoms = rows_of(x)

    def make(chosen=None):
        shared = reader.shared.get(label)
        name = reader.node_name(node, label[0] if label and not (shared and chosen is None) else "")
        w, b = (a if chosen is None or a is None else a[chosen] for a in (weights, bias))
        reuse = shared if chosen is None and shared else ""
        result = layers.dense(var, len(w), bias=bias is not None, weights_of=reuse, name=name)
        if not reuse:
            reader.set(name, weights=w)
            if chosen is None and label:
                reader.shared[label] = name
        if bias is not None:
            reader.set(name, bias=b)
        return result

    def source(chosen=None):
        def take(indices):
            return source(indices if chosen is None else chosen[indices])
        return Source(lambda: make(chosen), take, len(weights) if chosen is None else len(chosen), last=True)
    return with_features(source(), axes, atoms, len(weights))


def _gemm(reader, node):
    if node.get("transA", 0):
        raise Refused("transA is 1. Expected 0")
    w, bias = weights_of(reader, node, 1, "weights"), None
    weights = w * numpy.float32(node.get("alpha", 1.0)) if node.get("alpha", 1.0) != 1 else w
    beta = node.get("beta", 1.0)
    if not node.get("transB", 0):
        weights = weights.T
    if node.has_input(2) and beta != 0:
        bias = weights_of(reader, node, 2, "bias") * numpy.float32(beta)
        if bias.size not in (1, len(weights)) or bias.size > 1 and bias.shape[-1] != bias.size:
            raise Refused(f"its bias has the shape {bias.shape}. Expected {(len(weights),)}")
        bias = numpy.broadcast_to(bias.ravel(), (len(weights),))
    label = (reader.root(node.inputs[1]), node.get("transB", 0) == 1) if node.get("alpha", 1.0) == 1 else None
    return _dense(reader, node, reader.value(node.inputs[0]), weights, bias, label)


def _with_bias(reader, node):
    w, bias = weights_of(reader, node, 1, "weights"), weights_of(reader, node, 2, "bias").ravel()
    x = reader.value(node.inputs[0])
    if reader.constant(node.inputs[2]).ndim > len(x.shape):
        raise Refused(f"adds a constant of more axes than the value of the shape {x.shape[1:]} has")
    return _dense(reader, node, x, w.T, bias, (reader.root(node.inputs[1]), False))


def _matmul(reader, node):
    left, right = (reader.raw(name) for name in node.inputs)
    if isinstance(left, numpy.ndarray):
        raise Refused("a constant times a value. Expected the value first")
    if isinstance(right, numpy.ndarray):
        if right.ndim != 2:
            raise Refused(f"weights of {right.ndim} axes. Expected 2")
        return _dense(reader, node, reader.value(node.inputs[0]), right.T, None,
                      (reader.root(node.inputs[1]), False))
    if isinstance(left, Scores):
        return _attention(reader, node, left, reader.value(node.inputs[1]))
    if isinstance(right, Scores) or left.pads is not None or right.pads is not None:
        reader.value(node.inputs[1]), reader.value(node.inputs[0])
    if left.shape[-1] != right.shape[-2]:
        raise Refused(f"multiplies matrices of {text_of(left.shape[-2:], reader.batch)} and "
                      f"{text_of(right.shape[-2:], reader.batch)}")
    return Scores(left, right, left.factor * right.factor)


def _steps_of_heads(value, steps, features, what):
    """(rows (N * steps, heads * width), heads, width), of a value of heads. steps, features: their axes."""
    v = value.normal()
    others = [a for i, axis in enumerate(v.axes) if i not in (steps, features) for a in axis]
    inner = [a for a in others if not a.batch]
    if v.atoms[1:] != v.axes[steps] + inner + v.axes[features] or not v.is_single and not others[:1] == v.atoms[:1]:
        raise Refused(f"attention whose {what} do not come from rows of features, divided into heads of neighbouring features")
    heads, width = (math.prod(a.size for a in part) for part in (inner, v.axes[features]))
    shape = (math.prod(a.size for a in v.axes[steps]), heads * width)
    var = v.var if tuple(v.var.shape) == shape else layers.flatten(v.var, features=shape[1])
    return var, heads, width, v


def _attention(reader, node, scores, values):
    if not scores.softmax:
        reader.value(node.inputs[0])
    rank = len(scores.shape)
    queries, heads, width, alike = _steps_of_heads(scores.queries, rank - 2, rank - 1, "queries")
    keys, key_heads, _, _ = _steps_of_heads(scores.keys, rank - 1, rank - 2, "keys")
    found, value_heads, value_width, _ = _steps_of_heads(values, len(values.axes) - 2, len(values.axes) - 1, "values")
    if not heads == key_heads == value_heads or width != value_width:
        raise Refused(f"attention with {heads} heads of {width} features for queries, and {value_heads} of {value_width} for "
                      "values. Expected the same")
    correction = scores.factor * math.sqrt(width)
    if abs(correction - 1) > 1e-5:
        queries = layers.scale(queries, correction)
    result = layers.attention(queries, keys, found, heads, causal=scores.causal, name=reader.node_name(node))
    return Value(result, alike.atoms, alike.axes)


def _softmax(reader, node):
    value = reader.raw(node.inputs[0])
    axis = node.get("axis", -1 if reader.opset >= 13 else 1)
    axis += len(value.shape) if axis < 0 else 0
    if reader.opset < 13 and axis != len(value.shape) - 1:
        raise Refused(f"axis {axis} of a value of {len(value.shape)} axes, in opset {reader.opset}. Expected the last axis; "
                      "export with opset 13 or later")
    if isinstance(value, Scores):
        if axis != len(value.shape) - 1 or value.softmax:
            raise Refused("of products of two values. It is supported once, along the last axis")
        return Scores(value.queries, value.keys, value.factor, value.causal, True)
    v = reader.value(node.inputs[0])
    name = reader.node_name(node)
    if axis == len(v.axes) - 1:
        rows, axes, atoms = rows_of(v)
        return with_features(layers.softmax(rows, name=name), axes, atoms, v.shape[-1])
    return Value.of(layers.softmax(sample_of(v), axis, name=name), v.shape)


def _log_softmax(reader, node):
    raise Refused("the engine's losses take logits. Import the network without it: outputs=['" + node.inputs[0] + "']")


def _embedding(reader, node):
    """Gather with a table and numbers that depend on the inputs."""
    table = reader.constant(node.inputs[0])
    v = reader.value(node.inputs[1], whole=True)
    if table.ndim != 2 or node.get("axis", 0) != 0:
        raise Refused(f"numbers that depend on the inputs, in a table of {table.ndim} axes. Expected 2 axes, and axis 0")
    if not v.source.whole:
        raise Refused("numbers of rows that are not an input of whole numbers")
    v = ordered(v)
    name = reader.node_name(node, reader.root(node.inputs[0]))
    found = layers.embedding(v.var, *table.shape, name=name)
    reader.set(name, weights=table)
    reader.shared.setdefault((reader.root(node.inputs[0]), True), name)
    return with_features(found, v.axes, v.atoms, table.shape[1])


# --- constants that are shapes

def _shape(reader, node):
    shape = numpy.asarray(reader.raw(node.inputs[0]).shape, dtype=numpy.int64)
    return shape[node.get("start", 0):node.get("end", len(shape))]


def _size(reader, node):
    return numpy.asarray(math.prod(reader.raw(node.inputs[0]).shape), dtype=numpy.int64)


def _gather(reader, node):
    return _embedding(reader, node) if reader.constant(node.inputs[0]) is not None else gathered(reader, node)


HANDLERS = {
    **ELEMENTS, **NORMS, **RECURRENT, **SHAPES, **WINDOWS, "Gemm": _gemm, "_Dense": _with_bias, "MatMul": _matmul,
    "Softmax": _softmax, "LogSoftmax": _log_softmax, "Gather": _gather, "Shape": _shape, "Size": _size}
