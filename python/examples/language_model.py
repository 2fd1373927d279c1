"""Trains an LSTM language model on made-up text whose best possible perplexity is known, and writes text with it."""
import argparse

import numpy

import keelson
from keelson import data, metrics, nets, optim

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", default="text")
parser.add_argument("--words", type=int, default=300_000)
parser.add_argument("--epochs", type=int, default=4)
o = parser.parse_args()
best = data.generate_text(o.folder, words=o.words, validation_words=20_000, vocab_size=300, branching=8)
text = data.TextDataset([o.folder + "/ptb.train.txt"], streams=20, unroll=35)
held_out = data.TextDataset([o.folder + "/ptb.valid.txt"], streams=20, unroll=35, like=text, pad=True)

size = dict(hidden=128, layers=1)
parameters = keelson.Parameters(nets.lstm_lm(text.vocabulary_size, unroll=35, **size), keelson.Context())
trainer = keelson.Trainer(parameters, text, held_out, batch=20, epochs=o.epochs, optimizer=optim.SGD(clip_norm=5),
                          learning_rate=optim.Schedule(1.0, "decay", decay_factor=0.5, flat_epochs=2),
                          metrics=[metrics.Perplexity()])
trainer.run()
print(f"perplexity {trainer.state.metric:.2f}, best possible {best['best']:.2f}, of bigrams {best['bigram']:.2f}")

# The same parameters in a network that reads one token at a time, and keeps its states from call to call.
writer = keelson.Parameters(nets.lstm_lm(text.vocabulary_size, unroll=1, logits_output=True, **size), keelson.Context())
for name, values in parameters.items():
    writer[name] = values
inference, random = keelson.Inference(writer), numpy.random.default_rng(1)
token, words = text.encode(["<eos>"])[0], []
for _ in range(40):
    logits = inference(numpy.int32([[token]]), carry_states=True)[0]
    token = random.choice(len(logits), p=numpy.exp(logits - logits.max()) / numpy.exp(logits - logits.max()).sum())
    words.append(text.decode([token])[0])
print(" ".join(words).replace("<eos>", "\n"))
