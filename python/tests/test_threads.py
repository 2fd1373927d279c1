"""What threads may do at the same time, and how long memory lives."""

import concurrent.futures
import threading

import numpy
import pytest

import keelson
from conftest import cubes, small_network

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def context():
    return keelson.Context()


def in_threads(*functions):
    """The results of the functions, or their exceptions."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(timeout=100) for future in [pool.submit(f) for f in functions]]


def test_two_threads_share_an_inference(context):
    inference = keelson.Inference(keelson.Parameters(small_network(), context))
    inputs = [cubes(40, seed)["x"] for seed in (1, 2)]
    expected = [inference(x) for x in inputs]

    def repeat(i):
        return all(numpy.array_equal(inference(inputs[i]), expected[i]) for _ in range(25))

    assert in_threads(lambda: repeat(0), lambda: repeat(1)) == [True, True]


def test_parameters_of_their_own_compute_side_by_side(context):
    x = cubes(16)["x"]

    def predict(seed):
        return keelson.Inference(keelson.Parameters(small_network(), context, seed), batch=4)(x)

    expected = [predict(1), predict(2)]
    found = in_threads(lambda: predict(1), lambda: predict(2))
    assert all(numpy.array_equal(*pair) for pair in zip(expected, found))


def test_close_waits_for_a_call_under_way(context):
    parameters = keelson.Parameters(small_network(), context)
    x = cubes(300)["x"]
    expected = keelson.Inference(parameters)(x)
    for _ in range(10):
        inference = keelson.Inference(parameters)
        plan = inference.plan
        begun = threading.Event()

        def predict():
            inference(x[:1])
            begun.set()
            try:
                return inference(x)
            except keelson.Error as e:  # the call came after close()
                return str(e)

        def close():
            begun.wait()
            inference.close()

        found, _ = in_threads(predict, close)
        assert found == "this inference was closed" if isinstance(found, str) else numpy.array_equal(found, expected)
        with pytest.raises(keelson.Error, match="this inference was closed"):
            inference(x)
        assert "conv1" in str(plan), "a plan outlives its inference"


def test_a_view_is_written_by_its_inference_alone(context):
    parameters = keelson.Parameters(small_network(), context)
    data = cubes(64)
    inference = keelson.Inference(parameters, batch=4)
    with pytest.raises(keelson.InputError, match="call the inference, then view"):
        inference.view("prediction")
    first = inference(data["x"][:4])
    view = inference.view("prediction")
    assert numpy.array_equal(view, first)
    keelson.Inference(parameters, batch=4)(data["x"][4:8])
    assert numpy.array_equal(view, first), "another inference leaves it alone"
    keelson.Inference(parameters, batch=64)(data["x"])
    assert numpy.array_equal(view, first), "and so does a larger one"
    trainer = keelson.Trainer(parameters, data, epochs=1, learning_rate=0.01)
    trainer.run()
    assert numpy.array_equal(view, first), "and training"
    after = inference(data["x"][:4])
    assert numpy.array_equal(view, after) and not numpy.array_equal(first, after)
    other = keelson.Inference(parameters, batch=2)
    other(data["x"])
    next(iter(keelson.Trainer(parameters, data, batch=2, epochs=1)))
    with pytest.raises(keelson.InputError, match="call the inference, then view"):
        other.view("prediction")
    inference.close()
    del inference, trainer, other, parameters
    assert numpy.array_equal(view, after), "the memory lives as long as the view"


def test_an_output_that_is_an_input_has_a_view(context):
    graph = keelson.Graph()
    graph.output("x", graph.input("x", (3,)))
    inference = keelson.Inference(keelson.Parameters(graph, context), batch=2)
    x = keelson.data.empty((2, 3))
    x[:] = [[1, 2, 3], [4, 5, 6]]
    inference(x)
    view = inference.view("x")
    x[:] = 0
    assert numpy.array_equal(view, [[1, 2, 3], [4, 5, 6]])


def trained(context, watch=None, callbacks=()):
    parameters = keelson.Parameters(small_network(), context, seed=3)
    trainer = keelson.Trainer(parameters, cubes(64), cubes(16, 5), batch=8, epochs=4, learning_rate=0.01,
                              callbacks=list(callbacks), metrics=[keelson.metrics.MeanAbsoluteError()])
    if watch:
        in_threads(trainer.run, lambda: watch(trainer, parameters))
    else:
        trainer.run()
    return trainer, [parameters[name] for name in parameters]


def test_predictions_between_the_steps_of_a_run_change_nothing(context):
    x = cubes(20, 9)["x"]
    seen = []

    def watch(trainer, parameters):
        while trainer.stop_reason is None and trainer.state.step < 30:
            predicted = keelson.Inference(parameters, batch=20)(x)  # larger than the trainer's batch
            seen.append((trainer.state.step, numpy.isfinite(predicted).all(), parameters["head/bias"][0]))

    _, expected = trained(context)
    _, found = trained(context, watch)
    assert seen and all(finite for _, finite, _ in seen)
    assert all(numpy.array_equal(*pair) for pair in zip(expected, found))


def test_a_callback_may_wait_for_a_thread_that_predicts(context):
    x = cubes(4)["x"]
    counted = []

    class Waits(keelson.Callback):
        def on_epoch(self, trainer, epoch):
            counted.append(in_threads(lambda: self.inference(x))[0].shape)

        def on_step(self, trainer, step):
            with pytest.raises(keelson.Error, match="closed by its own callback"):
                trainer.close()

    waits = Waits()
    parameters = keelson.Parameters(small_network(), context)
    waits.inference = keelson.Inference(parameters, batch=4)
    keelson.Trainer(parameters, cubes(16), batch=8, epochs=2, callbacks=[waits]).run()
    assert counted == [(4, 1), (4, 1)]


def test_a_data_set_that_needs_the_parameters_in_training_is_refused(context):
    parameters = keelson.Parameters(small_network(), context)
    data = cubes(8)
    trainer = keelson.Trainer(parameters, data, batch=8, epochs=1)
    own = keelson.Inference(parameters)
    other = keelson.Inference(keelson.Parameters(small_network(), context))

    class Samples:
        """With predictions as targets."""
        predict = None

        def __len__(self):
            return 8

        def __getitem__(self, i):
            return {"x": data["x"][i], "y": self.predict(data["x"][i:i + 1])[0]}

    samples = Samples()
    samples.predict = other
    predicted = keelson.data.from_samples(samples)
    for use in (own, lambda x: keelson.Inference(parameters)(x), lambda x: [parameters["head/bias"]],
                lambda x: [[trainer.state.step]], lambda x: [[trainer.step(data).loss]]):
        samples.predict = use
        for call in (lambda: keelson.Trainer(parameters, predicted, batch=4, epochs=1).run(),
                     lambda: keelson.Trainer(parameters, data, predicted, batch=4, epochs=1).run(),
                     lambda: keelson.evaluate(parameters, predicted, batch=4)):
            with pytest.raises(keelson.InputError, match="uses the parameters for which the sample is read.*predict with"):
                call()
    samples.predict = own
    assert numpy.array_equal(predicted[3]["y"], own(data["x"][3:4])[0]), "nobody waits for this sample"
    samples.predict = other
    assert keelson.Trainer(parameters, predicted, predicted, batch=4, epochs=1).run().reason == "all epochs done"


def test_a_trainer_closed_by_another_thread_ends_its_run_first(context):
    parameters = keelson.Parameters(small_network(), context)
    begun = threading.Event()

    class Begun(keelson.Callback):
        def on_step(self, trainer, step):
            begun.set()

    trainer = keelson.Trainer(parameters, cubes(64), batch=8, epochs=2, callbacks=[Begun()])

    def close():
        begun.wait()
        trainer.close()

    assert in_threads(trainer.run, close)[0].reason == "all epochs done"
    with pytest.raises(keelson.Error, match="this trainer was closed"):
        trainer.state
