"""Trains a user-defined network on NumPy arrays: it learns the amplitude of noise."""
import numpy

import keelson
from keelson import layers

graph = keelson.Graph("amplitude")
x, y = graph.input("x", (1, 8, 8, 8)), graph.input("y", (1,))
h = layers.relu(layers.conv(x, 8, name="conv1"))
h = layers.dense(layers.flatten(layers.average_pool(h, 8)), 1, name="head")
graph.output("prediction", h)
layers.mse(h, y)

random = numpy.random.default_rng(1)
amplitudes = random.random((256, 1), dtype="float32")
cubes = amplitudes[:, :, None, None, None] * (2 * random.random((256, 1, 8, 8, 8), dtype="float32") - 1)
parameters = keelson.Parameters(graph, keelson.Context(), seed=1)
trainer = keelson.Trainer(parameters, {"x": cubes[:192], "y": amplitudes[:192]}, epochs=20, batch=16, learning_rate=0.01)
history = trainer.run()
predicted = keelson.Inference(parameters, batch=16)(cubes[192:])
first, last = history["loss"][0], history["loss"][-1]
print(f"loss {first:.4f} -> {last:.5f}; error {abs(predicted - amplitudes[192:]).mean():.4f}")
