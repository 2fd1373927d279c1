"""ONNX operators that normalize."""

import math

import numpy

from .._engine import layers
from .values import Refused, Value, rows_of, sample_of, weights_of, with_features

__all__ = ["NORMS"]


def _batch_norm(reader, node):
    v = reader.value(node.inputs[0])
    if node.get("training_mode", 0):
        raise Refused("training_mode is 1. Export the network for evaluation")
    if node.get("spatial", 1) != 1:
        raise Refused("spatial is 0. Expected 1")
    values = [weights_of(reader, node, i, "parameters") for i in range(1, 5)]
    name = reader.node_name(node, node.inputs[1])
    rows = len(v.shape) == 2
    if rows:
        x, axes, atoms = rows_of(v)
    else:
        x = sample_of(v)
    found = layers.batch_norm(x, momentum=1 - node.get("momentum", .9), epsilon=node.get("epsilon", 1e-5), name=name)
    reader.set(name, **dict(zip(("scale", "shift", "running_mean", "running_variance"), values)))
    return with_features(found, axes, atoms, v.shape[1]) if rows else Value.of(found, v.shape)


def _layer_norm(reader, node):
    """LayerNormalization and RMSNormalization of rows, or of a whole sample with one scale for each channel."""
    v = reader.value(node.inputs[0])
    whole = node.op == "LayerNormalization" or node.op == "_RowNorm" and node.has_input(2)
    rank, axis = len(v.shape), node.get("axis", -1)
    axis += rank if axis < 0 else 0
    if node.get("stash_type", 1) != 1:
        raise Refused("stash_type is not 1")
    scale = weights_of(reader, node, 1, "scale")
    shift = weights_of(reader, node, 2, "shift") if node.has_input(2) else numpy.zeros(scale.shape, numpy.float32)
    name = reader.node_name(node, node.inputs[1])
    if axis != rank - 1 and node.op == "_RowNorm":
        raise Refused(f"a normalization along axis {axis} of {rank}. Expected the last axis")
    wanted = v.shape[axis:]
    if len(wanted) > 1:
        v = v.reshaped((*v.shape[:axis], math.prod(v.shape[axis:])))
    rows, axes, atoms = rows_of(v)
    epsilon = node.get("epsilon", 1e-5)
    alike = all(a.shape[-len(wanted):] == wanted and a.size == v.shape[-1] for a in (scale, shift))
    if not alike or max(scale.ndim, shift.ndim) > rank:
        raise Refused(f"its scale has the shape {scale.shape}, and its shift {shift.shape}. Expected {wanted}")
    if whole:
        found = layers.layer_norm(rows, epsilon=epsilon, name=name)
        reader.set(name, scale=scale.ravel(), shift=shift.ravel())
    else:
        found = layers.rms_norm(rows, epsilon=epsilon, name=name)
        reader.set(name, scale=scale.ravel())
    result = with_features(found, axes, atoms, v.shape[-1])
    original = reader.value(node.inputs[0]).shape
    return result if result.shape == original else result.reshaped(original)


def _group_norm(reader, node):
    """GroupNormalization, InstanceNormalization (a group for each channel), and the pattern of several operators."""
    v = reader.value(node.inputs[0])
    scale, shift = (weights_of(reader, node, i, "parameters") for i in (1, 2))
    back, channels = node.get("back"), v.shape[1]
    groups = channels if node.op == "InstanceNormalization" else node.get("groups", node.get("num_groups"))
    if node.get("stash_type", 1) != 1:
        raise Refused("stash_type is not 1")
    if back is not None:
        target = [v.shape[i] if n == 0 else n for i, n in enumerate(back)]
        if len(target) != len(v.shape) or any(n not in (-1, have) for n, have in zip(target[1:], v.shape[1:])):
            raise Refused(f"the shape is {v.shape[1:]} before the groups, and {tuple(target[1:])} behind them")
    if scale.size == groups != channels and node.op == "GroupNormalization":
        scale, shift = (numpy.repeat(a, channels // groups) for a in (scale, shift))
    if scale.size != channels:
        raise Refused(f"its scale has {scale.size} values. Expected one for each of {channels} channels")
    if node.op == "_GroupNorm":
        for array in (scale, shift):
            full = (1,) * (len(v.shape) - array.ndim) + array.shape
            if full != (1, channels, *[1] * (len(v.shape) - 2)):
                raise Refused(f"scale or shift of the shape {array.shape} behind group normalization of samples of "
                              f"{v.shape[1:]}. Expected one value for each channel")
    name = reader.node_name(node, node.inputs[1])
    x = rows_of(v)[0] if len(v.shape) == 2 else sample_of(v)
    epsilon = node.get("epsilon", 1e-5)
    if groups == 1 and len(v.shape) > 2:
        found = layers.layer_norm(x, epsilon=epsilon, name=name)
    else:
        found = layers.group_norm(x, groups, epsilon=epsilon, name=name)
    reader.set(name, scale=scale.ravel(), shift=shift.ravel())
    if len(v.shape) == 2:
        _, axes, atoms = rows_of(v)
        return with_features(found, axes, atoms, channels)
    return Value.of(found, v.shape)


NORMS = {"BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm, "RMSNormalization": _layer_norm,
         "_RowNorm": _layer_norm, "GroupNormalization": _group_norm, "InstanceNormalization": _group_norm,
         "_GroupNorm": _group_norm}
