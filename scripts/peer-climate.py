#!/usr/bin/env python3
"""Times a training step of Tiramisu or DeepCAM in PyTorch, to compare with `keelson-bench step --net tiramisu|deepcam`.

Both networks are those of nets/tiramisu and nets/deeplab: the same layers, parameters and loss. Adam replaces LARC and
LAMB, which PyTorch does not have. Needs PyTorch.

    peer-climate.py tiramisu --size 192x288 --threads 2 [--channels-last] [--precision bf16]
"""

import argparse
import resource
import time

import torch
from torch import nn
from torch.nn import functional


class Dense(nn.Module):
    """Convolutions; each reads all previous maps and appends its result."""

    def __init__(self, channels, layers, growth=32, kernel=5, dropout=0.2):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(channels + i * growth, growth, kernel, padding=kernel // 2) for i in range(layers))
        self.dropout = dropout

    def forward(self, x):
        made = []
        for layer in self.layers:
            y = functional.dropout(functional.relu(layer(x), inplace=True), self.dropout)
            made.append(y)
            x = torch.cat([x, y], 1)
        return x, torch.cat(made, 1)


class Tiramisu(nn.Module):
    """SC18's FC-DenseNet."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(16, 64, 5, padding=2)
        self.down, self.transitions = nn.ModuleList(), nn.ModuleList()
        channels, skips = 64, []
        for layers in (2, 2, 2, 4):
            self.down.append(Dense(channels, layers))
            channels += 32 * layers
            skips.append(channels)
            self.transitions.append(nn.Conv2d(channels, channels, 1, stride=2))
        self.bottom = Dense(channels, 5)
        channels = 5 * 32
        self.ups, self.up = nn.ModuleList(), nn.ModuleList()
        for layers, skip in zip((4, 2, 2, 2), reversed(skips)):
            self.ups.append(nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1))
            self.up.append(Dense(channels + skip, layers))
            whole, channels = channels + skip + 32 * layers, 32 * layers
        self.last = nn.Conv2d(whole, 3, 1)

    def forward(self, x):
        def active(y):
            return functional.dropout(functional.relu(y, inplace=True), 0.2)

        x = active(self.first(x))
        skips = []
        for block, transition in zip(self.down, self.transitions):
            x, _ = block(x)
            skips.append(x)
            x = active(transition(x))
        _, new = self.bottom(x)
        for deconv, block in zip(self.ups, self.up):
            whole, new = block(torch.cat([deconv(new), skips.pop()], 1))
        return functional.dropout(self.last(whole), 0.2)


def norm(channels):
    return nn.BatchNorm2d(channels)


def conv(inputs, outputs, kernel=1, stride=1, dilation=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel - 1) // 2, dilation, bias=False)


def conv_norm(inputs, outputs, kernel=1, stride=1, dilation=1):
    return nn.Sequential(conv(inputs, outputs, kernel, stride, dilation), norm(outputs), nn.ReLU(inplace=True))


def separable(inputs, outputs, stride=1, dilation=1):
    depthwise = nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation, groups=inputs, bias=False)
    return nn.Sequential(depthwise, conv(inputs, outputs))


def deconv(inputs, outputs):
    return nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1, bias=False)


class XceptionBlock(nn.Module):
    def __init__(self, inputs, widths, stride=1, last_norm=False):
        super().__init__()
        layers, width = [], inputs
        for i, output in enumerate(widths):
            last = i + 1 == len(widths)
            layers.append(separable(width, output, stride if last else 1))
            if not last or last_norm:
                layers.append(norm(output))
            if not last:
                layers.append(nn.ReLU(inplace=True))
            width = output
        self.main = nn.Sequential(*layers)
        same = inputs == width and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(conv(inputs, width, 1, stride), norm(width))

    def forward(self, x):
        return self.main(x) + self.skip(x)


class DeepCam(nn.Module):
    """DeepLabv3+ of MLPerf HPC, output stride 16."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv_norm(16, 32, 3, 2), conv_norm(32, 64, 3))
        self.block1 = XceptionBlock(64, [128, 128, 128], 2)
        relu = nn.ReLU(inplace=True)
        self.encoder = nn.Sequential(
            XceptionBlock(128, [256] * 3, 2), relu, XceptionBlock(256, [728] * 3, 2), relu,
            *[layer for _ in range(16) for layer in (XceptionBlock(728, [728] * 3, last_norm=True), relu)],
            XceptionBlock(728, [728, 1024, 1024]),
            *[layer for i, o in ((1024, 1536), (1536, 1536), (1536, 2048))
              for layer in (separable(i, o, dilation=2), norm(o), relu)])
        self.branches = nn.ModuleList([conv_norm(2048, 256)] +
                                      [conv_norm(2048, 256, 3, dilation=d) for d in (6, 12, 18)])
        self.mean = conv(2048, 256)
        self.factor, self.offset = nn.Parameter(torch.ones(256, 1, 1)), nn.Parameter(torch.zeros(256, 1, 1))
        self.join = conv_norm(1280, 256)
        self.low = conv_norm(128, 48)
        self.up = nn.Sequential(*[layer for _ in range(2) for layer in (deconv(256, 256), norm(256), relu)])
        self.decoder = nn.Sequential(conv_norm(304, 256, 3), conv_norm(256, 256, 3), nn.Conv2d(256, 256, 1),
                                     deconv(256, 256), norm(256), relu, deconv(256, 3))

    def forward(self, x):
        low = functional.relu(self.block1(self.stem(x)))
        x = self.encoder(low)
        mean = functional.relu(self.factor * self.mean(x.mean((2, 3), keepdim=True)) + self.offset)
        parts = [branch(x) for branch in self.branches] + [mean.expand(-1, -1, *x.shape[2:])]
        return self.decoder(torch.cat([self.up(self.join(torch.cat(parts, 1))), self.low(low)], 1))


NETS = {
    # network, parameters, class weights
    "tiramisu": (Tiramisu, 7504835, (0.0217965995, 0.8120462456, 0.1661571549)),
    "deepcam": (DeepCam, 56454720, (1.0017299121, 2.6146112240, 1.7164197480)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--size", default="192x288", help="rows x columns")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    make, parameters, weights = NETS[o.net]
    net = make()
    assert sum(p.numel() for p in net.parameters()) == parameters
    rows, columns = map(int, o.size.split("x"))
    x = torch.randn(o.batch, 16, rows, columns)
    labels = torch.randint(0, 3, (o.batch, rows, columns))
    if o.channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    loss = nn.CrossEntropyLoss(torch.tensor(weights))

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.precision == "bf16"):
            logits = net(x)
        value = loss(logits.float(), labels)
        value.backward()
        optimizer.step()
        return value.item()

    for _ in range(2):
        step()
    seconds = []
    for _ in range(o.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds)[len(seconds) // 2]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{o.net} {o.size}, batch {o.batch}, {o.threads} threads, {o.precision}"
          f"{', channels last' if o.channels_last else ''}: median {median * 1e3:.0f} ms a step, peak {memory:.0f} MiB")


if __name__ == "__main__":
    main()
