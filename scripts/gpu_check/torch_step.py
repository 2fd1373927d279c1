#!/usr/bin/env python3
"""A training step of Keelson's networks in PyTorch, with its fastest settings, for stage `torch` of gpu-check.sh.

Prints one JSON object: samples/s (words/s for language models) of each variant: eager or captured as a CUDA graph. On a
GPU: autocast, channels_last_3d, cudnn.benchmark, fused optimizers. Steps are timed ten at a time, as keelson-bench
does. fp16 runs without a gradient scaler, which only makes PyTorch faster.
"""

import argparse
import json
import statistics
import time

import torch

from torch_networks import NETWORKS, make

DTYPES = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def describe():
    cuda = torch.cuda.is_available()
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "device": torch.cuda.get_device_name() if cuda else "cpu"}


class Step:
    """One step: forward, backward, update, on constant inputs."""

    def __init__(self, net, options, device):
        self.net, self.device, self.dtype = net, device, DTYPES[options.precision]
        # fused: one kernel for all parameters, no copy to the host
        settings = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=net.momentum, **settings)

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        # Without the cache of converted parameters, as PyTorch's documentation requires for graph capture.
        with torch.autocast(self.device, dtype=self.dtype or torch.bfloat16, enabled=self.dtype is not None,
                            cache_enabled=False):
            loss = self.net.loss()
        loss.backward()
        if self.net.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.net.clip_norm)
        self.optimizer.step()
        self.net.carry_states()


def fence(device):
    if device == "cuda":
        torch.cuda.synchronize()


def rate(run, units, steps, device):
    """Units per second: the median of `steps` measurements."""
    together = 10 if device == "cuda" else 1
    for _ in range(2):
        run()
    fence(device)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        for _ in range(together):
            run()
        fence(device)
        seconds.append((time.perf_counter() - start) / together)
    return {"rate": units / statistics.median(seconds), "milliseconds": statistics.median(seconds) * 1e3,
            "milliseconds_fastest": min(seconds) * 1e3, "milliseconds_slowest": max(seconds) * 1e3}


def ceilings():
    """The highest rates that this GPU is seen to reach: bytes read and written of a copy, and FLOP/s of a product of
    random matrices in bf16. Medians of 20 runs, timed by the GPU's own clock."""
    def seconds(run):
        times = []
        for _ in range(23):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3)
        return statistics.median(times[3:])
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * 8192**3 / seconds(lambda: torch.mm(a, b))
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / seconds(lambda: target.copy_(source))
    return {"copy_bytes_per_second": copy, "bf16_flop_per_second": product}


def recorded(step):
    """The step as a CUDA graph, after some steps on a separate stream, as PyTorch's documentation requires."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    step.optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(options):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    tf32 = options.precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    variants = {}
    for name in ("eager", "CUDA graph"):
        net = make(options.net, options.size, options.batch, device)
        step = Step(net, options, device)
        try:
            if name == "CUDA graph":
                if device != "cuda":
                    raise RuntimeError("no GPU")
                run = recorded(step)
            else:
                run = step
            variants[name] = rate(run, net.units, options.steps, device)
        except RuntimeError as e:  # this variant does not run; the others still count
            variants[name] = {"error": str(e).splitlines()[0] if str(e) else type(e).__name__}
    if not any("rate" in v for v in variants.values()):
        raise SystemExit(f"no variant runs: {variants}")
    return {**describe(), "net": options.net, "batch": options.batch, "precision": options.precision,
            "parameters": sum(p.numel() for p in net.parameters()), "variants": variants}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", choices=NETWORKS, default="mlperf")
    parser.add_argument("--size", type=int, default=128, help="edge of CosmoFlow's samples")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=DTYPES, default="bf16")
    parser.add_argument("--steps", type=int, default=20, help="timed steps, or on a GPU tens of steps")
    parser.add_argument("--version", action="store_true", help="print only the versions")
    parser.add_argument("--ceilings", action="store_true", help="measure a copy and a product of matrices on the GPU")
    options = parser.parse_args()
    print(json.dumps(describe() if options.version else ceilings() if options.ceilings else measure(options)))


if __name__ == "__main__":
    main()
