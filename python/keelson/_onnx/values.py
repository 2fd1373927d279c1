"""Values of a network from an ONNX file: the engine's value, and the shape and order in which the file sees its elements."""

import math
import re

import numpy

from .._engine import layers

__all__ = ["Atom", "Refused", "Scores", "Source", "Value", "broadcast", "clean_name", "expanded", "like_each_other", "ordered",
           "per_atom", "repeated", "reshaped_var", "rows_of", "sample_of", "text_of", "weights_of", "with_features"]


class Refused(Exception):
    """What the engine cannot do; the reader adds operator and node."""


class Atom:
    """A piece of an axis that has not been divided. The batch is one atom."""

    def __init__(self, size, batch=False):
        self.size, self.batch = int(size), batch


class Source:
    """An engine's value that is made when it is first read. take(indices): the same layer with some of its channels."""

    def __init__(self, make, take=None, channels=0, last=True):
        self._make, self._var = make, None
        self.take, self.channels, self.last = take, channels, last
        self.whole = False  # whether the elements are whole numbers

    @property
    def is_made(self):
        return self._var is not None

    @property
    def var(self):
        if self._var is None:
            self._var = self._make()
        return self._var


class Value:
    """A value of the file. The engine's value holds `atoms` in this order, the batch first. Each axis in the file consists of
    some of the atoms: reshapes and transpositions only change `axes`, until a layer needs another order.

    In a file whose batch is one sample, the batch is an atom of size 1 that is in no axis: no operator can mix samples.

    factor: a number by which the value is still to be multiplied. pads: zeros that are still to be added, begin and end of
    each axis, as ONNX has them. parts: the axis and the values of which Concat has made this one.
    """

    def __init__(self, source, atoms, axes, factor=1.0, pads=None):
        self.source = source if isinstance(source, Source) else Source(lambda: source)
        self.atoms, self.axes, self.factor, self.pads = list(atoms), [list(a) for a in axes], factor, pads
        self.parts = None
        if self.is_single:
            self.axes = [[a for a in axis if not a.batch] for axis in self.axes]

    @staticmethod
    def of(source, shape):
        """A value of this shape, batch first, whose elements lie in the order of the file."""
        atoms = [Atom(shape[0], batch=True), *(Atom(n) for n in shape[1:])]
        return Value(source, atoms, [[a] for a in atoms])

    @property
    def var(self):
        return self.source.var

    @property
    def shape(self):
        return tuple(math.prod(a.size for a in axis) for axis in self.axes)

    def seen(self, axes, atoms=None):
        """The same elements with other axes."""
        return Value(self.source, atoms or self.atoms, axes, self.factor)

    def normal(self):
        """Without atoms of one element, and with neighbours in memory and in an axis as one atom."""
        atoms = [a for a in self.atoms if a.batch or a.size != 1]
        axes = [[a for a in axis if a.batch or a.size != 1] for axis in self.axes]
        at = 0
        while at + 1 < len(atoms):
            first, second = atoms[at:at + 2]
            axis = next((x for x in axes if first in x), [])
            place = axis.index(first) if axis else 0
            if first.batch or axis[place + 1:place + 2] != [second]:
                at += 1
                continue
            atoms[at:at + 2] = axis[place:place + 2] = [Atom(first.size * second.size)]
        return Value(self.source, atoms, axes, self.factor, self.pads)

    def transposed(self, order):
        return self.seen([self.axes[i] for i in order])

    def reshaped(self, shape, may_move=True):
        """may_move: whether elements may be brought into the file's order for it."""
        v = self.seen([self.order]).normal()  # its axes do not matter here
        found = _regrouped(v, shape)
        if found is None and may_move and not v.in_order:
            v = ordered(v)
            found = _regrouped(v, shape)
        if found is None:
            wanted = text_of(shape, self.atoms[0].size)
            raise Refused(f"the shape {text_of(self)} of a batch cannot become {wanted} without mixing samples")
        return v.seen(*found)

    @property
    def is_single(self):
        """Whether the file's batch is one sample."""
        return self.atoms[0].size == 1

    @property
    def order(self):
        """The atoms in the order of the file."""
        return [a for axis in self.axes for a in axis]

    @property
    def in_order(self):
        return self.order == (self.atoms[1:] if self.is_single else self.atoms)

    @property
    def batch_axis(self):
        """The axis that is the batch and nothing else, or None."""
        if self.is_single:
            return 0 if self.axes and not self.axes[0] else None
        return next((i for i, axis in enumerate(self.axes) if len(axis) == 1 and axis[0].batch), None)


class Scores:
    """Products of queries and keys, which become attention() with the values."""

    def __init__(self, queries, keys, factor=1.0, causal=False, softmax=False):
        self.queries, self.keys, self.factor, self.causal, self.softmax = queries, keys, factor, causal, softmax
        self.shape = (*queries.shape[:-1], keys.shape[-1])


def text_of(shape, batch=0):
    """A shape as a message has it, with N for the batch."""
    if isinstance(shape, Value):
        return "(" + ", ".join("*".join("N" if a.batch else str(a.size) for a in axis) or "1" for axis in shape.axes) + ")"
    counts = [n // batch if batch > 1 and n % batch == 0 else 0 for n in shape]
    return "(" + ", ".join(("N" if k == 1 else f"{k}*N") if k else str(n) for n, k in zip(shape, counts)) + ")"


def _regrouped(v, shape):
    """(axes, atoms) of the value with this shape, or None if an atom would have to be divided where it cannot be."""
    atoms, waiting, axes = list(v.atoms), v.order, []
    for need in shape:
        axis = []
        while need > 1:
            if not waiting:
                return None
            first = waiting.pop(0)
            if need % first.size == 0:
                need //= first.size
            elif not first.batch and first.size % need == 0:
                pieces = [Atom(need), Atom(first.size // need)]
                place = atoms.index(first)
                atoms[place:place + 1] = pieces
                first, need = pieces[0], 1
                waiting.insert(0, pieces[1])
            else:
                return None
            axis.append(first)
        axes.append(axis)
    return None if waiting else (axes, atoms)


def _elements(atoms):
    return math.prod(a.size for a in atoms if not a.batch)


def reshaped_var(var, sample):
    """The engine's value as one block (1, *sample)."""
    sample = tuple(int(n) for n in sample)
    return var if tuple(var.shape) == (1, *sample) else layers.reshape(var, sample)


def rotated(var, before, after):
    """A sample's elements (before, after) in the order (after, before)."""
    if var.shape[0] != 1 or var.shape[1] != before or len(var.shape) < 3:
        var = layers.reshape(var, (before, after))
    return layers.flatten(var, order="channels_last")


def ordered(value):
    """The value with its elements in the file's order, batch first."""
    v = value.normal()
    if v.in_order:
        return v
    if not v.is_single and not v.order[0].batch:
        raise Refused(f"the batch is not the first axis of {text_of(v)}")
    memory, wanted = v.atoms[1:], [a for a in v.order if not a.batch]
    at = memory.index(wanted[0])
    if memory[at:] + memory[:at] != wanted:
        raise Refused(f"a transposition to {text_of(v)} that no layer does: the engine can only move the first axes of a "
                      "sample behind the others")
    return Value(rotated(v.var, _elements(memory[:at]), _elements(memory[at:])), [v.atoms[0], *wanted], v.axes)


def sample_of(value, dims=None):
    """The engine's value with the shape (1, *dims), by default that of the file without its batch."""
    v = ordered(value)
    if v.batch_axis != 0:
        raise Refused(f"a value of the shape {text_of(v)}, whose first axis is not the batch alone")
    return reshaped_var(v.var, v.shape[1:] if dims is None else dims)


def rows_of(value):
    """(engine's value (rows, features), axes, atoms): the value as rows of its last axis. axes and atoms are those of the
    rows, without the features."""
    v = value.normal()
    count = len(v.axes[-1])
    if count and v.atoms[-count:] != v.axes[-1]:
        v = ordered(v)
        count = len(v.axes[-1])
    if count and (v.atoms[-count:] != v.axes[-1] or v.atoms[-1].batch):
        raise Refused(f"rows of a value of the shape {text_of(v)}: the batch is not among the first axes")
    lead = v.atoms[:len(v.atoms) - count]
    shape = (_elements(lead), _elements(v.axes[-1]))
    var = v.var if tuple(v.var.shape) == shape else layers.flatten(v.var, features=shape[1])
    return var, v.axes[:-1], lead


def with_features(var, axes, atoms, features):
    """The value of a layer that works on rows."""
    last = Atom(features)
    return Value(var, [*atoms, last], [*axes, [last]])


def like_each_other(values):
    """Engine's values of one shape, for values of one shape in the file, and a value whose order they have."""
    normal = [v.normal() for v in values]
    places = [[[v.atoms.index(a) for a in axis] for axis in v.axes] for v in normal]
    sizes = [[a.size for a in v.atoms] for v in normal]
    if any(p != places[0] for p in places) or any(s != sizes[0] for s in sizes):
        normal = [ordered(v) for v in normal]
    shapes = [tuple(v.var.shape) for v in normal]
    wanted = shapes[0] if all(s == shapes[0] for s in shapes) else (1, *(a.size for a in normal[0].atoms[1:]))
    if len(wanted) == 1:
        wanted = (1, 1)
    return [v.var if tuple(v.var.shape) == wanted else layers.reshape(v.var, wanted[1:]) for v in normal], normal[0]


def broadcast(*shapes, batch=0):
    """The shape to which values of these shapes are repeated. batch: the number in them that stands for the samples."""
    try:
        return numpy.broadcast_shapes(*shapes)
    except ValueError:
        raise Refused(f"values of the shapes {' and '.join(text_of(s, batch) for s in shapes)} do not fit") from None


def repeated(var, before, after, count):
    """A sample's elements (before, after) as (before, count, after)."""
    while count > 1:
        step = next((k for k in range(min(count, 8), 1, -1) if count % k == 0), count)
        var = layers.concat([reshaped_var(var, (before, after))] * step, 2)
        after, count = after * step, count // step
    return var


def expanded(value, shape):
    """The value repeated along axes of one element."""
    shape = tuple(int(n) for n in shape)
    v = value.seen([[]] * (len(shape) - len(value.axes)) + value.axes).normal() if len(shape) > len(value.axes) else value
    if v.shape == shape:
        return v
    if len(shape) == 4 and v.shape[:2] == shape[:2] and v.shape[2:] == (1, 1) and v.batch_axis == 0:
        return Value.of(layers.resize(sample_of(v), *shape[2:]), shape)
    v = ordered(v)
    dims, var = list(v.shape), v.var
    if v.batch_axis != 0:
        raise Refused(f"the shape {text_of(v)} cannot be repeated to {text_of(shape, v.atoms[0].size)}")
    for i, (have, want) in enumerate(zip(dims, shape)):
        if have != want:
            var = repeated(var, math.prod(dims[1:i]), math.prod(dims[i + 1:]), want)
            dims[i] = want
    return Value(reshaped_var(var, dims[1:]), *_fresh(dims))


def _fresh(shape):
    v = Value.of(None, shape)
    return v.atoms, v.axes


def per_atom(value, constant):
    """A constant that broadcasts to the value, in the engine's order: (first atom, one behind the last atom, array over these
    atoms). The atoms are those of value.normal()."""
    constant = numpy.asarray(constant)
    constant = constant.reshape((1,) * (len(value.axes) - constant.ndim) + constant.shape)
    fine, whole = ([1], [value.atoms[0]]) if value.is_single else ([], [])
    for axis, size in zip(value.axes, constant.shape):
        batch = any(a.batch for a in axis)
        if size > 1 and batch:
            raise Refused("a constant that differs between samples")
        for atom in axis:
            fine.append(atom.size if size > 1 else 1)
            whole.append(atom)
    constant = constant.reshape(fine)
    constant = constant.transpose([whole.index(a) for a in value.atoms])
    used = [i for i, n in enumerate(constant.shape) if n > 1]
    first, end = used[0], used[-1] + 1
    block = constant.reshape(constant.shape[first:end])
    return first, end, numpy.broadcast_to(block, [a.size for a in value.atoms[first:end]])


def clean_name(name):
    """A name of the file as the name of a node."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9_.+-]+", ".", name)).strip(".")


def weights_of(reader, node, i, what):
    """A constant that a node needs as its input i."""
    array = reader.constant(node.inputs[i]) if node.has_input(i) else None
    if array is None:
        raise Refused(f"its {what} depend on the inputs. Expected constants")
    return array
