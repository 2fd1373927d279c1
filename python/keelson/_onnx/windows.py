"""ONNX operators with windows: convolutions, poolings, Pad, Resize."""

import math

import numpy

from .._engine import layers
from .values import Refused, Source, Value, repeated, reshaped_var, sample_of

__all__ = ["WINDOWS", "axes_of"]


def _one(values, name):
    """The number that a layer takes for all spatial dimensions."""
    if len(set(values)) > 1:
        raise Refused(f"{name} are {list(values)}. Expected the same number for all axes")
    return int(values[0]) if len(values) else 1


def _pads(node, sizes, kernel, strides, dilations, extra=None):
    """(begin, end) of each spatial axis, with those of a Pad before the node."""
    kind = node.get("auto_pad", "NOTSET")
    given = node.get("pads")
    rank = len(kernel)
    before, after = (extra[2:rank + 2], extra[rank + 4:]) if extra else ([0] * rank, [0] * rank)
    if kind in ("NOTSET", "VALID", ""):
        begin, end = (list(given[:rank]), list(given[rank:])) if given and kind != "VALID" else ([0] * rank, [0] * rank)
    elif kind in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for size, k, stride, dilation in zip(map(sum, zip(sizes, before, after)), kernel, strides, dilations):
            total = max((math.ceil(size / stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
            small = total // 2
            begin.append(small if kind == "SAME_UPPER" else total - small)
            end.append(total - small if kind == "SAME_UPPER" else small)
    else:
        raise Refused(f"auto_pad is '{kind}'")
    begin, end = [b + e for b, e in zip(begin, before)], [b + e for b, e in zip(end, after)]
    if any(p < 0 for p in begin + end):
        raise Refused("negative pads are not supported")
    return begin, end


def _padded(reader, node, allowed):
    """(value without its pads, the pads or None)."""
    v = reader.raw(node.inputs[0])
    pads = getattr(v, "pads", None)
    if pads is None or not allowed:
        return reader.value(node.inputs[0]), None
    if any(pads[:2]) or any(pads[len(pads) // 2:len(pads) // 2 + 2]):
        raise Refused("a Pad before it that adds samples or channels")
    if v.factor != 1:
        v = Value(layers.scale(v.var, v.factor), v.atoms, v.axes, pads=v.pads)
    return v, pads


def _conv(reader, node):
    v, extra = _padded(reader, node, True)
    weights = reader.constant(node.inputs[1])
    bias = reader.constant(node.inputs[2]) if node.has_input(2) else None
    if weights is None or node.has_input(2) and bias is None:
        raise Refused("its weights depend on the inputs. Expected constants")
    bias = None if bias is None else bias.ravel()
    sizes, kernel, groups = v.shape[2:], list(weights.shape[2:]), node.get("group", 1)
    if len(v.shape) != weights.ndim or v.shape[1] != weights.shape[1] * groups:
        raise Refused(f"weights of the shape {weights.shape} in {groups} groups for samples of {v.shape[1:]}")
    if node.get("kernel_shape", kernel) != kernel:
        raise Refused(f"kernel_shape is {node.get('kernel_shape')}, but its weights have {kernel}")
    strides = node.get("strides", [1] * len(kernel))
    dilations = node.get("dilations", [1] * len(kernel))
    pads = _pads(node, sizes, kernel, strides, dilations, extra)
    padded = [n + b + e for n, b, e in zip(sizes, *pads)]
    dilation = _one([d for d, k in zip(dilations, kernel) if k > 1], "dilations")
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded, kernel, dilations, strides)]
    x = sample_of(v)

    def make(chosen=None):
        name = reader.node_name(node, node.inputs[1])
        w, b = (a if chosen is None or a is None else a[chosen] for a in (weights, bias))
        result = layers.conv(x, len(w), kernel, stride=strides, padding=pads, dilation=dilation, groups=groups,
                             bias=b is not None, name=name)
        reader.set(name, weights=w, **({} if b is None else {"bias": b}))
        return result

    def source(chosen=None):
        def take(indices):
            return source(indices if chosen is None else chosen[indices])
        return Source(lambda: make(chosen), take if groups == 1 else None, len(weights) if chosen is None else len(chosen),
                      last=False)
    return Value.of(source(), (v.shape[0], len(weights), *out))


def _transposed_conv(reader, node):
    v = reader.value(node.inputs[0])
    weights = reader.constant(node.inputs[1])
    bias = reader.constant(node.inputs[2]) if node.has_input(2) else None
    if weights is None or node.has_input(2) and bias is None:
        raise Refused("its weights depend on the inputs. Expected constants")
    bias = None if bias is None else bias.ravel()
    kernel, groups = list(weights.shape[2:]), node.get("group", 1)
    if node.get("kernel_shape", kernel) != kernel or len(v.shape) != weights.ndim or v.shape[1] != weights.shape[0]:
        raise Refused(f"weights of the shape {weights.shape} for samples of {v.shape[1:]}")
    rank = len(kernel)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    added = list(node.get("output_padding", [0] * rank))
    if node.get("output_shape") is not None:
        raise Refused("output_shape is not supported. Export with pads and output_padding")
    kind = node.get("auto_pad", "NOTSET")
    if kind.startswith("SAME"):
        begin, end = [], []
        for k, s, d, a in zip(kernel, strides, dilations, added):
            total = (k - 1) * d + 1 + a - s  # the result has s times the source's extent
            if total < 0:
                raise Refused(f"auto_pad with a kernel of {kernel} and strides of {strides}")
            small = total // 2
            begin.append(small if kind == "SAME_UPPER" else total - small)
            end.append(total - begin[-1])
    else:
        begin, end = _pads(node, v.shape[2:], kernel, strides, dilations)
    # What is added at the end and what is cut off there are the same thing, up to the end of what the kernels write.
    end = [e - a for e, a in zip(end, added)]
    extra = max([0, *(-e for e in end)])
    if extra and extra >= _one(strides, "strides"):
        raise Refused(f"an output_padding of {added} with strides of {strides}")
    end = [e + extra for e in end]
    out = [(n - 1) * s + (k - 1) * d + 1 - b - e + extra
           for n, s, k, d, b, e in zip(v.shape[2:], strides, kernel, dilations, begin, end)]
    name = reader.node_name(node, node.inputs[1])
    result = layers.transposed_conv(sample_of(v), weights.shape[1] * groups, kernel, stride=_one(strides, "strides"),
                                    padding=(begin, end), output_padding=extra,
                                    dilation=_one([d for d, k in zip(dilations, kernel) if k > 1], "dilations"),
                                    groups=groups, bias=bias is not None, name=name)
    reader.set(name, weights=weights, **({} if bias is None else {"bias": bias}))
    return Value.of(result, (v.shape[0], weights.shape[1] * groups, *out))


def _pool(reader, node):
    average = node.op == "AveragePool"
    v, extra = _padded(reader, node, average)
    kernel = list(node.get("kernel_shape"))
    rank = len(kernel)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    if _one(dilations, "dilations") != 1:
        raise Refused(f"dilations are {dilations}. Expected 1")
    counts, sizes = bool(node.get("count_include_pad", 0)), v.shape[2:]
    node.get("storage_order")
    begin, end = _pads(node, sizes, kernel, strides, dilations, extra)
    if extra:
        if begin != list(extra[2:rank + 2]) or end != list(extra[rank + 4:]):
            raise Refused("a Pad before a pooling that has pads of its own")
        counts = True
    out = []
    for i in range(rank):
        span = sizes[i] + begin[i] + end[i] - kernel[i]
        count = span // strides[i] + 1
        if node.get("ceil_mode", 0) and span % strides[i] and count * strides[i] < sizes[i] + begin[i]:
            if average and counts:
                raise Refused("ceil_mode with padding that counts")
            count += 1
            end[i] += strides[i] - span % strides[i]
        out.append(count)
    if list(strides) == kernel:
        stride = 0
    else:
        used = [s for s, n in zip(strides, out) if n > 1]
        stride = _one(used, "strides") if used else max(strides)
        if any((sizes[i] + begin[i] + end[i] - kernel[i]) // stride + 1 != out[i] for i in range(rank)):
            raise Refused(f"strides are {strides}. Expected the same number for all axes")
    name, x = reader.node_name(node), sample_of(v)
    if average:
        result = layers.average_pool(x, kernel, stride=stride, padding=(begin, end), count_padding=counts, name=name)
    else:
        result = layers.max_pool(x, kernel, stride=stride, padding=(begin, end), name=name)
    return Value.of(result, (*v.shape[:2], *out))


def _global_pool(reader, node):
    v = reader.value(node.inputs[0])
    name, x = reader.node_name(node), sample_of(v)
    if node.op == "GlobalAveragePool":
        result = layers.global_average_pool(x, name=name)
    else:
        result = layers.max_pool(x, list(v.shape[2:]), name=name)
    return Value.of(result, (*v.shape[:2], *[1] * (len(v.shape) - 2)))


def axes_of(reader, node, i=1):
    """The axes of a node, which are an attribute or an input; None: not given."""
    axes = node.get("axes")
    if node.has_input(i):
        axes = reader.constant(node.inputs[i])
        if axes is None:
            raise Refused("its axes depend on the inputs")
    return None if axes is None else [int(a) for a in numpy.ravel(axes)]


def _reduce(reader, node):
    """Means, sums and maxima over neighbouring axes: poolings."""
    v = reader.value(node.inputs[0])
    axes, rank = axes_of(reader, node), len(v.shape)
    keep = node.get("keepdims", 1)
    if not axes:
        if axes is not None and node.get("noop_with_empty_axes", 0):
            return v
        raise Refused("it reduces all axes, also the batch. Expected axes of a sample")
    node.get("noop_with_empty_axes")
    axes = sorted(a % rank for a in axes)
    if v.is_single and (v.batch_axis != 0 or 0 in axes):
        v, axes, rank, single = v.seen([[], *v.axes]), [a + 1 for a in axes], rank + 1, True
    else:
        single = False
    shape = [1 if i in axes else n for i, n in enumerate(v.shape)]
    final = shape if keep else [n for i, n in enumerate(shape) if i not in axes]
    if 0 in axes or v.batch_axis != 0:
        raise Refused("it reduces the batch, or a value whose first axis is not the batch")
    if axes != list(range(axes[0], axes[-1] + 1)):
        raise Refused(f"axes {axes} are not neighbours")
    name = reader.node_name(node)
    if node.op == "ReduceMean" and axes == list(range(2, rank)) and 4 <= rank <= 5:
        result = layers.global_average_pool(sample_of(v), name=name)
    else:
        begin, end = axes[0], axes[-1] + 1
        before, count, after = (math.prod(part) for part in (v.shape[1:begin], v.shape[begin:end], v.shape[end:]))
        x = sample_of(v, (before, count, after))
        pool = layers.max_pool if node.op == "ReduceMax" else layers.average_pool
        result = pool(x, (count, 1), name=name)
        if node.op == "ReduceSum":
            result = layers.scale(result, count)
    return Value.of(result, shape).reshaped(final[1:] if single else final)


def _pad(reader, node):
    v = reader.value(node.inputs[0])
    pads = node.get("pads") or node.get("paddings")
    if node.has_input(1):
        pads = reader.constant(node.inputs[1])
    fill = reader.constant(node.inputs[2]) if node.has_input(2) else numpy.asarray(node.get("value", 0.0))
    if pads is None or fill is None or node.has_input(3):
        raise Refused("its pads or axes depend on the inputs, or it names axes")
    pads = [int(p) for p in pads]
    if not any(pads):
        return v
    if node.get("mode", "constant") != "constant" or float(numpy.ravel(fill)[0]) != 0:
        raise Refused("expected zeros (mode 'constant', value 0)")
    if min(pads) < 0 or len(v.shape) < 3:
        raise Refused("negative pads, or pads of a value that is no image or volume")
    result = Value(v.source, v.atoms, v.axes, v.factor, pads)
    return result


def _positions(out, size, mode, ratio):
    """The positions in the source of the elements of the result."""
    i = numpy.arange(out)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (i + .5) * ratio - .5 if out > 1 or mode == "half_pixel" else i * 0.
    if mode == "align_corners":
        return i * ((size - 1) / (out - 1)) if out > 1 else i * 0.
    return i * ratio  # asymmetric


def _nearest(x, v, sizes, mode, rounding):
    if mode not in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        raise Refused(f"coordinate_transformation_mode is '{mode}'")
    rounds = {"floor": numpy.floor, "ceil": numpy.ceil, "round_prefer_floor": lambda p: numpy.ceil(p - .5),
              "round_prefer_ceil": lambda p: numpy.floor(p + .5)}
    dims = list(v.shape)
    for i in range(2, len(dims)):
        have, want = dims[i], sizes[i]
        if have == want:
            continue
        chosen = numpy.clip(rounds[rounding](_positions(want, have, mode, have / want)), 0, have - 1)
        if want % have or (chosen != numpy.arange(want) // (want // have)).any():
            raise Refused(f"nearest elements from {have} to {want} ({mode}, {rounding}). Expected a multiple, each element "
                          "repeated")
        x = repeated(x, math.prod(dims[1:i + 1]), math.prod(dims[i + 1:]), want // have)
        dims[i] = want
        x = reshaped_var(x, dims[1:])
    return Value.of(x, dims)


def _resize(reader, node):
    v = reader.value(node.inputs[0])
    old = reader.opset < 11 or node.op == "Upsample"
    scales = reader.constant(node.inputs[1 if old else 2]) if node.has_input(1 if old else 2) else None
    sizes = reader.constant(node.inputs[3]) if node.has_input(3) else None
    if node.get("scales") is not None:
        scales = numpy.asarray(node.get("scales"))
    mode = node.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    kind, rounding = node.get("mode", "nearest"), node.get("nearest_mode", "floor" if old else "round_prefer_floor")
    node.get("cubic_coeff_a"), node.get("extrapolation_value"), node.get("exclude_outside")
    if node.get("antialias", 0) or node.get("axes") or node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("antialias, axes and keep_aspect_ratio_policy are not supported")
    if sizes is None or not len(sizes):
        if scales is None or not len(scales):
            raise Refused("its sizes depend on the inputs")
        exact = [n * float(s) for n, s in zip(v.shape, scales)]
        sizes = [math.floor(e + 1e-4) for e in exact]
        if any(abs(e - n) > 1e-3 for e, n in zip(exact, sizes)) and mode != "align_corners":
            raise Refused(f"scales of {[float(s) for s in scales]} for samples of {v.shape[1:]}. Expected whole extents")
    sizes = [int(n) for n in sizes]
    if sizes[0] != v.shape[0] and reader.fixed_batch == sizes[0]:
        sizes[0] = v.shape[0]
    if sizes[:2] != list(v.shape[:2]):
        raise Refused("it changes batch or channels")
    if kind == "nearest":
        return _nearest(sample_of(v), v, sizes, mode, rounding)
    if mode == "pytorch_half_pixel" and min(sizes[2:]) > 1:
        mode = "half_pixel"
    if kind not in ("linear", "bilinear") or len(sizes) != 4 or mode not in ("half_pixel", "asymmetric", "align_corners"):
        raise Refused(f"mode '{kind}' with '{mode}' for samples of {v.shape[1:]}. Expected bilinear of images, half_pixel, "
                      "asymmetric or align_corners")
    return Value.of(layers.resize(sample_of(v), *sizes[2:], grid=mode, name=reader.node_name(node)), sizes)


WINDOWS = {"Conv": _conv, "ConvTranspose": _transposed_conv, "MaxPool": _pool, "AveragePool": _pool,
           "GlobalAveragePool": _global_pool, "GlobalMaxPool": _global_pool, "ReduceMean": _reduce, "ReduceSum": _reduce,
           "ReduceMax": _reduce, "Pad": _pad, "Resize": _resize, "Upsample": _resize}
