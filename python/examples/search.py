"""Searches for a network that finds the kind of each sample in a table, and lets the best networks predict together."""
import numpy

import keelson

random = numpy.random.default_rng(1)
x = random.normal(3, 2, (800, 5))  # rows of measurements, in any units
y = (x[:, 0] > 4).astype(int) + (x[:, 1] > 3.6)  # the class of each row

found = keelson.search((x[:600], y[:600]), networks=20, seconds=60, epochs=16, first_epochs=4, out="search",
                       space={"dense": {"units": [16, 32, 64]}, "training": {"batch": [32, 64]}})
model = found.load()
probabilities = model(x[700:])
print(f"{found.best.design}: accuracy {(probabilities.argmax(1) == y[700:]).mean():.3f}")

ensemble = keelson.Ensemble([found.load(network.number) for network in found.ranking[:3]])
ensemble.calibrate(x[600:700], y[600:700])
scores = ensemble.scores(x[700:], y[700:])
unsure = ensemble.uncertainty(x[700:])["epistemic"].argmax()
print(f"three networks: NLL {scores['nll']:.3f}, accuracy {scores['accuracy']:.3f}; least agreed on row {700 + unsure}")
