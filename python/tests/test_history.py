"""What run() shows and returns, how training ends early, and how the learning rate changes."""

import io
import math
import os

import numpy
import pytest

import keelson
from conftest import batch_of, cubes, small_network


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make(context, data=None, **options):
    parameters = keelson.Parameters(small_network(), context, seed=1)
    settings = dict(batch=batch_of(16), epochs=4, learning_rate=0.01)
    return parameters, keelson.Trainer(parameters, data or cubes(64), **{**settings, **options})


def same(a, b):
    return all(numpy.array_equal(a[name], b[name]) for name in a)


def test_run_returns_the_history(context, world):
    mae = keelson.metrics.MeanAbsoluteError()
    _, trainer = make(context, validation=cubes(32, seed=1), metrics=[mae])
    history = trainer.run()
    assert history.reason == "all epochs done" and history is trainer.history
    assert list(history) == ["epoch", "step", "loss", "learning_rate", "seconds", "val_loss", "MAE"]
    assert history["epoch"] == [1, 2, 3, 4] and history["step"] == [4, 8, 12, 16]
    assert history["loss"][-1] < history["loss"][0] and history["learning_rate"] == [0.01] * 4
    assert history["MAE"][-1] == trainer.state.metric and history["val_loss"][-1] == trainer.state.validation_loss
    assert all(s > 0 for s in history["seconds"])
    assert history.best() == history["val_loss"].index(min(history["val_loss"]))
    assert world.allgather(str(history["val_loss"])) == [str(history["val_loss"])] * world.size
    assert "4 epochs" in repr(history) and "all epochs done" in repr(history)
    _, plain = make(context, epochs=1)
    with pytest.raises(KeyError, match="no 'val_loss'. Expected one of: epoch, .* Give the Trainer validation="):
        plain.run()["val_loss"]


def test_a_loop_fills_the_history(context):
    _, trainer = make(context)
    rows = [len(trainer.history["epoch"]) for _ in trainer]
    assert rows == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert trainer.history.reason == "all epochs done"


def test_progress(context, world, capsys, monkeypatch):
    make(context, validation=cubes(16), epochs=2)[1].run()
    assert capsys.readouterr().err == "", "nobody looks"
    make(context, validation=cubes(16), epochs=2)[1].run(progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (2 if world.rank == 0 else 0)
    for i, line in enumerate(lines):
        assert line.startswith(f"epoch {i + 1}/2: loss ") and ", val_loss " in line and line.endswith(" samples/s")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    make(context, epochs=2)[1].run()
    if world.rank == 0:
        shown = terminal.getvalue()  # a shorter line ends with spaces, which cover the longer one before
        assert shown.count("\r") >= 2 and shown.endswith("\n") and shown.rstrip().endswith("samples/s")
    terminal.truncate(0)
    make(context, epochs=2)[1].run(progress=False)
    assert terminal.getvalue() == ""


def test_what_a_trainer_needs_and_what_not(context):
    parameters = keelson.Parameters(small_network(), context)
    with pytest.raises(keelson.InputError, match="epochs is missing: the Trainer needs the number of passes"):
        keelson.Trainer(parameters, cubes(64))
    trainer = keelson.Trainer(parameters, cubes(64), epochs=1)
    assert trainer.state.global_batch == 32 * keelson.world().size and trainer.state.optimizer.startswith("adam ")
    assert trainer.learning_rate == 1e-3 and trainer.epochs == 1 and trainer.parameters is parameters


class At:
    """Calls `action` of the trainer after a step or an epoch."""

    def __init__(self, action, step=0, epoch=0):
        self.action, self.step, self.epoch = action, step, epoch

    def on_step(self, trainer, step):
        if step.step == self.step:
            self.action(trainer)

    def on_epoch(self, trainer, epoch):
        if epoch.epoch == self.epoch:
            self.action(trainer)


def test_stop(context, folder, world):
    """All ranks end together, also if only the last of them stops."""
    def stop(trainer):
        if world.rank == world.size - 1:
            trainer.stop()

    _, trainer = make(context, callbacks=[At(stop, epoch=2)], checkpoints=folder + "/a")
    history = trainer.run()
    assert history.reason == trainer.stop_reason == "stopped" and history["epoch"] == [1, 2] and trainer.state.step == 8
    assert os.path.exists(folder + "/a/step-0000000008.h5")
    trainer.run()
    assert trainer.history.reason == "all epochs done" and trainer.history["epoch"] == [1, 2, 3, 4]
    _, trainer = make(context, callbacks=[At(stop, step=6)], checkpoints=folder + "/b")
    assert trainer.run().reason == "stopped"
    assert trainer.state.step == (6 if world.size == 1 else 7), "several ranks agree in the next step"
    assert os.path.exists(f"{folder}/b/step-{trainer.state.step:010d}.h5")
    _, trainer = make(context)
    for step in trainer:
        if step.step == 3:
            stop(trainer)
    assert trainer.state.step == (3 if world.size == 1 else 4) and trainer.history.reason == "stopped"


def test_the_learning_rate_can_be_set(context, folder):
    def halve(trainer):
        trainer.learning_rate /= 2

    schedule = keelson.optim.Schedule(0.02, "linear", final=0.001, epochs=4)

    def halved(**options):
        return make(context, learning_rate=schedule, callbacks=[At(halve, step=6), At(halve, epoch=3)], **options)

    whole, trainer = halved()
    rates = [step.learning_rate for step in trainer]
    expected = [schedule.at(i / 4) * (1 if i < 6 else 0.5 if i < 12 else 0.25) for i in range(16)]
    assert numpy.allclose(rates, expected, rtol=1e-12)
    _, part = halved(max_steps=9, checkpoints=folder)
    part.run()
    resumed, rest = halved()
    rest.resume(folder)
    assert rest.learning_rate == rates[9]
    assert [step.learning_rate for step in rest] == rates[9:] and same(whole, resumed)
    _, plain = make(context)
    plain.learning_rate = 0.005
    assert next(plain).learning_rate == 0.005
    with pytest.raises(keelson.InputError, match="the learning rate is -1. Expected a number of at least 0"):
        plain.learning_rate = -1
    _, warm = make(context, learning_rate=keelson.optim.Schedule(0.1, warmup_epochs=1))
    with pytest.raises(keelson.InputError, match="cannot be set to 0.5 where the schedule .* has the rate 0"):
        warm.learning_rate = 0.5


def test_ranks_set_the_same_rate(context, world):
    _, trainer = make(context)
    if world.size == 1:
        return
    with pytest.raises(keelson.InputError, match="different learning rates"):
        trainer.learning_rate = 0.1 + world.rank


def noise(count):
    """Nothing can be learned, so that the validation gets worse."""
    random = numpy.random.default_rng(3)
    return {"x": random.random((count, 1, 8, 8, 8), numpy.float32), "y": random.random((count, 1), numpy.float32)}


def stopping(context, folder=None, **options):
    early = keelson.EarlyStopping(patience=3)
    return make(context, noise(32), validation={n: a[::-1] for n, a in noise(48).items()}, epochs=40, learning_rate=0.05,
                callbacks=[early, keelson.ReduceOnPlateau(factor=0.5, patience=2, minimum=0.001)],
                checkpoints=folder, keep=100, **options)


def test_early_stopping_and_plateaus_go_on_after_a_resume(context, folder):
    whole, trainer = stopping(context, folder + "/a")
    history = trainer.run()
    losses, rates = history["val_loss"], history["learning_rate"]
    best = losses.index(min(losses))
    assert history.reason == "stopped" and len(losses) == best + 1 + 3 < 40
    error = keelson.evaluate(whole, {n: a[::-1] for n, a in noise(48).items()}, batch=batch_of(16)).loss
    assert error == pytest.approx(losses[best], rel=1e-6), "the parameters are those of the best epoch"
    assert rates[best + 2] == rates[best + 1] and trainer.learning_rate == rates[best + 2] / 2
    steps = trainer.steps_per_epoch
    for done, out in ((1, "b"), (best + 2, "c"), (best + 2, "a")):
        resumed, rest = stopping(context, f"{folder}/{out}")
        rest.resume(f"{folder}/a/step-{done * steps:010d}.h5")
        assert rest.history["val_loss"] == losses[:done]
        again = rest.run()
        assert again["val_loss"] == losses and again["learning_rate"] == rates and again["epoch"] == history["epoch"]
        assert same(whole, resumed), "also if the best epoch is before the resume: best.h5 has it"


def test_early_stopping_by_a_metric(context):
    count = iter(range(100))
    rising = keelson.metrics.FunctionMetric(lambda p, t: numpy.full(len(t), min(next(count) // 1, 2)), "score",
                                            higher_is_better=True)
    history = make(context, validation=cubes(8), epochs=20, metrics=[rising],
                   callbacks=[keelson.EarlyStopping(patience=4, metric="score", restore_best=False)])[1].run()
    assert len(history["score"]) == history.best("score") + 1 + 4 < 20
    with pytest.raises(KeyError, match="no 'accuracy'"):
        make(context, callbacks=[keelson.EarlyStopping(metric="accuracy")])[1].run()


@pytest.mark.parametrize("make_one, words", [
    (lambda: keelson.EarlyStopping(patience=0), "patience is 0"),
    (lambda: keelson.ReduceOnPlateau(factor=2), "factor is 2"),
    (lambda: keelson.ReduceOnPlateau(patience=None), "patience is None"),
])
def test_wrong_settings_are_refused(make_one, words):
    with pytest.raises(keelson.InputError, match=words):
        make_one()


def test_is_better():
    history = keelson.History(["accuracy"])
    assert history.is_better("accuracy", 2, 1) and history.is_better("loss", 1, 2) and history.is_better("loss", 1, math.nan)
    assert not history.is_better("loss", math.nan, math.nan) and not history.is_better("loss", 1, 1)
