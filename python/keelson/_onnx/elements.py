"""ONNX operators that work element by element."""

import math

import numpy

from .._engine import layers
from .values import Refused, Scores, Value, broadcast, expanded, like_each_other, per_atom, weights_of

__all__ = ["ELEMENTS"]


def _alike(source, value):
    return Value(source, value.atoms, value.axes)


def _unary(layer, **options):
    def convert(reader, node):
        v = reader.value(node.inputs[0])
        given = {keyword: float(node.get(name, default)) for keyword, (name, default) in options.items()}
        return _alike(layer(v.var, *given.values(), name=reader.node_name(node)), v)
    return convert


def _gelu(reader, node):
    v = reader.value(node.inputs[0])
    kind = node.get("approximate", "none")
    if kind == "none":
        return _alike(layers.gelu(v.var, name=reader.node_name(node)), v)
    if kind != "tanh":
        raise Refused(f"approximate is '{kind}'. Expected 'none' or 'tanh'")
    x, root = v.var, math.sqrt(2 / math.pi)
    cube = layers.scale(layers.multiply([x, x, x]), root * 0.044715)
    wave = layers.tanh(layers.add([layers.scale(x, root), cube]))
    return _alike(layers.multiply([layers.scale(x, .5), layers.scale(wave, 1, 1)], name=reader.node_name(node)), v)


def _selu(reader, node):
    v = reader.value(node.inputs[0])
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return _alike(layers.scale(layers.elu(v.var, alpha), gamma, name=reader.node_name(node)), v)


def _celu(reader, node):
    v = reader.value(node.inputs[0])
    alpha = node.get("alpha", 1.0)
    return _alike(layers.scale(layers.elu(layers.scale(v.var, 1 / alpha)), alpha, name=reader.node_name(node)), v)


def _clipped(x, low, high, name=""):
    """x between the two numbers; either may be None. One relu after the other: with a difference of two, large values would
    cancel each other."""
    if low is not None:  # low + relu(x - low)
        x = layers.relu(x if low == 0 else layers.scale(x, 1, -low))
    low = low or 0
    if high is not None:  # high - relu(high - x)
        return layers.scale(layers.relu(layers.scale(x, -1, high - low)), -1, high, name=name)
    return x if low == 0 else layers.scale(x, 1, low, name=name)


def _clip(reader, node):
    v = reader.value(node.inputs[0])
    bounds = []
    for i, name in enumerate(("min", "max")):
        bound = node.get(name)
        if node.has_input(i + 1):
            array = weights_of(reader, node, i + 1, "bounds")
            bound = float(numpy.ravel(array)[0])
        bounds.append(None if bound is None or abs(bound) > 3e38 else float(bound))
    return _alike(_clipped(v.var, *bounds, name=reader.node_name(node)), v)


def _hard_sigmoid(reader, node):
    v = reader.value(node.inputs[0])
    return _alike(_clipped(layers.scale(v.var, node.get("alpha", .2), node.get("beta", .5)), 0, 1), v)


def _hard_swish(reader, node):
    v = reader.value(node.inputs[0])
    gate = _clipped(layers.scale(v.var, 1 / 6, .5), 0, 1)
    return _alike(layers.multiply([v.var, gate], name=reader.node_name(node)), v)


def _prelu(reader, node):
    v, slope = reader.value(node.inputs[0]), weights_of(reader, node, 1, "slopes")
    if slope.size > 1 and (slope != slope.ravel()[0]).any():
        raise Refused("its slopes differ between channels. Expected one slope")
    return _alike(layers.leaky_relu(v.var, float(slope.ravel()[0]), name=reader.node_name(node)), v)


def _widened(value, constant):
    """The value with as many axes as a constant of one element that it meets."""
    more = constant.ndim - len(value.axes)
    return value if more <= 0 else value.seen([[]] * more + value.axes)


def _power(exponent):
    def convert(reader, node):
        v = reader.value(node.inputs[0])
        return _alike(layers.power(v.var, exponent, name=reader.node_name(node)), v)
    return convert


def _neg(reader, node):
    return _scaled(reader, node, reader.raw(node.inputs[0]), -1)


def _pow(reader, node):
    v, power = reader.value(node.inputs[0]), weights_of(reader, node, 1, "powers")
    if power.size != 1:
        raise Refused(f"it has {power.size} powers. Expected one")
    return _alike(layers.power(v.var, float(power.ravel()[0]), name=reader.node_name(node)), _widened(v, power))


def _scaled(reader, node, value, factor):
    """The value times a number: it is only multiplied when a layer reads it."""
    if isinstance(value, Scores):
        if value.softmax or factor <= 0:
            raise Refused(f"multiplies products of two values by {factor}. In attention, expected a positive number before "
                          "Softmax")
        return Scores(value.queries, value.keys, value.factor * factor, value.causal)
    if not isinstance(value, Value) or value.pads is not None or value.source.whole:
        value = reader.value(node.inputs[0])
    return Value(value.source, value.atoms, value.axes, value.factor * factor)


def _mask(scores, mask):
    """Scores with what is added to them: nothing, or minus infinity for later steps."""
    steps, seen = scores.shape[-2:]
    if scores.softmax:
        raise Refused("adds to products of two values behind their Softmax")
    if (mask == 0).all():
        return scores
    mask = numpy.broadcast_to(mask, (*mask.shape[:-2], steps, seen)).reshape(-1, steps, seen)
    later = numpy.triu(numpy.ones((steps, seen), bool), 1)
    if steps != seen or (mask[:, ~later] != 0).any() or (mask[:, later] > -1e30).any():
        raise Refused("adds a mask to products of queries and keys that does not only hide later steps")
    return Scores(scores.queries, scores.keys, scores.factor, True)


def _affine_of(reader, node, value, scale, shift):
    """The value times a constant plus a constant, which broadcast to it: a convolution of one element per channel."""
    given = [c for c in (scale, shift) if c is not None]
    small = broadcast(*(c.shape for c in given))
    v = expanded(value, broadcast(value.shape, small, batch=reader.batch)).normal()
    first, end, scale_values = per_atom(v, numpy.broadcast_to(numpy.float32(1) if scale is None else scale, small))
    shift_values = None if shift is None else per_atom(v, numpy.broadcast_to(shift, small))[2]
    before, size, after = (math.prod(a.size for a in part) for part in (v.atoms[1:first], v.atoms[first:end], v.atoms[end:]))
    if before > 1 and after > 1:
        raise Refused("a constant along an axis in the middle of a sample. Expected the first axis or the last")
    x = v.var
    if before > 1:
        x = layers.flatten(layers.reshape(x, (before, size)), order="channels_last")
    x = layers.reshape(x, (size, before * after, 1))
    name = reader.node_name(node)
    x = layers.conv(x, size, 1, groups=size, bias=shift is not None, name=name)
    reader.set(name, weights=scale_values.reshape(size, 1, 1, 1))
    if shift is not None:
        reader.set(name, bias=shift_values.ravel())
    if before > 1:
        x = layers.flatten(layers.reshape(x, (size, before)), order="channels_last")
    return Value(x, v.atoms, v.axes)


def _affine(reader, node):
    scale, shift = (weights_of(reader, node, i, "constants") for i in (1, 2))
    return _affine_of(reader, node, reader.value(node.inputs[0]), scale, shift)


def _arithmetic(reader, node):
    """Add, Sub, Mul, Div, Sum."""
    constants = [reader.constant(name) for name in node.inputs]
    if all(c is None for c in constants):
        return _of_values(reader, node)
    if len(node.inputs) != 2:
        raise Refused("reads constants and values. Expected values alone")
    at = 0 if constants[1] is not None else 1
    c, value = constants[1 - at].astype(numpy.float32), reader.raw(node.inputs[at])
    if node.op == "Div":
        if at == 1:  # c / value
            v = reader.value(node.inputs[1])
            inverse = layers.power(v.var, -1)
            if c.size == 1:
                return _alike(layers.scale(inverse, float(c.ravel()[0]), name=reader.node_name(node)), _widened(v, c))
            return _affine_of(reader, node, _alike(inverse, v), c, None)
        c = 1 / c
    if isinstance(value, Scores):
        if node.op in ("Mul", "Div") and c.size == 1:
            return _scaled(reader, node, value, float(c.ravel()[0]))
        if node.op == "Add":
            return _mask(value, c)
        reader.value(node.inputs[at])
    if value.source.whole or value.pads is not None:
        reader.value(node.inputs[at])  # refuses
    if c.size == 1:
        number, value = float(c.ravel()[0]), _widened(value, c)
        if node.op in ("Mul", "Div"):
            return _scaled(reader, node, value, number)
        sign = -1.0 if node.op == "Sub" and at == 1 else 1.0
        offset = -number if node.op == "Sub" and at == 0 else number
        return _alike(layers.scale(value.var, sign * value.factor, offset, name=reader.node_name(node)), value)
    value = reader.value(node.inputs[at])
    if node.op in ("Mul", "Div"):
        return _affine_of(reader, node, value, c, None)
    if node.op == "Sub" and at == 1:
        return _affine_of(reader, node, value, numpy.full(1, -1, numpy.float32), c)
    return _affine_of(reader, node, value, None, -c if node.op == "Sub" else c)


def _of_values(reader, node):
    values = [reader.value(name) for name in node.inputs]
    if len(values) == 1:
        return values[0]
    shape = broadcast(*(v.shape for v in values), batch=reader.batch)
    values = [expanded(v, shape) for v in values]
    variables, alike = like_each_other(values)
    if node.op == "Sub":
        variables[1] = layers.scale(variables[1], -1)
    elif node.op == "Div":
        variables[1] = layers.power(variables[1], -1)
    layer = layers.multiply if node.op in ("Mul", "Div") else layers.add
    return _alike(layer(variables, name=reader.node_name(node)), alike)


def _extreme(reader, node):
    """Max and Min with a number."""
    if len(node.inputs) == 2:
        for name, other in (node.inputs, node.inputs[::-1]):
            c = reader.constant(other)
            if c is not None and c.size == 1:
                v, bound = reader.value(name), float(c.ravel()[0])
                return _alike(_clipped(v.var, *((bound, None) if node.op == "Max" else (None, bound))), _widened(v, c))
    raise Refused("expected one value and a number")


def _same(reader, node):
    return reader.raw(node.inputs[0])


def _cast(reader, node):
    kinds = reader.onnx.TensorProto
    value, to = reader.raw(node.inputs[0]), node.get("to")
    node.get("saturate"), node.get("round_mode")
    whole = isinstance(value, Value) and value.source.whole
    if to in ((kinds.INT32, kinds.INT64) if whole else (kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.BFLOAT16)):
        return value
    raise Refused(f"from {'whole numbers' if whole else 'float'} to {kinds.DataType.Name(to).lower()}")


def _dropout(reader, node):
    value, rate = reader.raw(node.inputs[0]), float(node.get("ratio", .5))
    node.get("seed"), node.get("is_test")
    if node.has_input(1):
        rate = float(weights_of(reader, node, 1, "rate").ravel()[0])
    if rate == 0 or isinstance(value, Scores):
        return value
    value = reader.value(node.inputs[0])
    return _alike(layers.dropout(value.var, rate, name=reader.node_name(node)), value)


ELEMENTS = {
    "Relu": _unary(layers.relu), "Tanh": _unary(layers.tanh), "Sigmoid": _unary(layers.sigmoid),
    "Softplus": _unary(layers.softplus), "LeakyRelu": _unary(layers.leaky_relu, slope=("alpha", .01)),
    "Elu": _unary(layers.elu, alpha=("alpha", 1.0)), "Silu": _unary(layers.silu), "Gelu": _gelu, "Selu": _selu, "Celu": _celu,
    "Clip": _clip, "HardSigmoid": _hard_sigmoid, "HardSwish": _hard_swish, "PRelu": _prelu, "Neg": _neg,
    "Abs": _unary(layers.abs), "Exp": _unary(layers.exp), "Log": _unary(layers.log), "Sqrt": _power(.5),
    "Reciprocal": _power(-1),
    "Pow": _pow, "Add": _arithmetic, "Sub": _arithmetic, "Mul": _arithmetic, "Div": _arithmetic, "Sum": _arithmetic,
    "Max": _extreme, "Min": _extreme, "Identity": _same, "Cast": _cast, "Dropout": _dropout, "_Affine": _affine}
