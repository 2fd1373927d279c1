"""The networks of nets/ in PyTorch, with inputs on the device, for torch_step.py."""

import torch
from torch import nn

NETWORKS = ("mlperf", "paper", "lstm-small", "lstm-medium", "lstm-large")
VOCABULARY = 10000
# nets/lstm_lm/lstm_lm.cpp: hidden, unroll, dropout, clip_norm
LANGUAGE_MODELS = {"small": (200, 20, 0.0, 5.0), "medium": (650, 35, 0.5, 5.0), "large": (1500, 35, 0.65, 10.0)}


class CosmoFlow(nn.Module):
    """nets/cosmoflow/cosmoflow.hpp."""

    momentum, clip_norm = 0.9, None

    def __init__(self, features, head, channels, targets, size, batch, device, paper):
        super().__init__()
        self.features, self.head, self.paper = features, head, paper
        self.to(device, memory_format=torch.channels_last_3d)
        self.x = torch.rand(batch, channels, size, size, size, device=device).to(memory_format=torch.channels_last_3d)
        self.y = torch.rand(batch, targets, device=device)
        self.units = batch

    def loss(self):
        x = self.features(self.x)
        # flattens channels-last, as these networks do; the paper's network makes rows of 2048, all compared with one
        # label
        x = x.permute(0, 2, 3, 4, 1).reshape((self.x.shape[0], -1, 2048) if self.paper else (self.x.shape[0], -1))
        prediction = self.head(x).float()
        if self.paper:
            return nn.functional.l1_loss(prediction, self.y.unsqueeze(1).expand_as(prediction))
        return nn.functional.mse_loss(1.2 * torch.tanh(prediction), self.y)

    def carry_states(self):
        pass


def mlperf(size, batch, device):
    layers, channels = [], 4
    for filters in (32, 64, 128, 256, 512):
        layers += [nn.Conv3d(channels, filters, 3, padding=1), nn.LeakyReLU(0.3), nn.MaxPool3d(2)]
        channels = filters
    head = nn.Sequential(nn.Linear(512 * (size // 32) ** 3, 128), nn.LeakyReLU(0.3), nn.Dropout(0.5),
                         nn.Linear(128, 64), nn.LeakyReLU(0.3), nn.Dropout(0.5), nn.Linear(64, 4))
    return CosmoFlow(nn.Sequential(*layers), head, 4, 4, size, batch, device, paper=False)


def paper(size, batch, device):
    layers, channels = [], 1
    for filters, kernel, stride, pool in ((16, 3, 1, True), (32, 4, 1, True), (64, 4, 2, False), (128, 3, 1, False),
                                          (256, 3, 1, False), (256, 2, 1, False), (256, 2, 1, False)):
        layers += [nn.Conv3d(channels, filters, kernel, stride), nn.LeakyReLU(0.01)] + ([nn.AvgPool3d(2)] if pool else [])
        channels = filters
    head = nn.Sequential(nn.Dropout(0.5), nn.Linear(2048, 2048), nn.LeakyReLU(0.01), nn.Dropout(0.5), nn.Linear(2048, 256),
                         nn.LeakyReLU(0.01), nn.Dropout(0.5), nn.Linear(256, 3))
    return CosmoFlow(nn.Sequential(*layers), head, 1, 3, size, batch, device, paper=True)


class LanguageModel(nn.Module):
    """nets/lstm_lm/lstm_lm.hpp, with cuDNN's LSTM."""

    momentum = 0.0

    def __init__(self, hidden, unroll, dropout, clip_norm, batch, device):
        super().__init__()
        self.clip_norm, self.units = clip_norm, batch * unroll
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden, 2, dropout=dropout)
        self.output = nn.Linear(hidden, VOCABULARY)
        self.to(device)
        self.x = torch.randint(VOCABULARY, (unroll, batch), device=device)
        self.y = torch.randint(VOCABULARY, (unroll * batch,), device=device)
        self.states = [torch.zeros(2, batch, hidden, device=device) for _ in range(2)]

    def loss(self):
        steps, batch = self.x.shape
        h, self.new_states = self.lstm(self.dropout(self.embedding(self.x)), tuple(self.states))
        logits = self.output(self.dropout(h).reshape(steps * batch, -1))
        return nn.functional.cross_entropy(logits.float(), self.y) * steps  # summed over time, mean over the batch

    def carry_states(self):
        with torch.no_grad():
            for state, new in zip(self.states, self.new_states):
                state.copy_(new)


def make(net, size, batch, device):
    if net.startswith("lstm-"):
        return LanguageModel(*LANGUAGE_MODELS[net.removeprefix("lstm-")], batch, device)
    return {"mlperf": mlperf, "paper": paper}[net](size, batch, device)
