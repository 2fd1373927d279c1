"""Training in all the ways that notebooks use."""

import os
import signal
import threading
import warnings

import numpy
import pytest

import keelson
from conftest import batch_of, cubes, small_network


def make(context, data=None, **options):
    parameters = keelson.Parameters(small_network(dropout=options.pop("dropout", 0)), context, seed=1)
    settings = dict(batch=batch_of(16), epochs=3, learning_rate=0.01, optimizer=keelson.optim.Adam())
    return parameters, keelson.Trainer(parameters, data or cubes(64), **{**settings, **options})


def same(a, b):
    return all(numpy.array_equal(a[name], b[name]) for name in a)


def test_it_learns(context):
    mae = keelson.metrics.MeanAbsoluteError()
    parameters, trainer = make(context, validation=cubes(32, seed=1), epochs=30, metrics=[mae])
    before = trainer.validate()
    losses = [step.loss for step in trainer]
    assert len(losses) == 120 and trainer.steps_per_epoch == 4
    assert losses[-1] < 0.1 * losses[0]
    after = trainer.validate()
    assert after.metric == after.metrics["MAE"] < 0.2 * before.metric
    assert after.metric == keelson.evaluate(parameters, cubes(32, seed=1), batch=batch_of(16), metrics=[mae]).metric
    assert trainer.stop_reason == "all epochs done" and trainer.state.best_metric <= after.metric


def classifier(context, x, y, **options):
    graph = keelson.Graph("classes")
    logits = keelson.layers.dense(graph.input("x", (4,)), 3, name="head")
    keelson.layers.cross_entropy(logits, graph.input("y", (), "int32"))
    return keelson.Trainer(keelson.Parameters(graph, context, seed=1), {"x": x, "y": y}, batch=batch_of(8), epochs=1, **options)


def test_a_wrong_sample_is_named(context):
    x = numpy.random.default_rng(1).random((32, 4), numpy.float32)
    y = numpy.arange(32, dtype=numpy.int32) % 3
    y[13] = 3
    expected = r"the cause is in input y: sample 13 of the data has the class 3; expected 0 to 2, or -1 \(ignored\)"
    with pytest.raises(keelson.Error, match="the loss became NaN .*" + expected + ".* Mend the data"):
        classifier(context, x, y).run()
    with pytest.raises(keelson.Error, match=expected):
        classifier(context, x, numpy.abs(y) % 3, validation={"x": x, "y": y}).run()
    y[13], x[21, 2] = -1, numpy.nan
    with pytest.raises(keelson.Error, match="the cause is in input x: sample 21 of the data has a NaN"):
        classifier(context, x, y).run()
    x[21, 2] = 0
    assert classifier(context, x, y).run().reason == "all epochs done"
    assert classifier(context, x, y.astype("int64")).run().reason == "all epochs done"
    with pytest.raises(keelson.InputError, match="y has numbers beyond int32"):
        classifier(context, x, y.astype("int64") << 40)


def test_advice_names_the_arguments_of_python(context):
    with pytest.raises(keelson.Error, match="a longer warm-up or clip_norm=$"):
        make(context, learning_rate=1e30, optimizer=keelson.optim.SGD())[1].run()
    with pytest.raises(keelson.InputError, match=r"micro-batches \(micro_batches=\) of a batch of .* Give another micro_batches= or batch="):
        make(context, micro_batches=5)


def test_a_loop_and_run_give_the_same_bits(context, folder):
    looped, trainer = make(context, validation=cubes(32), dropout=0.5, checkpoints=folder + "/a", checkpoint_steps=3)
    for step in trainer:
        pass
    whole, other = make(context, validation=cubes(32), dropout=0.5, checkpoints=folder + "/b", checkpoint_steps=3)
    assert other.run().reason == "all epochs done"
    assert step.step == 12 and same(looped, whole)
    assert sorted(os.listdir(folder + "/a")) == sorted(os.listdir(folder + "/b")) != []


def test_a_resumed_run_gives_the_same_bits(context, folder):
    whole, trainer = make(context)
    trainer.run()
    _, part = make(context, max_steps=5, checkpoints=folder)
    assert part.run().reason == "step limit reached"
    resumed, rest = make(context)
    rest.resume(folder)
    assert rest.state.step == 5
    assert len(list(rest)) == 7 and same(whole, resumed)
    assert all(numpy.array_equal(a, b) for a, b in zip(whole.state("conv1/weights"), resumed.state("conv1/weights")))
    with pytest.raises(keelson.InputError, match="was trained with the optimizer 'adam"):
        make(context, optimizer=keelson.optim.SGD())[1].resume(folder)


def test_a_script_that_runs_again_loses_nothing(context, folder, world):
    make(context, max_steps=6, checkpoints=folder, checkpoint_steps=2, keep=5)[1].run()
    first = sorted(os.listdir(folder))
    _, again = make(context, max_steps=2, checkpoints=folder, checkpoint_steps=1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again.run()
    expected = [f"checkpoints that do not lead to step 1 were moved to {folder}/abandoned-1"] if world.rank == 0 else []
    assert [str(w.message) for w in told] == expected
    assert sorted(os.listdir(folder + "/abandoned-1")) == first
    assert sorted(os.listdir(folder)) == ["abandoned-1", "step-0000000001.h5", "step-0000000002.h5"]


class Recorder(keelson.Callback):
    def __init__(self):
        self.events = []

    def on_start(self, trainer, resumed_from):
        self.events.append("start" + resumed_from)

    def on_epoch_start(self, trainer):
        self.events.append("begin")

    def on_step(self, trainer, step):
        self.events.append(step.step)
        assert trainer.state.step == step.step

    def on_epoch(self, trainer, epoch):
        self.events.append(f"epoch {epoch.epoch}")
        assert epoch.validation_loss > 0

    def on_stop(self, trainer, reason):
        self.events.append(reason)


@pytest.mark.parametrize("loop", [False, True])
def test_callbacks_are_called(context, loop):
    recorder = Recorder()
    _, trainer = make(context, validation=cubes(16), epochs=2, callbacks=[recorder])
    list(trainer) if loop else trainer.run()
    assert recorder.events == ["start", "begin", 1, 2, 3, 4, "epoch 1", "begin", 5, 6, 7, 8, "epoch 2",
                               "all epochs done"]


def test_an_exception_of_a_callback_ends_the_training(context):
    class Stop:
        def on_step(self, trainer, step):
            if step.step == 2:
                raise LookupError("enough")

    _, trainer = make(context, callbacks=[Stop()])
    with pytest.raises(LookupError, match="enough"):
        trainer.run()
    with pytest.raises(keelson.InputError, match="has no method that the trainer calls"):
        make(context, callbacks=[print])
    with pytest.raises(keelson.InputError):
        make(context, cubes(3), callbacks=[Stop()])


def test_steps_on_arrays_of_the_caller(context, world):
    data = cubes(8)
    parameters, trainer = make(context)
    mine = {name: a[world.rank::world.size] for name, a in data.items()}
    first = trainer.step(mine).loss
    for _ in range(60):
        loss = trainer.step(mine).loss
    assert loss < 0.1 * first
    # The sum over all ranks of a short batch is that of all samples.
    assert numpy.isclose(keelson.evaluate(parameters, data, batch=batch_of(8)).loss, trainer.step(mine).loss, rtol=1e-4)


@pytest.mark.parametrize("batch, words", [
    (lambda d: {"x": d["x"]}, "the batch has no field 'y'"),
    (lambda d: {**d, "z": d["x"]}, "a field 'z'. Expected x, y"),
    (lambda d: {**d, "y": d["y"][:3]}, "y has the shape (3, 1): 3 samples of (1,). Expected as many samples as the other fields have, 4 samples of (1,)"),
    (lambda d: {**d, "x": d["x"][:, :, :4]}, "x has the shape (4, 1, 4, 8, 8): 4 samples of (1, 4, 8, 8). Expected at most"),
    (lambda d: {**d, "x": d["x"].astype("float64")}, "x has the dtype float64. Expected float32: give"),
    (lambda d: {**d, "x": "noise"}, "x is a str"),
])
def test_batches_that_do_not_fit_are_refused(context, batch, words):
    _, trainer = make(context)
    with pytest.raises(keelson.InputError) as raised:
        trainer.step(batch(cubes(4)))
    assert words in str(raised.value)


@pytest.mark.parametrize("data, words", [
    ({"x": cubes(64)["x"]}, "y"),
    ({**cubes(64), "y": cubes(63)["y"]}, "y has 63 samples"),
    ({**cubes(64), "y": cubes(64)["y"].astype("float64")}, "y has the dtype float64. Expected float32"),
    ({"x": cubes(64)["y"], "y": cubes(64)["y"]}, "the samples' x is 1 float32, but the network takes"),
    ({**cubes(64), "z": cubes(64)["y"]}, "z"),
    (cubes(8), "a batch of 16"),
    (5, "the data are a int"),
])
def test_data_that_do_not_fit_are_refused(context, data, words):
    with pytest.raises(keelson.Error) as raised:
        make(context, data)
    assert words in str(raised.value)


def test_the_optimizers_and_schedules(context):
    optim = keelson.optim
    rates = optim.Schedule(0.1, "cosine", final=0.01, epochs=2, warmup_epochs=1)
    assert rates.at(0) == 0 and abs(rates.at(2) - 0.01) < 1e-9
    assert optim.Schedule(1, "steps", steps=[(2, 0.5)]).at(3) == 0.5
    for optimizer in (optim.SGD(momentum=0.9, nesterov=True), optim.Adam(larc="clip"), optim.AdamW(weight_decay=0.1),
                      optim.Lion(weight_decay=0.1),
                      optim.AdamWScheduleFree(weight_decay=0.1), optim.LARS(), optim.LAMB(adapt_vectors=True),
                      optim.Muon(ns_steps=4, adjust_lr_fn="match_rms_adamw", adamw="none"),
                      optim.SGD(groups=[optim.ParameterGroup(["*bias"], lr_multiplier=2)])):
        _, trainer = make(context, optimizer=optimizer, learning_rate=rates, epochs=1)
        assert numpy.isfinite([step.loss for step in trainer]).all(), optimizer
    with pytest.raises(keelson.InputError, match="expected one of none, scale and clip"):
        optim.Adam(larc="trim")
    with pytest.raises(keelson.InputError, match="expected one of original, match_rms_adamw and spectral_unclamped"):
        optim.Muon(adjust_lr_fn="best")
    with pytest.raises(TypeError, match="ns_steps: int = 5"):
        optim.Muon(ns_steps=5.5)
    with pytest.raises(TypeError, match="Adam has no setting 'momentum'"):
        optim.Adam(momentum=0.9)
    with pytest.raises(TypeError, match="beta1: float = 0.9"):
        optim.Adam(beta1="much")


def test_the_accuracy_of_classes(context, alone):
    graph = keelson.Graph("classes")
    logits = keelson.layers.dense(graph.input("x", (4,)), 3)
    graph.output("prediction", logits)
    keelson.layers.cross_entropy(logits, graph.input("y", (), dtype="int32"))
    x = numpy.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    data = {"x": x, "y": x[:, :3].argmax(axis=1).astype("int32")}
    parameters = keelson.Parameters(graph, context)
    keelson.Trainer(parameters, data, batch=10, epochs=30, optimizer=keelson.optim.Adam(), learning_rate=0.1).run()
    result = keelson.evaluate(parameters, data, metrics=[keelson.metrics.Accuracy(["a", "b", "c"])])
    found = keelson.Inference(parameters, batch=50)(x).argmax(axis=1)
    assert numpy.isclose(result.metrics["accuracy"], (found == data["y"]).mean()) and result.metrics["accuracy"] > 0.8


def test_a_loss_that_is_not_finite_names_its_cause(context):
    data = cubes(64)
    data["x"][:, 0, 0, 0, 0] = numpy.nan
    _, trainer = make(context, data)
    with pytest.raises(keelson.Error, match="input x"):
        trainer.run()


def test_ctrl_c_ends_run_with_a_checkpoint(context, folder, world):
    """Like a user's SIGINT: it comes while C++ trains without the GIL."""
    _, trainer = make(context, epochs=10**6, checkpoints=folder, checkpoint_epochs=0)
    if world.rank == 0:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert trainer.state.step > 0
    assert os.path.exists(f"{folder}/step-{trainer.state.step:010d}.h5")
    assert trainer.stop_reason == "interrupted"


@pytest.mark.parametrize("method", ["on_step", "on_epoch", "on_checkpoint", "_append", "_stored"])
def test_ctrl_c_in_python_code_ends_run_with_a_checkpoint(context, folder, method, monkeypatch):
    """Python raises KeyboardInterrupt where it is: in a callback, or in the middle of the trainer's own work."""
    calls = []

    def interrupt():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    class InCallback:
        pass

    if method.startswith("on_"):
        setattr(InCallback, method, lambda self, *arguments: interrupt())
    else:
        InCallback.on_step = lambda self, *arguments: None
        original = getattr(keelson.History, method)

        def broken_off(history, *arguments):
            if not calls:  # the history is part of the first checkpoint
                history._columns["epoch"].append(99)
            interrupt()
            return original(history, *arguments)

        monkeypatch.setattr(keelson.History, method, broken_off)
    _, trainer = make(context, epochs=10**6, checkpoints=folder, checkpoint_epochs=1, callbacks=[InCallback()])
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert trainer.stop_reason == "interrupted" and trainer.history.reason == "interrupted"
    assert os.path.exists(f"{folder}/step-{trainer.state.step:010d}.h5")
    if method != "_stored":
        assert trainer.history["epoch"] == list(range(1, len(trainer.history["epoch"]) + 1))
    assert len({len(column) for column in map(trainer.history.__getitem__, trainer.history)}) == 1


def test_ctrl_c_ends_a_loop(context, alone):
    _, trainer = make(context, epochs=10**6)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in trainer:
            pass


def test_other_threads_run_while_steps_do(context, alone):
    counted = []
    stop = threading.Event()

    def count():
        while not stop.wait(0.001):
            counted.append(1)

    thread = threading.Thread(target=count)
    _, trainer = make(context, epochs=200)
    thread.start()
    trainer.run()
    stop.set()
    thread.join()
    assert len(counted) > 5


def test_a_closed_trainer_says_so(context):
    _, trainer = make(context)
    with trainer:
        next(trainer)
    with pytest.raises(keelson.Error, match="this trainer was closed"):
        trainer.run()


def class_data(samples=60):
    random = numpy.random.default_rng(8)
    y = (numpy.arange(samples) % 3).astype("int32")
    x = random.normal(0, 1, (samples, 3)).astype("float32")
    x[numpy.arange(samples), y] += 1
    return {"x": x, "y": y}


def test_metrics_of_classes(context, world):
    data = class_data()
    graph = keelson.Graph("classes")
    logits = keelson.layers.dense(graph.input("x", (3,)), 3)
    graph.output("prediction", logits)
    keelson.layers.cross_entropy(logits, graph.input("y", (), "int32"))
    accuracy, auc, all_of_them = keelson.metrics.Accuracy(), keelson.metrics.RocAuc(), keelson.metrics.Predictions()
    trainer = keelson.Trainer(keelson.Parameters(graph, context), data, data, batch=6, epochs=2,
                              metrics=[accuracy, auc, all_of_them])
    trainer.run()
    assert accuracy.confusion.shape == (3, 3) and accuracy.confusion.dtype == "int64"
    assert (accuracy.confusion.sum(axis=1) == 20).all()
    assert numpy.allclose(accuracy.recalls, numpy.diag(accuracy.confusion) / 20)
    assert len(auc.of_classes) == 3 and 0.5 < min(auc.of_classes)
    assert auc.curve(2)[0] == (0, 0) and auc.curve(2)[-1] == (1, 1)
    if world.rank == 0:
        assert (all_of_them.truth == data["y"]).all()
        found = all_of_them.predicted.argmax(axis=1)
        counts = numpy.zeros((3, 3), int)
        numpy.add.at(counts, (data["y"], found), 1)
        assert (counts == accuracy.confusion).all()


def test_losses_are_those_of_their_formulas(context):
    data = class_data()
    data["several"] = numpy.random.default_rng(1).uniform(0, 1, (60, 3)).astype("float32")
    data["w"] = numpy.linspace(0, 2, 60, dtype="float32")

    def loss_of(end):
        graph = keelson.Graph("loss")
        logits = keelson.layers.scale(graph.input("x", (3,)), 1)
        end(graph, keelson.layers.dense(logits, 3, name="d"))
        parameters = keelson.Parameters(graph, context)
        parameters["d/weights"] = numpy.eye(3, dtype="float32")
        fields = {name: data[name] for name in graph.inputs}
        return keelson.Trainer(parameters, fields, fields, batch=6, epochs=1, learning_rate=0.0).validate().loss

    x, y = data["x"].astype("float64"), data["y"]
    log_softmax = x - numpy.log(numpy.exp(x).sum(axis=1, keepdims=True))
    sure, even = -log_softmax[numpy.arange(60), y], -log_softmax.mean(axis=1)
    smooth = loss_of(lambda g, p: keelson.layers.cross_entropy(p, g.input("y", (), "int32"), label_smoothing=0.2))
    assert smooth == pytest.approx((0.8 * sure + 0.2 * even).mean(), rel=1e-5)
    weighted = loss_of(lambda g, p: keelson.layers.cross_entropy(p, g.input("y", (), "int32"), sample_weight=g.input("w", ())))
    assert weighted == pytest.approx((data["w"] * sure).mean(), rel=1e-5)
    t = data["several"].astype("float64")
    binary = loss_of(lambda g, p: keelson.layers.binary_cross_entropy(p, g.input("several", (3,))))
    assert binary == pytest.approx((numpy.log1p(numpy.exp(x)) - x * t).mean(), rel=1e-5)
    with pytest.raises(keelson.InputError, match="label smoothing 1: expected 0, or a number above 0 and below 1"):
        loss_of(lambda g, p: keelson.layers.cross_entropy(p, g.input("y", (), "int32"), label_smoothing=1.0))


def test_a_sampled_softmax_learns_what_a_softmax_of_all_classes_evaluates(context):
    numbers = numpy.random.default_rng(3).integers(0, 40, 480, dtype="int32")
    fields = {"x": numpy.eye(40, dtype="float32")[numbers], "y": numbers}

    def trainer(end, values=()):
        graph = keelson.Graph("classes")
        end(graph.input("x", (40,)), graph.input("y", (), "int32"))
        parameters = keelson.Parameters(graph, context)
        for name, value in dict(values).items():
            parameters[name] = value
        return parameters, keelson.Trainer(parameters, fields, fields, batch=batch_of(16), epochs=12,
                                           optimizer=keelson.optim.SGD(), learning_rate=1.0)

    layers = keelson.layers
    sampled, training = trainer(lambda x, y: layers.sampled_softmax(x, y, classes=40, samples=8, name="out"))
    assert training.validate().loss > 3.5  # log(40) = 3.7
    training.run()
    loss = training.validate().loss
    assert loss < 0.5
    _, other = trainer(lambda x, y: layers.cross_entropy(layers.dense(x, 40, name="out"), y), sampled)
    assert other.validate().loss == pytest.approx(loss, rel=1e-5)
    with pytest.raises(keelson.InputError, match="a sampled softmax of 40 of 40 classes: expected at least 1, and fewer"):
        trainer(lambda x, y: layers.sampled_softmax(x, y, classes=40, samples=40))
    with pytest.raises(keelson.InputError, match="takes one int32 class number for each of 1 rows per sample"):
        trainer(lambda x, y: layers.sampled_softmax(x, x, classes=40, samples=8))
