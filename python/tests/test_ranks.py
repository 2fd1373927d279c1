"""Collective work of ranks. These tests also pass on one rank."""

import os
import subprocess
import sys

import numpy
import pytest

import keelson
from conftest import batch_of, cubes, small_network


def trained(context, **options):
    parameters = keelson.Parameters(small_network(), context)
    size = context.comm.size if context.comm else 1
    trainer = keelson.Trainer(parameters, cubes(64), batch=16 // size, epochs=2, learning_rate=0.01, **options)
    losses = [step.loss for step in trainer]
    trainer.close()
    return losses, parameters


def test_ranks_train_as_one_does(context, world):
    losses, parameters = trained(context)
    alone, one = trained(keelson.Context())
    assert numpy.allclose(losses, alone, rtol=1e-5)
    for name in parameters:
        assert numpy.allclose(parameters[name], one[name], atol=1e-5)
    digests = world.allgather(parameters["conv1/weights"].tobytes().hex())
    assert len(set(digests)) == 1


def test_communicators_of_mpi4py(world):
    from mpi4py import MPI

    context = keelson.Context(comm=MPI.COMM_WORLD)
    assert (context.comm.rank, context.comm.size) == (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size) == (world.rank, world.size)
    losses, _ = trained(context)
    assert losses == trained(keelson.Context(comm=world))[0]
    half = keelson.Context(comm=MPI.COMM_WORLD.Split(world.rank, 0))
    assert half.comm.size == 1
    assert losses[0] == pytest.approx(trained(half)[0][0], rel=1e-5)


def test_ranks_with_different_data_are_refused(context, world):
    if world.size == 1:
        pytest.skip("a test for several ranks")
    with pytest.raises(keelson.InputError, match="training data"):
        keelson.Trainer(keelson.Parameters(small_network(), context), cubes(64, seed=world.rank), epochs=1,
                        batch=batch_of(16))


def test_predictions_are_collected(context, world):
    kept = keelson.metrics.Predictions()
    error = keelson.metrics.FunctionMetric(lambda p, t: numpy.abs(p[:, 0, 0] - t[:, 0]), "error")
    parameters = keelson.Parameters(small_network(), context)
    data = cubes(12)
    result = keelson.evaluate(parameters, data, batch=batch_of(8), metrics=[error, kept])
    expected = keelson.Inference(parameters, batch=4)(data["x"])
    assert result.metric == pytest.approx(numpy.abs(expected - data["y"]).mean(), rel=1e-5)
    assert result.samples == 12 and result.metrics["predictions"] == 12
    if world.rank == 0:
        assert numpy.allclose(kept.predicted, expected, atol=1e-6) and numpy.array_equal(kept.truth, data["y"])
    else:
        assert kept.predicted.size == 0


def mpiexec(code, ranks=2):
    command = [*os.environ.get("KEELSON_MPIEXEC", "mpirun").split(), "-n", str(ranks), sys.executable, "-c", code]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)


def test_scripts_under_mpirun_end_well(alone):
    done = mpiexec("import keelson; c = keelson.Context(comm=keelson.world()); print('rank', c.comm.rank, 'of', c.comm.size)")
    assert done.returncode == 0, done.stdout
    assert "rank 0 of 2" in done.stdout and "rank 1 of 2" in done.stdout


def test_a_script_that_ends_while_threads_read_ends(alone):
    """Variables that live until the interpreter ends: a trainer whose threads wait for the GIL."""
    code = """
import numpy, time, keelson
from keelson import layers
g = keelson.Graph(); layers.mse(layers.dense(g.input("x", (2,)), 1), g.input("y", (1,)))
def read(i): time.sleep(0.01); return numpy.zeros(2, "f4"), numpy.zeros(1, "f4")
data = keelson.data.FunctionDataset(read, 1000, [("x", (2,), "float32"), ("y", (1,), "float32")])
trainer = keelson.Trainer(keelson.Parameters(g, keelson.Context()), data, batch=50, epochs=1, loader_threads=3)
step = next(trainer)
"""
    for end, expected in (("", 0), ("raise LookupError", 1)):
        assert subprocess.run([sys.executable, "-c", code + end], timeout=60, stderr=subprocess.DEVNULL).returncode == expected


def test_an_exception_on_one_rank_ends_the_job(alone):
    done = mpiexec("import keelson; w = keelson.world(); w.barrier(); {}[w.rank] if w.rank else w.barrier()")
    assert done.returncode != 0 and "KeyError: 1" in done.stdout
