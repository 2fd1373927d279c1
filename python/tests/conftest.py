"""Fixtures and helpers. Tests run on one rank and under mpirun: each rank runs all of them in the same order."""

import os
import signal

import numpy
import pytest

import keelson
from keelson import layers

ranks = keelson.world()
# Shells start commands in the background with SIGINT ignored, and then Python would not see the tests' Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def world():
    return ranks


@pytest.fixture(scope="session")
def context():
    """All ranks of the job."""
    return keelson.Context(comm=ranks)


@pytest.fixture
def folder(tmp_path):
    """Rank 0's folder, which all ranks share."""
    return ranks.allgather(str(tmp_path))[0]


@pytest.fixture
def alone():
    """For tests that need only one process."""
    if ranks.size > 1:
        pytest.skip("a test for one rank")


@pytest.fixture
def program():
    """Path of one of the programs."""
    if "KEELSON_BIN" not in os.environ:
        pytest.skip("KEELSON_BIN does not name the folder of the programs")
    return lambda name: os.path.join(os.environ["KEELSON_BIN"], name)


def batch_of(samples):
    """Samples per rank, given the number for all ranks."""
    return samples // ranks.size


def cubes(count, seed=0):
    """Noise, and the amplitudes that a network can find in it."""
    random = numpy.random.default_rng(seed)
    y = random.random((count, 1), dtype=numpy.float32)
    x = (2 * random.random((count, 1, 8, 8, 8), dtype=numpy.float32) - 1) * y[:, :, None, None, None]
    return {"x": x.astype(numpy.float32), "y": y}


def small_network(filters=8, dropout=0):
    graph = keelson.Graph("small")
    x, y = graph.input("x", (1, 8, 8, 8)), graph.input("y", (1,))
    h = layers.relu(layers.conv(x, filters, name="conv1"))
    h = layers.flatten(layers.average_pool(h, 8))
    if dropout:
        h = layers.dropout(h, dropout)
    h = layers.dense(h, 1, name="head")
    graph.output("prediction", h)
    layers.mse(h, y)
    return graph
