"""The noise scale of the gradient, and searches for learning rates."""

import math

import pytest

import keelson
from conftest import batch_of, cubes, small_network


def make(context, **options):
    parameters = keelson.Parameters(small_network(), context, seed=1)
    settings = dict(batch=batch_of(16), epochs=3, learning_rate=0.01)
    return parameters, keelson.Trainer(parameters, cubes(64), **{**settings, **options})


def values(parameters):
    return [parameters[name].tobytes() for name in parameters]


def test_lr_range_changes_nothing(context, world, folder):
    plain, whole = make(context)
    parameters, trainer = make(context)
    for _ in range(3):
        next(trainer), next(whole)
    before, state = values(parameters), trainer.state.step
    found = trainer.lr_range(most=1e4, steps=40, report=folder + "/rates.html")
    assert found.diverged and found.suggestion and found.suggestion < found.learning_rates[-1]
    assert len(found.losses) == len(found.smoothed) == len(found.learning_rates) < 40
    assert len(set(world.allgather(str(found.losses)))) == 1
    assert values(parameters) == before and trainer.state.step == state
    if world.rank == 0:
        assert "Loss by learning rate" in open(folder + "/rates.html").read()
    assert trainer.lr_range(most=1e4, steps=40).losses == found.losses
    trainer.run()
    whole.run()
    assert values(parameters) == values(plain)


def test_lr_range_refuses_what_is_no_range(context):
    _, trainer = make(context)
    with pytest.raises(keelson.InputError, match="learning rates from 1.* to 0.5: expected"):
        trainer.lr_range(least=1, most=0.5)
    with pytest.raises(keelson.InputError, match="in 1 steps: expected at least 3"):
        trainer.lr_range(steps=1)
    with pytest.raises(keelson.InputError, match="with synchronization lag"):
        make(context, sync="lag")[1].lr_range()


def test_noise_scale(context, world):
    _, trainer = make(context, noise_scale=2, micro_batches=2)
    measured = [step.gradient_noise for step in trainer]
    assert math.isnan(measured[0]) and not any(map(math.isnan, measured[1:]))
    assert len(set(world.allgather(str(measured)))) == 1
    step = trainer.last_step
    assert step.gradient_noise > 0
    if step.gradient_square > 0:
        assert step.noise_scale == pytest.approx(step.gradient_noise / step.gradient_square)
    if world.size == 1:
        with pytest.raises(keelson.InputError, match=r"noise_scale=.* Give micro_batches= 2 or more, or start more ranks"):
            make(context, noise_scale=2)


def test_the_example_of_the_guide(alone, context):
    data = cubes(64)
    cubes_, amplitudes = data["x"], data["y"]
    parameters, trainer = make(context)
    example(parameters, trainer, cubes_, amplitudes)


def example(parameters, trainer, cubes, amplitudes):
    found = trainer.lr_range(steps=50)  # parameters and optimizer stay as they are
    trainer = keelson.Trainer(parameters, {"x": cubes, "y": amplitudes}, epochs=2, batch=16, learning_rate=found.suggestion or 1e-3,
                              micro_batches=2, noise_scale=5)
    trainer.run()
    print(trainer.last_step.noise_scale, trainer.history["noise_scale"])
