"""ONNX operators that change shapes, or choose parts of values."""

import math

import numpy

from .._engine import layers
from .values import (Atom, Refused, Source, Value, broadcast, clean_name, expanded, rows_of, sample_of,
                           text_of)
from .windows import axes_of

__all__ = ["SHAPES", "gathered"]


def _integers(reader, node, i, what):
    array = reader.constant(node.inputs[i]) if node.has_input(i) else None
    if array is None:
        raise Refused(f"its {what} depends on the inputs")
    return [int(n) for n in numpy.ravel(array)]


def _view(reader, node):
    """A value whose elements are only seen otherwise: its factor stays."""
    v = reader.raw(node.inputs[0])
    return v if isinstance(v, Value) and v.pads is None else reader.value(node.inputs[0])


def _reshape(reader, node):
    v = _view(reader, node)
    target = _integers(reader, node, 1, "shape") if len(node.inputs) > 1 else [int(n) for n in node.get("shape")]
    zero = node.get("allowzero", 0)
    shape = [v.shape[i] if n == 0 and not zero else n for i, n in enumerate(target)]
    for candidate in _with_batch(reader, v, shape):
        try:
            return v.reshaped(candidate, may_move=False)
        except Refused:
            pass
    shape = next(iter(_with_batch(reader, v, shape)), None)
    if shape is None:
        raise Refused(f"a value of the shape {text_of(v)} cannot become {target}" + (
            ", which does not grow with the batch. Export with an open batch (dynamic axes)" if reader.fixed_batch else ""))
    return v.reshaped(shape)


def _with_batch(reader, v, target):
    """The shapes that a Reshape can mean: in a file with a fixed batch, one of the numbers may count samples. All shapes that
    do not mix samples are the same for the file's batch, and so for each sample."""
    fixed, total = reader.fixed_batch, math.prod(v.shape)
    places = [None] if fixed in (None, 1) else [None, *range(len(target))]
    for place in places:
        shape = list(target)
        if place is not None:
            if shape[place] < 1 or shape[place] % fixed:
                continue
            shape[place] = shape[place] // fixed * reader.batch
        known = math.prod(n for n in shape if n != -1)
        if -1 in shape and known and total % known == 0:
            shape[shape.index(-1)] = total // known
        if math.prod(shape) == total:
            yield shape


def _flatten(reader, node):
    v = _view(reader, node)
    axis = node.get("axis", 1)
    axis += len(v.shape) if axis < 0 else 0
    return v.reshaped((math.prod(v.shape[:axis]), math.prod(v.shape[axis:])))


def _squeeze(reader, node):
    v = _view(reader, node)
    axes = axes_of(reader, node)
    chosen = [i for i, n in enumerate(v.shape) if n == 1] if axes is None else [a % len(v.shape) for a in axes]
    if any(v.shape[a] != 1 for a in chosen):
        raise Refused(f"axes {chosen} of the shape {text_of(v)} have more than one element")
    return v.seen([axis for i, axis in enumerate(v.axes) if i not in chosen])


def _unsqueeze(reader, node):
    v = _view(reader, node)
    axes = axes_of(reader, node)
    rank = len(v.shape) + len(axes)
    chosen, rest = {a % rank for a in axes}, list(v.axes)
    return v.seen([[] if i in chosen else rest.pop(0) for i in range(rank)])


def _transpose(reader, node):
    v = _view(reader, node)
    return v.transposed(node.get("perm", list(range(len(v.shape)))[::-1]))


def _expand(reader, node):
    v = reader.value(node.inputs[0])
    shape = _integers(reader, node, 1, "shape")
    fixed = reader.fixed_batch
    if shape and fixed == shape[0] and len(shape) == len(v.shape) and v.batch_axis == 0:
        shape[0] = v.shape[0]
    return expanded(v, broadcast(v.shape, tuple(shape), batch=reader.batch))


def _tile(reader, node):
    v = reader.value(node.inputs[0])
    counts = _integers(reader, node, 1, "counts")
    shape = [n * k for n, k in zip(v.shape, counts)]
    if any(n != 1 and k != 1 for n, k in zip(v.shape, counts)):
        raise Refused(f"it repeats axes of more than one element: {counts} times {v.shape[1:]}")
    return expanded(v, shape)


def _concat(reader, node):
    first = next(reader.value(name) for name in node.inputs if reader.constant(name) is None)
    values = [reader.value(n) if (c := reader.constant(n)) is None else _made(reader, c, first, n) for n in node.inputs]
    axis = node.get("axis") % len(first.shape)
    if len(values) == 1:
        return first
    if values[0].is_single and (values[0].batch_axis != 0 or axis == 0):
        found = _joined(reader, node, [v.seen([[], *v.axes]) for v in values], axis + 1)
        parts, found = found.parts, found.seen(found.axes[1:])
        found.parts = (axis, [v.seen(v.axes[1:]) for v in parts[1]])
        return found
    return _joined(reader, node, values, axis)


def _made(reader, constant, like, label):
    """A constant that is the same for all samples as a value: the bias of a dense layer whose input is 0."""
    if constant.shape[0] not in (like.shape[0], reader.fixed_batch) or (constant != constant[:1]).any():
        raise Refused(f"it joins a value and the constant {label}, which is not the same for each sample")
    x = layers.reshape(like.var, (1, math.prod(like.var.shape)))
    x = layers.scale(layers.average_pool(x, [x.shape[2]]), 0)
    name = reader.unique(clean_name(label))
    count = constant[0].size
    found = layers.dense(layers.flatten(x), count, name=name)
    reader.set(name, weights=numpy.zeros((count, 1)), bias=constant[0].ravel())
    return Value.of(found, (like.shape[0], *constant.shape[1:]))


def _joined(reader, node, values, axis):
    rank, shape = len(values[0].shape), list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    normal = [v.normal() for v in values]
    batch = normal[0].batch_axis
    rows = axis == rank - 1 and all(v.shape[:-1] == values[0].shape[:-1] for v in values) and _are_rows(values)
    if batch is None and not rows or batch == axis:
        raise Refused(f"it joins samples, or values such as {text_of(normal[0])} that have no axis for the batch alone")
    if rows:
        lead, last = rows_of(values[0])[1:], Atom(shape[-1])

        def joined():
            return layers.concat([rows_of(v)[0] for v in values], 1, name=reader.node_name(node))
        found = Value(Source(joined), [*lead[1], last], [*lead[0], [last]])
    else:
        order = [batch, *(i for i in range(rank) if i != batch)]
        values = [v.transposed(order) for v in values]
        back = [order.index(i) for i in range(rank)]

        def joined():
            return layers.concat([sample_of(v) for v in values], order.index(axis), name=reader.node_name(node))
        found = Value.of(Source(joined), [shape[i] for i in order]).transposed(back)
        values = [v.transposed(back) for v in values]
    found.parts = (axis, values)
    return found


def _are_rows(values):
    """Whether all are rows of features in memory, in the same order."""
    if len(values[0].shape) != 2 and any(len(v.var.shape) != 2 for v in values):
        return False
    normal = [v.normal() for v in values]
    places = []
    for v in normal:
        count = len(v.axes[-1])
        if not count or v.atoms[-count:] != v.axes[-1]:
            return False
        places.append(([[v.atoms.index(a) for a in axis] for axis in v.axes[:-1]], [a.size for a in v.atoms[:-count]]))
    return all(p == places[0] for p in places)


# --- parts of values

def _chosen(reader, node, name, axis, indices, keep=True):
    """The elements `indices` of an axis."""
    value = reader.raw(name)
    v = reader.value(name) if not isinstance(value, Value) or value.pads is not None else value
    size = v.shape[axis]
    indices = [i + size if i < 0 else i for i in indices]
    axes = list(v.axes)
    part = _one_part(v, axis, indices)
    if indices == list(range(size)):
        found = v
    elif part is not None:
        found = part
    else:
        found = _part(reader, v, axis, indices)
    if keep:
        return found
    return found.seen([a for i, a in enumerate(found.axes) if i != axis])


def _one_part(v, axis, indices):
    """The value of a Concat that has just these elements, or None."""
    at = 0
    for value in v.parts[1] if v.parts and v.parts[0] == axis else []:
        if indices == list(range(at, at + value.shape[axis])):
            return value
        at += value.shape[axis]
    return None


def _part(reader, v, axis, indices):
    n = v.normal()
    atoms, size = n.axes[axis], n.shape[axis]
    if any(a.batch for a in atoms):
        raise Refused("it chooses samples of the batch")
    first = n.atoms.index(atoms[0])
    if n.atoms[first:first + len(atoms)] == atoms:
        start, end = _channel_atoms(n)
        if start <= first and first + len(atoms) <= end:
            return _channels(n, axis, first, start, end, indices)
        if indices == [size - 1] and (first == 1 or first + len(atoms) == len(n.atoms)):
            return _last(_forced(n), axis, first)
        step = indices[1] - indices[0] if len(indices) > 1 else size
        if step > 0 and indices == list(range(0, size, step)) and (first == 1 or first + len(atoms) == len(n.atoms)):
            return _every(_forced(n), axis, first, step, len(indices))
    raise Refused("the engine has no layer that chooses this part of the value. It can choose channels of a convolution, "
                  "features of a dense layer, and the last or the first step of a sequence")


def _channel_atoms(v):
    """The range of the atoms that are the channels of the layer that makes the value; nothing if it has no such parts."""
    source, count = v.source, 1
    places = [] if source.take is None else range(len(v.atoms) - 1, 0, -1) if source.last else range(1, len(v.atoms))
    for place in places:
        count *= v.atoms[place].size
        if count == source.channels:
            return (place, len(v.atoms)) if source.last else (1, place + 1)
    return len(v.atoms), 0


def _channels(v, axis, first, start, end, indices):
    """Some channels: the layer with the weights of these."""
    width = len(v.axes[axis])
    numbers = numpy.arange(v.source.channels).reshape([a.size for a in v.atoms[start:end]])
    at = first - start
    numbers = numbers.reshape(*numbers.shape[:at], -1, *numbers.shape[at + width:])
    new = Atom(len(indices))
    return Value(v.source.take(numpy.take(numbers, indices, axis=at).ravel()),
                 [*v.atoms[:first], new, *v.atoms[first + width:]], [[new] if i == axis else a for i, a in enumerate(v.axes)],
                 v.factor)


def _last(v, axis, first):
    """The last element of an axis that comes first or last in a sample."""
    rest = [a for a in v.atoms[1:] if a not in v.axes[axis]]
    x, features = v.var, math.prod(a.size for a in rest)
    if first > 1:
        x = _turned(v, first)
    if tuple(x.shape) != (v.shape[axis], features):
        x = layers.flatten(x, features=features)
    return Value(layers.last_step(x), [v.atoms[0], *rest], [[] if i == axis else a for i, a in enumerate(v.axes)])


def _turned(v, first):
    """The engine's value with the atoms from `first` on before the others."""
    before, after = (math.prod(a.size for a in part) for part in (v.atoms[1:first], v.atoms[first:]))
    return layers.flatten(layers.reshape(v.var, (before, after)), order="channels_last")


def _every(v, axis, first, step, count):
    """Every step-th element of an axis, from the first on: a pooling of single elements."""
    atoms = v.axes[axis]
    rest = [a for a in v.atoms[1:] if a not in atoms]
    x = v.var if first + len(atoms) == len(v.atoms) else _turned(v, 1 + len(atoms))
    size = math.prod(a.size for a in atoms)
    x = layers.max_pool(layers.reshape(x, (math.prod(a.size for a in rest), size)), [1], stride=step)
    new = Atom(count)
    return Value(x, [v.atoms[0], *rest, new], [[new] if i == axis else a for i, a in enumerate(v.axes)])


def _forced(v):
    return v if v.factor == 1 else Value(layers.scale(v.var, v.factor), v.atoms, v.axes)


def gathered(reader, node):
    v, numbers = reader.raw(node.inputs[0]), reader.constant(node.inputs[1])
    if numbers is None:
        raise Refused("numbers of elements that depend on the inputs")
    if numbers.ndim > 1:
        raise Refused(f"numbers of {numbers.ndim} axes. Expected at most 1")
    axis = node.get("axis", 0) % len(v.shape)
    return _chosen(reader, node, node.inputs[0], axis, [int(i) for i in numpy.ravel(numbers)], numbers.ndim == 1)


def _slice(reader, node):
    v = reader.raw(node.inputs[0])
    rank = len(v.shape)
    if node.has_input(1):
        starts, ends = (_integers(reader, node, i, "range") for i in (1, 2))
        axes = _integers(reader, node, 3, "axes") if node.has_input(3) else list(range(len(starts)))
        steps = _integers(reader, node, 4, "steps") if node.has_input(4) else [1] * len(starts)
    else:
        starts, ends = node.get("starts"), node.get("ends")
        axes, steps = node.get("axes", list(range(len(starts)))), [1] * len(starts)
    found, name = v, node.inputs[0]
    for axis, start, end, step in zip(axes, starts, ends, steps):
        axis %= rank
        chosen = list(range(*slice(start, end if abs(end) < 1 << 62 else None, step).indices(v.shape[axis])))
        if chosen != list(range(v.shape[axis])):
            if not chosen:
                raise Refused("it chooses nothing")
            reader.values["\0part"] = found
            found = _chosen(reader, node, "\0part", axis, chosen)
    return found if isinstance(found, Value) else reader.value(name)


def _split(reader, node):
    v = reader.raw(node.inputs[0])
    axis = node.get("axis", 0) % len(v.shape)
    sizes, count = node.get("split"), node.get("num_outputs", len(node.outputs))
    if node.has_input(1):
        sizes = _integers(reader, node, 1, "sizes")
    if sizes is None:
        each = -(-v.shape[axis] // count)
        sizes = [min(each, v.shape[axis] - each * i) for i in range(count)]
    ends = numpy.cumsum(sizes)
    return [_chosen(reader, node, node.inputs[0], axis, list(range(e - s, e))) for s, e in zip(sizes, ends)]


SHAPES = {"Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose,
          "Expand": _expand, "Tile": _tile, "Concat": _concat, "Slice": _slice, "Split": _split}
