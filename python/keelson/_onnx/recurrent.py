"""ONNX' LSTM and GRU."""

import numpy

from .._engine import layers
from .values import Refused, Source, Value, rows_of, weights_of

__all__ = ["RECURRENT"]


_GATES = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2]}  # ONNX i, o, f, c to i, f, g, o; ONNX z, r, h to r, z, n


def _recurrent(reader, node):
    kind, hidden = node.op, node.get("hidden_size")
    lstm = kind == "LSTM"
    for name, expected in (("direction", "forward"), ("layout", 0), ("input_forget", 0), ("clip", None),
                           ("activations", None), ("activation_alpha", None), ("activation_beta", None)):
        found = node.get(name, expected)
        usual = [b"Sigmoid", b"Tanh", b"Tanh"] if lstm else [b"Sigmoid", b"Tanh"]
        if found != expected and not (name == "activations" and found == usual):
            raise Refused(f"{name} is {found}. Expected {expected if expected is not None else 'the default'}")
    if not lstm and node.get("linear_before_reset", 0) != 1:
        raise Refused("linear_before_reset is 0. Expected 1, as PyTorch and Keras (reset_after=True) have it")
    v = reader.value(node.inputs[0])
    steps, batch, features = v.shape
    if node.has_input(7):
        raise Refused("peepholes are not supported")
    lengths = reader.constant(node.inputs[4]) if node.has_input(4) else numpy.full(1, steps)
    if lengths is None or (lengths != steps).any():
        raise Refused("sequences of different lengths are not supported")
    state = reader.state_of(node)
    for i in (5, 6):
        first = reader.constant(node.inputs[i]) if node.has_input(i) else numpy.zeros(1)
        if state is None and (first is None or first.any()):
            raise Refused("its first state is not zeros, and not an input of its own")
    by_sample = v.transposed((1, 0, 2)).normal()
    before = _layer_below(reader, node, by_sample, hidden, state is not None)
    stack = [*(before.stack if before else []), _gate_values(reader, node, hidden)]
    read = before.rows if before else lambda: rows_of(by_sample)[0]
    source = Source(lambda: _stacked(reader, kind, read(), hidden, state is not None, stack))
    source.stack, source.rows, source.kind = stack, read, (kind, hidden, state is not None)
    whole = Value.of(source, (batch, steps, hidden))
    y = whole.seen([whole.axes[1], [], whole.axes[0], whole.axes[2]])
    last = Value.of(Source(lambda: layers.last_step(source.var)), (batch, hidden))
    return [y, last.seen([[], *last.axes])]


def _gate_values(reader, node, hidden):
    """(name of the layer, and the engine's parameters of the dense node before it and of its own)."""
    order = _GATES[node.op]
    count = len(order)
    w, r = (weights_of(reader, node, i, "weights") for i in (1, 2))
    b = weights_of(reader, node, 3, "biases") if node.has_input(3) else numpy.zeros((1, 2 * count * hidden), numpy.float32)

    def gates(array):
        return array.reshape(count, hidden, -1)[order].reshape(count * hidden, *array.shape[1:])
    bias, recurrent = gates(b[0, :count * hidden]), gates(b[0, count * hidden:])
    own = {"weights": gates(r[0])}
    if node.op == "GRU":  # the reset gate acts on the recurrent part of the candidate, which so has a bias of its own
        own["bias"] = recurrent[2 * hidden:]
        recurrent = numpy.concatenate([recurrent[:2 * hidden], numpy.zeros(hidden, numpy.float32)])
    return reader.label(node, node.inputs[1]), {"weights": gates(w[0]), "bias": bias + recurrent}, own


def _layer_below(reader, node, x, hidden, carries):
    """The source of the recurrent layer of the same kind whose result only this node reads, or None: they become one layer
    with several."""
    name, source = node.inputs[0], x.source
    if getattr(source, "kind", None) != (node.op, hidden, carries) or not x.in_order or x.factor != 1:
        return None
    while len(reader.readers.get(name, [])) == 1 and name not in reader.wanted:
        maker = reader.made[name]
        if maker.op == node.op:
            others = maker.outputs[1:]
            return None if any(o in reader.readers or o in reader.wanted for o in others if o) else source
        name = maker.inputs[0]
    return None


def _stacked(reader, kind, rows, hidden, carries, stack):
    names = [name for name, _, _ in stack]
    base = names[0][:-1] if names[0].endswith("1") and len(names[0]) > 1 else names[0]
    while any(f"{base}{i + 1}{end}" in reader.names for i in range(len(stack)) for end in ("", "_input", "_state")):
        base += "_"
    layer = layers.lstm if kind == "LSTM" else layers.gru
    found = layer(rows, hidden, layers=len(stack), carries_state=carries, name=base)
    for i, (_, before, own) in enumerate(stack):
        reader.names.update(f"{base}{i + 1}{end}" for end in ("", "_input", "_state"))
        reader.set(f"{base}{i + 1}_input", **before)
        reader.set(f"{base}{i + 1}", **own)
    return found


RECURRENT = {"LSTM": _recurrent, "GRU": _recurrent}
