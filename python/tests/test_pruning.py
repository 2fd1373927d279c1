"""Trainings that leave samples out."""

import numpy
import pytest

import keelson
from conftest import batch_of
from keelson import layers, optim


def points(wrong=20, count=400):
    """Two classes of points of a plane, of which the first `wrong` have the other class' number."""
    random = numpy.random.default_rng(1)
    y = random.integers(0, 2, count).astype(numpy.int32)
    x = (random.normal(size=(count, 2)) + 3 * (2 * y[:, None] - 1)).astype(numpy.float32)
    y[:wrong] = 1 - y[:wrong]
    return {"x": x, "y": y}


def train(context, rule, ratio=None):
    graph = keelson.Graph("points")
    x, y = graph.input("x", (2,)), graph.input("y", (), "int32")
    logits = layers.dense(layers.tanh(layers.dense(x, 8)), 2)
    graph.output("prediction", logits)
    layers.cross_entropy(logits, y)
    trainer = keelson.Trainer(keelson.Parameters(graph, context, seed=1), points(), batch=batch_of(20), epochs=16,
                              optimizer=optim.Adam(), learning_rate=0.01, prune_samples=rule, prune_ratio=ratio)
    trainer.run()
    return trainer


def test_rules_use_fewer_samples(context):
    assert train(context, "none").state.samples == 16 * 400
    for rule in ("infobatch", "random", "kakurenbo", "forgetting", "el2n"):
        trainer = train(context, rule)
        used = trainer.samples["used"]
        assert trainer.state.samples == sum(used) < 0.92 * 16 * 400, rule
        assert min(used) >= 3 and max(used) <= 16, rule  # the first epoch and the last two have all


@pytest.mark.parametrize("rule", ["infobatch", "el2n", "forgetting"])
def test_wrong_labels_have_the_largest_scores(context, rule):
    scores = numpy.array(train(context, rule).samples["score"])
    highest = set(numpy.argsort(-scores)[:20])
    assert len(highest & set(range(20))) >= 16, sorted(highest)


def test_refusals(context):
    with pytest.raises(keelson.InputError, match="no rule for leaving samples out is called 'infobach'; expected none, infobatch"):
        train(context, "infobach")
    with pytest.raises(keelson.InputError, match="expected 0 to below 1"):
        train(context, "random", 1.0)
    with pytest.raises(keelson.InputError, match="give it prune_samples"):
        train(context, "none").samples
