"""Groups of ONNX operators that are one layer of the engine, joined to one node."""

import math

import numpy

__all__ = ["join"]


class _Finder:
    def __init__(self, reader):
        self.reader = reader
        self.refresh()

    def refresh(self):
        self.reader.nodes = self.reader.needed(self.reader.wanted)
        self.made = {o: n for n in self.reader.nodes for o in n.outputs if o}
        self.readers = {}
        for node in self.reader.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)

    def maker(self, name, *kinds):
        node = self.made.get(name)
        return node if node is not None and node.op in kinds else None

    def reader_of(self, name, *kinds):
        """The only node that reads the value, if it is of one of these kinds."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and readers[0].op in kinds and name not in self.reader.wanted else None

    def array(self, name):
        return self.reader.constant(name)

    def scalar(self, name):
        array = self.array(name)
        return float(array.ravel()[0]) if array is not None and array.size == 1 and array.dtype.kind == "f" else None

    def operand(self, node, name):
        """The other input of a node of two."""
        return node.inputs[1] if node.inputs[0] == name else node.inputs[0]

    def by_scalar(self, node):
        """(value, factor) of a Mul or Div with a scalar, else (None, None)."""
        if node is None or node.op not in ("Mul", "Div"):
            return None, None
        a, b = node.inputs
        if (factor := self.scalar(b)) is not None:
            return a, factor if node.op == "Mul" else 1 / factor
        if node.op == "Mul" and (factor := self.scalar(a)) is not None:
            return b, factor
        return None, None

    def vector(self, node, name, op):
        """(constant's name, node) if `node` adds or multiplies the value by a constant of more than one element."""
        if node is None or node.op != op or name not in node.inputs:
            return None
        other = self.operand(node, name)
        array = self.array(other)
        return other if array is not None and array.dtype.kind == "f" else None

    def replace(self, last, op, inputs, **attributes):
        """The node that makes the result becomes one node of this kind; what it read is left out where nothing reads it."""
        at = self.reader.nodes.index(last)
        kind = type(last)
        self.reader.nodes[at] = kind(op, last.name, inputs, last.outputs[:1], attributes, last.proto)
        self.refresh()


def _near(a, b):
    return a is not None and abs(a - b) <= 1e-4 * abs(b)


def _gelu(f, erf):
    x, factor = f.by_scalar(f.made.get(erf.inputs[0]))
    add = f.reader_of(erf.outputs[0], "Add")
    if not _near(factor, math.sqrt(.5)) or add is None or not _near(f.scalar(f.operand(add, erf.outputs[0])), 1):
        return
    mul = f.reader_of(add.outputs[0], "Mul")
    if mul is None:
        return
    other = f.operand(mul, add.outputs[0])
    inner, half = f.by_scalar(f.made.get(other))
    if inner == x and _near(half, .5):
        return f.replace(mul, "Gelu", [x])
    last = f.reader_of(mul.outputs[0], "Mul", "Div")
    if last is None:
        return
    if other == x and _near(f.by_scalar(last)[1], .5):
        return f.replace(last, "Gelu", [x])
    if _near(f.scalar(other), .5) and f.operand(last, mul.outputs[0]) == x and last.op == "Mul":
        return f.replace(last, "Gelu", [x])


def _silu(f, sigmoid):
    x = sigmoid.inputs[0]
    mul = f.reader_of(sigmoid.outputs[0], "Mul")
    if mul is not None and f.operand(mul, sigmoid.outputs[0]) == x:
        f.replace(mul, "Silu", [x])


def _softplus(f, softplus):
    """PyTorch's Where(x > 20, x, Softplus(x)): the branches are the same in float32."""
    x = softplus.inputs[0]
    where = f.reader_of(softplus.outputs[0], "Where")
    greater = f.maker(where.inputs[0], "Greater") if where is not None else None
    if greater is not None and greater.inputs[0] == x == where.inputs[1] and (f.scalar(greater.inputs[1]) or 0) >= 17:
        f.replace(where, "Softplus", [x])


def _mean_of_squares(f, root):
    """(value whose squares are averaged along the last axis, epsilon) below a Sqrt, or None."""
    add = f.maker(root.inputs[0], "Add")
    if add is None:
        return None
    for name, other in (add.inputs, add.inputs[::-1]):
        mean, epsilon = f.maker(name, "ReduceMean"), f.scalar(other)
        if mean is None or epsilon is None:
            continue
        square = f.maker(mean.inputs[0], "Mul", "Pow")
        axes = mean.get("axes") if len(mean.inputs) < 2 else f.array(mean.inputs[1])
        if square is None or axes is None or len(axes) != 1 or mean.get("keepdims", 1) != 1:
            continue
        x, y = square.inputs
        if (square.op == "Mul" and x == y) or (square.op == "Pow" and _near(f.scalar(y), 2)):
            return x, epsilon, int(numpy.ravel(axes)[0])
    return None


def _is_row(array):
    """Whether a constant has one value for each element of the last axis."""
    return array.ndim > 0 and array.size == array.shape[-1] > 1


def _norm(f, root):
    found = _mean_of_squares(f, root)
    if found is None:
        return
    x, epsilon, axis = found
    divided = f.reader_of(root.outputs[0], "Div", "Reciprocal")
    if divided is not None and divided.op == "Reciprocal":
        divided = f.reader_of(divided.outputs[0], "Mul")
    if divided is None or x not in divided.inputs or (divided.op == "Div" and divided.inputs[0] != x):
        return
    mul = f.reader_of(divided.outputs[0], "Mul")
    scale = f.vector(mul, divided.outputs[0], "Mul")
    if scale is None or not _is_row(f.array(scale)):
        return
    minus = f.maker(x, "Sub")
    if minus is None:
        return f.replace(mul, "_RowNorm", [x, scale], axis=axis, epsilon=epsilon)
    mean = f.maker(minus.inputs[1], "ReduceMean")
    if mean is None or mean.inputs[0] != minus.inputs[0] or mean.get("keepdims", 1) != 1:
        return
    axes = mean.get("axes") if len(mean.inputs) < 2 else f.array(mean.inputs[1])
    add = f.reader_of(mul.outputs[0], "Add")
    shift = f.vector(add, mul.outputs[0], "Add")
    if axes is None or [int(a) for a in axes] != [axis] or shift is None or not _is_row(f.array(shift)):
        return
    f.replace(add, "_RowNorm", [minus.inputs[0], scale, shift], axis=axis, epsilon=epsilon)


def _group_norm(f, norm):
    before = f.maker(norm.inputs[0], "Reshape")
    ones, zeros = f.array(norm.inputs[1]), f.array(norm.inputs[2])
    after = f.reader_of(norm.outputs[0], "Reshape")
    if before is None or after is None or ones is None or zeros is None or (ones != 1).any() or (zeros != 0).any():
        return
    target = f.array(before.inputs[1])
    shape = f.maker(after.inputs[1], "Shape")
    back = f.array(after.inputs[1])
    x, groups = before.inputs[0], ones.size
    if target is None or target.size < 3 or target[1] != groups or (back is None and (shape is None or shape.inputs[0] != x)):
        return
    mul = f.reader_of(after.outputs[0], "Mul")
    scale = f.vector(mul, after.outputs[0], "Mul")
    add = f.reader_of(mul.outputs[0], "Add") if mul is not None else None
    shift = f.vector(add, mul.outputs[0], "Add") if mul is not None else None
    if scale is None or shift is None or f.array(scale).size != f.array(shift).size:
        return
    f.replace(add, "_GroupNorm", [x, scale, shift], groups=int(groups), epsilon=norm.get("epsilon", 1e-5),
              back=None if back is None else [int(n) for n in back])


def _bias(f, node):
    """MatMul with a constant, or a convolution without bias, and an Add: one node."""
    weights = f.array(node.inputs[1]) if len(node.inputs) > 1 else None
    if weights is None:
        return
    add = f.reader_of(node.outputs[0], "Add")
    bias = f.vector(add, node.outputs[0], "Add")
    if bias is None:
        return
    array = f.array(bias)
    if node.op == "MatMul":
        if weights.ndim != 2 or array.ndim < 1 or array.shape[-1] != weights.shape[1] or array.size != weights.shape[1]:
            return
        return f.replace(add, "_Dense", [*node.inputs, bias])
    filters = weights.shape[0] if node.op == "Conv" else weights.shape[1] * (node.get("group", 1))
    spatial = weights.ndim - 2
    channel = array.ndim - spatial - 1
    if node.has_input(2) or array.size != filters or channel < 0 or array.shape[channel] != filters:
        return
    f.replace(add, node.op, [*node.inputs[:2], bias], **node.attributes)


def _affine(f, mul):
    """x times a constant vector, plus another of the same shape."""
    x = next((i for i in mul.inputs if f.array(i) is None), None)
    scale = f.vector(mul, x, "Mul") if x is not None else None
    if scale is None or f.array(scale).size == 1:
        return
    add = f.reader_of(mul.outputs[0], "Add")
    shift = f.vector(add, mul.outputs[0], "Add")
    if shift is not None and f.array(shift).shape == f.array(scale).shape:
        f.replace(add, "_Affine", [x, scale, shift])


_PATTERNS = {"Erf": _gelu, "Sigmoid": _silu, "Softplus": _softplus, "Sqrt": _norm,
             "InstanceNormalization": _group_norm, "MatMul": _bias, "Conv": _bias, "ConvTranspose": _bias}


def join(reader):
    finder = _Finder(reader)
    for node in list(reader.nodes):
        if node.op in _PATTERNS and node in reader.nodes:
            _PATTERNS[node.op](finder, node)
    for node in list(reader.nodes):
        if node.op == "Mul" and node in reader.nodes:
            _affine(finder, node)
