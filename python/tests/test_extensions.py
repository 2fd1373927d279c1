"""What scientists add to a training: reports, files of parameters, gradients, transforms and other networks."""

import json
import os

import numpy
import pytest

import keelson
from conftest import batch_of, cubes, small_network


def make(context, data=None, **options):
    parameters = keelson.Parameters(small_network(), context, seed=1)
    settings = dict(batch=batch_of(16), epochs=2, learning_rate=0.01)
    return parameters, keelson.Trainer(parameters, data or cubes(64), **{**settings, **options})


def same(a, b):
    return list(a) == list(b) and all(numpy.array_equal(a[name], b[name]) for name in a)


def records(folder, kind):
    with open(folder + "/metrics.jsonl") as lines:
        return [record for record in map(json.loads, lines) if record["type"] == kind]


def test_a_report_is_written(context, folder, world):
    _, trainer = make(context, report=folder + "/run", validation=cubes(16), max_steps=6, checkpoints=folder + "/run/checkpoints")
    trainer.run()
    assert sorted(os.listdir(folder + "/run")) == ["checkpoints", "metrics.jsonl", "report.html", "run.lock"]
    trainer.close()
    world.barrier()
    assert not os.path.exists(folder + "/run/run.lock")
    assert [r["step"] for r in records(folder + "/run", "step")] == [1, 2, 3, 4, 5, 6]
    page = open(folder + "/run/report.html").read()
    assert "small" in page and "step limit reached" in page and "conv1" in page
    _, again = make(context, report=folder + "/run", validation=cubes(16), checkpoints=folder + "/run/checkpoints")
    again.resume(folder + "/run/checkpoints")
    for _ in again:
        pass
    world.barrier()
    assert [r["step"] for r in records(folder + "/run", "step")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [r["epoch"] for r in records(folder + "/run", "epoch")] == [1, 2]
    _, cell = make(context, report=folder + "/run")  # a cell of a notebook runs again
    cell.run()
    world.barrier()
    assert "all epochs done" in open(folder + "/run/report.html").read()
    assert len(records(folder + "/run", "step")) == 8 and records(folder + "/run", "event")[0]["event"] == "start"


def test_parameters_have_files(context, folder, program):
    parameters, trainer = make(context)
    parameters.save(folder + "/first.h5")
    first = {name: parameters[name] for name in parameters}
    trainer.run()
    parameters.save(folder + "/trained.h5")
    fresh = keelson.Parameters(small_network(), context, seed=5)
    fresh.load(folder + "/trained.h5")
    assert same(fresh, parameters)
    parameters.load(folder + "/first.h5")
    assert same(parameters, first)
    state = keelson.Checkpoint(folder + "/trained.h5", comm=context.comm).state
    assert state.network == "small" and state.topology == parameters.graph.topology
    with pytest.raises(keelson.InputError, match="conv1/weights"):
        keelson.Parameters(small_network(filters=4), context).load(folder + "/first.h5")


def test_gradients(context, world):
    data = cubes(batch_of(16) * world.size)
    parameters, trainer = make(context, data, optimizer=keelson.optim.SGD(), shuffle=False, validation=cubes(16))
    with pytest.raises(keelson.InputError, match=r"there are no gradients: .* Call gradients\(\) right after trainer.step\(\)"):
        trainer.gradients()
    before = {name: parameters[name] for name in parameters}
    next(trainer)
    gradients = trainer.gradients()
    assert list(gradients) == list(parameters)
    for name, gradient in gradients.items():
        assert gradient.shape == before[name].shape and numpy.abs(gradient).max() > 0
        assert numpy.allclose(parameters[name], before[name] - numpy.float32(0.01) * gradient, rtol=1e-6, atol=1e-7)
    # of the mean over the samples of all ranks: 2 (p - y) of the squared error, by the bias of the last layer
    for name, values in before.items():
        parameters[name] = values
    predicted = keelson.Inference(parameters, batch=16)(data["x"])
    assert numpy.allclose(gradients["head/bias"], 2 * (predicted - data["y"]).mean(), rtol=1e-4)
    with pytest.raises(keelson.InputError, match="there are no gradients"):
        trainer.gradients()
    mine = {name: a[world.rank::world.size] for name, a in cubes(16).items()}
    trainer.step(mine)
    assert trainer.gradients()["conv1/weights"].any()
    trainer.validate()
    with pytest.raises(keelson.InputError, match="until a validation"):
        trainer.gradients()

    class Norms:
        seen = []

        def on_step(self, trainer, step):
            self.seen.append(float(sum((g ** 2).sum() for g in trainer.gradients().values())))

    make(context, callbacks=[Norms()])[1].run()
    assert len(Norms.seen) == 8 and min(Norms.seen) > 0


def flipped(sample, seed):
    random = numpy.random.default_rng(seed)
    return {"x": sample["x"][:, ::-1] if random.random() < 0.5 else sample["x"]}


def test_a_transform_is_the_same_on_all_ranks_and_after_a_resume(context, folder):
    whole, trainer = make(context, transform=flipped, reproducible=True)
    trainer.run()
    alone, one = make(keelson.Context(), transform=flipped, batch=16, reproducible=True, loader_threads=3)
    one.run()
    assert same(whole, alone)
    shapes = []
    make(context, transform=lambda sample, seed: shapes.append({n: a.shape for n, a in sample.items()}) or {})[1].run()
    assert shapes and all(s == {"x": (1, 8, 8, 8), "y": (1,)} for s in shapes)
    assert not same(whole, (plain := make(context, reproducible=True))[0]) and plain[1].run()
    assert not same(whole, plain[0])
    _, part = make(context, transform=flipped, reproducible=True, max_steps=3, checkpoints=folder)
    part.run()
    resumed, rest = make(context, transform=flipped, reproducible=True)
    rest.resume(folder)
    rest.run()
    assert same(whole, resumed)


@pytest.mark.parametrize("transform, words", [
    (5, "transform is a int. Expected a keelson.data.SampleTransform or a function"),
    (lambda sample, seed: None, "returned a NoneType for sample"),
    (lambda sample, seed: {"x": sample["x"][:, :4]}, r"has the shape (1, 4, 8, 8). Expected (1, 8, 8, 8)"),
    (lambda sample, seed: {"x": sample["x"].astype("float64")}, "has the dtype float64. Expected float32"),
    (lambda sample, seed: {"z": sample["x"]}, "returned the fields ['z']"),
])
def test_transforms_that_do_not_fit_are_refused(context, transform, words):
    with pytest.raises(keelson.InputError) as raised:
        make(context, transform=transform)[1].run()
    assert words in str(raised.value)


def test_an_exception_of_a_transform_ends_the_training(context):
    def fails(sample, seed):
        raise LookupError("no such sample")

    with pytest.raises(LookupError, match="no such sample"):
        make(context, transform=fails)[1].run()


def test_a_transform_stops_the_training(context):
    seen = []

    def looks(sample, seed):
        seen.append(seed)
        if len(seen) == 20:
            trainer.stop()
        return {}

    _, trainer = make(context, transform=looks, epochs=50)
    assert trainer.run().reason == "stopped" and trainer.state.step < 100


def test_channels_are_removed(context):
    parameters, trainer = make(context)
    trainer.run()
    change = keelson.change_channels(parameters.graph, {"conv1": [0, 2, 5]})
    assert change.graph.parameters["conv1/weights"] == (3, 1, 3, 3, 3)
    assert change.maps["head/weights"] == ("head/weights", [None, [0, 2, 5]])
    small = parameters.remap(change.graph, {name: indices for name, (_, indices) in change.maps.items()})
    assert numpy.array_equal(small["conv1/weights"], parameters["conv1/weights"][[0, 2, 5]])
    assert numpy.array_equal(small["head/weights"], parameters["head/weights"][:, [0, 2, 5]])
    wider = parameters.remap(small_network(filters=9), {"conv1/weights": [[*range(8), -1]], "conv1/bias": [[*range(8), -1]],
                                                        "head/weights": [None, [*range(8), 0]]})
    assert numpy.array_equal(wider["head/weights"][:, 8], parameters["head/weights"][:, 0])
    with pytest.raises(keelson.InputError, match="conv1"):
        keelson.change_channels(parameters.graph, {"conv1": [9]})
    with pytest.raises(keelson.InputError, match="conv1/weights"):
        parameters.remap(small_network(filters=9))


def shrinks(state, parameters):
    """Removes the channel with the smallest weights before the second epoch."""
    if state.epoch != 1:
        return None
    norms = numpy.abs(parameters["conv1/weights"]).sum(axis=(1, 2, 3, 4))
    change = keelson.change_channels(parameters.graph, {"conv1": [i for i in range(len(norms)) if i != norms.argmin()]})
    change.text = "conv1 loses its smallest channel"
    return change


def test_a_network_changes_while_it_trains(context, folder):
    told = []

    class Listens:
        def on_network_change(self, trainer, text):
            told.append(text)

    parameters, trainer = make(context, change_network=shrinks, epochs=3, callbacks=[Listens()])
    history = trainer.run()
    assert told == ["conv1 loses its smallest channel"] and parameters["conv1/weights"].shape == (7, 1, 3, 3, 3)
    assert parameters.graph.parameters["head/weights"] == (1, 7) and history["loss"][-1] < history["loss"][0]
    _, part = make(context, change_network=shrinks, epochs=3, max_steps=6, checkpoints=folder)
    part.run()
    resumed, rest = make(context, change_network=shrinks, epochs=3)
    rest.resume(folder)
    rest.run()
    assert same(parameters, resumed)
    with pytest.raises(keelson.InputError, match="change_network with apoptosis"):
        make(context, change_network=shrinks, apoptosis="normal")
    with pytest.raises(keelson.InputError, match="change_network returned a int"):
        make(context, change_network=lambda state, parameters: 5)[1].run()


def test_a_report_that_cannot_be_made_is_refused(context, folder, world):
    file = folder + "/not-a-folder"
    if world.rank == 0:
        open(file, "w").close()
    world.barrier()
    callbacks = [keelson.EarlyStopping(3)]
    with pytest.raises(keelson.InputError, match="report = '.*not-a-folder': the folder cannot be made"):
        make(context, report=file, callbacks=callbacks)


def test_a_report_of_another_process_is_refused_on_all_ranks(context, folder, world):
    if world.rank == 0:
        lock = {"token": "0123abcd", "since": "2026-01-01 00:00:00", "host": "another-machine", "boot": "1", "numbering": "1",
                "process": 1, "started": 1, "slurm_job": "", "slurm_cluster": "", "user": 0, "slurm_restart": 0}
        with open(folder + "/run.lock", "w") as file:
            json.dump(lock, file)
    world.barrier()
    with pytest.raises(keelson.InputError, match="report = .*: is in use by process 1 on another-machine"):
        make(context, report=folder)


def test_a_second_resume_repeats_no_lines(context, folder, world):
    parameters, trainer = make(context, report=folder, checkpoints=folder + "/checkpoints", max_steps=4, epochs=3)
    trainer.run()
    _, rest = make(context, report=folder, epochs=3)
    for _ in range(2):
        rest.resume(folder + "/checkpoints")
        rest.run()
    world.barrier()
    steps = [record["step"] for record in records(folder, "step")]
    assert steps == sorted(set(steps)) and len(steps) == 12


def test_a_callback_cannot_train_again(context):
    class Again(keelson.Callback):
        def on_step(self, trainer, step):
            trainer.run()

    _, trainer = make(context, callbacks=[Again()], max_steps=2)
    with pytest.raises(keelson.Error, match="run\\(\\) was called by a callback of this trainer"):
        trainer.run()
