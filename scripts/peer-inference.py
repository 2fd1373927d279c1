#!/usr/bin/env python3
"""Times forward passes of an ONNX model in onnxruntime and in PyTorch, to compare with `keelson-bench step --inference`.

`keelson-bench step --inference --onnx FILE` writes the model. PyTorch runs the network that the file describes: in
plain and in channels-last layout, unchanged, frozen (torch.jit.optimize_for_inference) and by torch.compile. All
settings are tried, and the fastest is timed again. Needs the package onnx, and onnxruntime or PyTorch; a peer that is
not installed is left out.

    peer-inference.py cosmoflow.onnx --batch 1 --threads 2 [--precision bf16] [--peer torch --setting channels_last]
"""

import argparse
import contextlib
import os
import sys
import time
import warnings

import numpy
import onnx
from onnx import numpy_helper

try:
    import onnxruntime
except ImportError:
    onnxruntime = None
try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None


def median(values):
    return sorted(values)[len(values) // 2]


def time_calls(call, warmup, repeats):
    """Seconds of each call, and the last result."""
    for _ in range(warmup):
        result = call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def make_inputs(model, batch):
    """Made-up values of the graph's inputs: states are zero, whole numbers below 3."""
    random = numpy.random.default_rng(1)
    inputs = {}
    for value in model.graph.input:
        shape = [d.dim_value or batch for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT32:
            inputs[value.name] = random.integers(0, 3, shape, numpy.int32)
        elif value.name.endswith("_state"):
            inputs[value.name] = numpy.zeros(shape, numpy.float32)
        else:
            inputs[value.name] = random.random(shape, numpy.float32)
    return inputs


@contextlib.contextmanager
def quiet():
    """Drops standard error: Debian's onnxruntime 1.23 writes a thousand lines about its operators when it starts."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def onnxruntime_settings(file, inputs, o):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    with quiet():
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return {"all optimizations": lambda: lambda: session.run(None, inputs)[0]}


def symmetric(pads):
    """The pads of each dim if they are the same at both ends, else None."""
    half = len(pads) // 2
    return pads[:half] if pads[:half] == pads[half:] else None


def padded(x, pads, value):
    half = len(pads) // 2
    flat = [p for d in reversed(range(half)) for p in (pads[d], pads[half + d])]
    return functional.pad(x, flat, value=value)


def convolution(a, x, w, b=None):
    pads = symmetric(a["pads"])
    if pads is None:
        x, pads = padded(x, a["pads"], 0), 0
    run = (functional.conv1d, functional.conv2d, functional.conv3d)[w.dim() - 3]
    return run(x, w, b, a["strides"], pads, a["dilations"], a["group"])


def transposed_convolution(a, x, w, b=None):
    run = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[w.dim() - 3]
    pads = symmetric(a["pads"])
    if pads is not None:
        return run(x, w, b, a["strides"], pads, a["output_padding"], a["group"], a["dilations"])
    y = run(x, w, b, a["strides"], 0, 0, a["group"], a["dilations"])
    half = len(a["pads"]) // 2
    for d in range(half):
        y = y.narrow(2 + d, a["pads"][d],
                     y.shape[2 + d] - a["pads"][d] - a["pads"][half + d] + a["output_padding"][d])
    return y


def pooling(kind, a, x):
    n = x.dim() - 2
    if kind == "max":
        x = padded(x, a["pads"], float("-inf")) if any(a["pads"]) else x
        return (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[n - 1](x, a["kernel_shape"], a["strides"])
    pads = symmetric(a["pads"])
    if pads is None:
        raise NotImplementedError("average pooling with different pads at both ends")
    run = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[n - 1]
    return run(x, a["kernel_shape"], a["strides"], pads, count_include_pad=bool(a["count_include_pad"]))


def concatenation(a, *xs):
    return sum(xs, []) if isinstance(xs[0], list) else torch.cat(xs, a["axis"])


def product(a, x, w, b=None):
    if a.get("transA") or not a.get("transB") or a.get("alpha", 1) != 1 or a.get("beta", 1) != 1:
        raise NotImplementedError("Gemm other than x W^T + b")
    return functional.linear(x, w, b)


def in_order_of_torch(gates):
    """Rows of ONNX's gates (input, output, forget, cell) in PyTorch's order (input, forget, cell, output)."""
    i, o, f, c = numpy.split(gates, 4)
    return numpy.concatenate([i, f, c, o])


def lstm_weights(w, r, b):
    """Arrays of an LSTM node of one direction as torch.lstm wants them; biases of the input, then of the recurrence."""
    if len(w) != 1:
        raise NotImplementedError("LSTM of two directions")
    of_input, recurrent = numpy.split(b[0], 2)
    return in_order_of_torch(w[0]), in_order_of_torch(r[0]), numpy.stack([in_order_of_torch(of_input), in_order_of_torch(recurrent)])


def lstm(a, x, w, r, b, lengths, h, c):
    if lengths is not None or a.get("layout", 0) != 0:
        raise NotImplementedError("LSTM with lengths of sequences, or with the batch first")
    y, h, c = torch.lstm(x, (h, c), [w, r, b[0], b[1]], True, 1, 0.0, False, False, False)
    return y.unsqueeze(1), h, c


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": lambda a, x: pooling("average", a, x),
    "BatchNormalization": lambda a, x, scale, shift, mean, variance: functional.batch_norm(
        x, mean, variance, scale, shift, eps=a["epsilon"]),
    "Concat": concatenation,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Gather": lambda a, table, rows: functional.embedding(rows, table),
    "Gemm": product,
    "Identity": lambda a, x: x,
    "LSTM": lstm,
    "LeakyRelu": lambda a, x: functional.leaky_relu(x, a["alpha"]),
    "MaxPool": lambda a, x: pooling("max", a, x),
    "Mul": lambda a, x, y: x * y,
    "Relu": lambda a, x: functional.relu(x),
    "Reshape": lambda a, x, shape: x.reshape(shape),
    "Resize": lambda a, x, roi, scales, size: functional.interpolate(x, size=size[-(x.dim() - 2):], mode="bilinear"),
    "Shape": lambda a, x: list(x.shape[a["start"]:a["end"]]),
    "Split": lambda a, x: torch.split(x, x.shape[a["axis"]] // 2, a["axis"]),
    "Tanh": lambda a, x: torch.tanh(x),
    "Transpose": lambda a, x: x.permute(a["perm"]),
}


def make_torch_network(model):
    """A torch.nn.Module that computes the model's graph; whole numbers are lists, from which shapes are made."""
    nodes = [(OPERATORS.get(n.op_type), {a.name: onnx.helper.get_attribute_value(a)
                                         for a in n.attribute}, list(n.input), list(n.output)) for n in model.graph.node]
    missing = {n.op_type for n in model.graph.node} - set(OPERATORS)
    if missing:
        raise NotImplementedError(f"operators {', '.join(sorted(missing))}")
    arrays = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type == "Gather" and any(a.name == "axis" and a.i != 0 for a in n.attribute):
            raise NotImplementedError("Gather along another axis than the first")
        if n.op_type == "Split" and len(n.output) != 2:
            raise NotImplementedError("Split into more than two parts")
        if n.op_type == "LSTM":
            names = n.input[1:4]
            arrays.update(zip(names, lstm_weights(*(arrays[name] for name in names))))

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.constants = {}, {"": None}
            for i, (name, array) in enumerate(arrays.items()):
                if array.dtype.kind == "i":
                    self.constants[name] = array.tolist()
                else:
                    self.places[name] = f"value{i}"
                    self.register_parameter(f"value{i}", torch.nn.Parameter(torch.tensor(array), requires_grad=False))

        def forward(self, *inputs):
            values = {**self.constants, **{name: getattr(self, place) for name, place in self.places.items()}}
            values.update(zip((i.name for i in model.graph.input), inputs))
            for run, attributes, sources, results in nodes:
                found = run(attributes, *(values[s] for s in sources))
                values.update(zip(results, found if len(results) > 1 else [found]))
            return values[model.graph.output[0].name]

    return Network().eval()


def torch_settings(model, inputs, o):
    """Calls that prepare the network in one setting and return a call that runs it."""
    torch.set_num_threads(o.threads)
    make_torch_network(model)
    formats = {4: torch.channels_last, 5: torch.channels_last_3d} if len(inputs) == 1 else {}

    def prepare(channels_last, way):
        network, values = make_torch_network(model), [torch.from_numpy(x) for x in inputs.values()]
        if channels_last:
            x = values[0]
            for parameter in network.parameters():
                if parameter.dim() == x.dim():
                    parameter.data = parameter.data.contiguous(memory_format=formats[x.dim()])
            values = [x.contiguous(memory_format=formats[x.dim()])]
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=o.precision == "bf16", cache_enabled=way == "eager")
        with torch.no_grad(), autocast:  # both variants below put weights into the layout that kernels prefer
            if way == "compiled":
                from torch._inductor import config
                config.freezing = True
                network = torch.compile(network)
            if way == "frozen":
                network = torch.jit.optimize_for_inference(torch.jit.trace(network, tuple(values), check_trace=False))

        def run():
            with torch.inference_mode(way == "eager"), torch.no_grad(), autocast:
                return network(*values).float().numpy()

        return run

    settings = {}
    for way in ("eager", "frozen", "compiled"):
        for channels_last in (False, True) if next(iter(inputs.values())).ndim in formats else (False,):
            name = ("channels_last" if channels_last else "plain") + ("" if way == "eager" else " " + way)
            settings[name] = lambda channels_last=channels_last, way=way: prepare(channels_last, way)
    return settings


def report(peer, setting, seconds):
    print(f"{peer}, {setting}: median {median(seconds) * 1e3:.1f} ms ({min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f})",
          flush=True)


def time_peer(peer, settings, o):
    """Times all settings, then the fastest of them once more; returns a result of each peer for a comparison."""
    tried, result = {}, None
    for name, prepare in settings.items():
        if o.setting and name != o.setting:
            continue
        try:
            call = prepare()
            seconds, result = time_calls(call, o.warmup, o.repeats)
        except Exception as e:  # mostly of torch.compile, which needs a compiler
            print(f"{peer}, {name}: does not run: {str(e).strip().splitlines()[0][:200]}", flush=True)
            continue
        report(peer, name, seconds)
        tried[name] = median(seconds), call
    if not tried:
        sys.exit(f"{peer}: no setting runs; there are {', '.join(settings)}")
    if len(tried) > 1:
        fastest = min(tried, key=lambda name: tried[name][0])
        report(f"{peer}'s fastest", fastest, time_calls(tried[fastest][1], o.warmup, o.repeats)[0])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="ONNX model")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: PyTorch's autocast; onnxruntime has none")
    parser.add_argument("--peer", choices=["onnxruntime", "torch"], help="only this one")
    parser.add_argument("--setting", help="only this one: plain, channels_last, 'plain compiled' ...")
    o = parser.parse_args()
    warnings.simplefilter("ignore")  # torch.jit warns that it is deprecated
    model = onnx.load(o.file)
    inputs = make_inputs(model, o.batch)
    results = []
    if onnxruntime and o.peer != "torch" and o.precision == "fp32":
        results.append(time_peer(f"onnxruntime {onnxruntime.__version__}", onnxruntime_settings(o.file, inputs, o), o))
    if torch and o.peer != "onnxruntime":
        try:
            settings = torch_settings(model, inputs, o)
        except NotImplementedError as e:
            print(f"PyTorch is not timed: this script has not built {e}", flush=True)
        else:
            results.append(time_peer(f"PyTorch {torch.__version__}, {o.precision}", settings, o))
    if not results:
        sys.exit("nothing to time: onnxruntime and PyTorch are not installed, or --peer names one that is not")
    if len(results) == 2:
        difference = abs(results[0] - results[1]).max() / abs(results[0]).max()
        print(f"largest difference between the two: {difference:.1e} of the largest result")
        if not difference < 1e-3:
            sys.exit("the two peers compute different results")


if __name__ == "__main__":
    main()
