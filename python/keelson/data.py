"""Data sets: arrays in memory, arrays on disk, samples and batches of other packages, and the programs' own data."""

import collections.abc
import json
import os
import threading

import numpy

from . import _errors
from ._engine.data import (
    ArrayDataset, ArrayFileDataset, Dataset, FunctionDataset, RandomCubeSymmetry, SampleTransform, SnapshotDataset,
    TableDataset, TextDataset, UniverseDataset, _write_texts, empty, generate_snapshots, generate_universes)

__all__ = [
    "ArrayDataset", "ArrayFileDataset", "Dataset", "FunctionDataset", "RandomCubeSymmetry", "SampleTransform",
    "SnapshotDataset", "TableDataset", "TextDataset", "UniverseDataset", "as_dataset", "empty", "from_batches",
    "from_samples", "from_storage", "generate_snapshots", "generate_text", "generate_universes"]

_KNOWN = ("float32", "int32")


def _field_dtype(name, dtype, wanted):
    """The dtype of a field: the wanted one, or that of the array."""
    if name in wanted:
        return numpy.dtype(wanted[name]).name
    found = numpy.dtype(dtype).name
    if found not in _KNOWN:
        raise _errors.InputError(f"{name} has the dtype {found}. Expected float32, or int32 for class numbers and tokens: "
                                 f"give dtypes={{'{name}': 'float32'}} to convert it sample by sample")
    return found


def _as_array(value):
    """A NumPy array of a PyTorch tensor or another object with DLPack; without a copy if the memory is on the host."""
    return value if isinstance(value, numpy.ndarray) else numpy.asarray(value)


def _named(sample, names, what):
    """The arrays of a sample or batch (a mapping or a sequence) in the order of `names`."""
    if isinstance(sample, collections.abc.Mapping):
        missing = [n for n in names if n not in sample]
        if missing:
            raise _errors.InputError(f"{what} has no '{missing[0]}'. Expected {', '.join(names)}, as in the first one")
        return [_as_array(sample[n]) for n in names]
    if not isinstance(sample, (tuple, list)) or len(sample) != len(names):
        raise _errors.InputError(f"{what} is {type(sample).__name__}. Expected a mapping or a sequence of "
                                 f"{len(names)} arrays: {', '.join(names)}")
    return [_as_array(part) for part in sample]


def _names_of(sample, names, what):
    if names is not None:
        return tuple(names)
    if isinstance(sample, collections.abc.Mapping):
        return tuple(sample)
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        return ("x", "y")
    raise _errors.InputError(f"{what} is {type(sample).__name__}, whose parts have no names. Give names=('x', 'y'), the "
                             "graph inputs that they feed")


def from_storage(arrays, dtypes=None):
    """A data set of arrays that are read sample by sample: data sets of h5py or zarr, numpy.memmap.

    arrays: by the name of the graph input; each has shape and dtype, and array[i] is sample i, with the dims (C, [D,] H,
    W). dtypes: {'x': 'float32'} converts on the way. Trainers read in their own threads, which take the GIL.
    """
    dtypes = dtypes or {}
    if not arrays:
        raise _errors.InputError("no array was given. Expected one for each input of the network: {'x': file['x']}")
    fields, sizes = [], {}
    for name, array in arrays.items():
        if not getattr(array, "shape", ()):
            raise _errors.InputError(f"{name} is {type(array).__name__}. Expected an array with shape and dtype")
        fields.append((name, tuple(array.shape[1:]), _field_dtype(name, array.dtype, dtypes)))
        sizes[name] = array.shape[0]
    if len(set(sizes.values())) != 1:
        raise _errors.InputError(f"the arrays have {sizes} samples. Expected the same number in all of them")
    parts = [(array, dtype) for array, (_, _, dtype) in zip(arrays.values(), fields)]

    def read(i):
        return [numpy.asarray(array[i], dtype=dtype) for array, dtype in parts]

    size = next(iter(sizes.values()))
    return FunctionDataset(read, size, fields, f"{size} samples of {', '.join(arrays)} in storage")


def from_samples(samples, names=None, dtypes=None):
    """A data set of an object with len() and samples by index, such as torch.utils.data.Dataset.

    A sample is a mapping of names to arrays, or a sequence with the names `names` (for two arrays: x, y).
    """
    dtypes = dtypes or {}
    first = samples[0]
    names = _names_of(first, names, "sample 0")
    arrays = _named(first, names, "sample 0")
    fields = [(n, a.shape, _field_dtype(n, a.dtype, dtypes)) for n, a in zip(names, arrays)]

    def read(i):
        return [a.astype(dtype, copy=False)
                for a, (_, _, dtype) in zip(_named(samples[i], names, f"sample {i}"), fields)]

    return FunctionDataset(read, len(samples), fields, f"{len(samples)} samples of {type(samples).__name__}")


def from_batches(batches, batch, names=None, dtypes=None, steps=None, ranks=1):
    """A data set of an iterable that yields whole batches, such as torch.utils.data.DataLoader (with drop_last=True).

    Each epoch iterates over it again, in a thread of the trainer, without changing the order. batch: samples in each
    batch of this rank, as for the trainer. steps: batches in an epoch; default: len(batches). ranks: number of ranks in
    the job; each rank has its own iterable.
    """
    dtypes = dtypes or {}
    steps = len(batches) if steps is None else steps
    iterator = iter(batches)
    if iterator is batches:
        raise _errors.InputError(f"{type(batches).__name__} can be iterated once only. Expected an object that begins anew "
                                 "with each iter(), for each epoch: a list, a DataLoader, a class with __iter__")
    first = next(iterator)
    names = _names_of(first, names, "a batch")
    arrays = _named(first, names, "a batch")
    fields = [(n, a.shape[1:], _field_dtype(n, a.dtype, dtypes)) for n, a in zip(names, arrays)]
    state = {"iterator": iterator, "held": 0, "arrays": arrays, "sample": -1}
    lock = threading.Lock()

    def fetch(i):
        step = i // (batch * ranks)
        if i <= state["sample"]:  # a new epoch
            state["iterator"], state["held"] = iter(batches), -1
        state["sample"] = i
        while state["held"] < step:
            try:
                given = next(state["iterator"])
            except StopIteration:
                raise _errors.InputError(f"the iterable ended after {state['held'] + 1} batches. Expected {steps}: give "
                                         f"steps={state['held'] + 1}") from None
            state["held"] += 1
            state["arrays"] = _named(given, names, f"batch {state['held']}")
            for name, array in zip(names, state["arrays"]):
                if array.shape[0] != batch:
                    raise _errors.InputError(f"{name} of batch {state['held']} has {array.shape[0]} samples. Expected "
                                             f"{batch} in every batch: drop the last, shorter one (drop_last=True)")

    def read(i):
        with lock:
            fetch(i)
            return [a[i % batch].astype(dtype, copy=False) for a, (_, _, dtype) in zip(state["arrays"], fields)]

    for name, array in zip(names, arrays):
        if array.shape[0] != batch:
            raise _errors.InputError(f"{name} of the first batch has {array.shape[0]} samples. Expected {batch}")
    size = steps * batch * ranks
    return FunctionDataset(read, size, fields, f"{steps} batches of {batch} samples of {type(batches).__name__}",
                           in_order=True)


def _labels(name, array):
    """int64, as NumPy and scikit-learn have class numbers, becomes int32; other arrays are returned unchanged."""
    if not isinstance(array, numpy.ndarray) or array.dtype != numpy.int64:
        return array
    limits = numpy.iinfo(numpy.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise _errors.InputError(f"{name} has numbers beyond int32, from {array.min()} to {array.max()}. Expected class numbers "
                                 "or tokens; give floats as float32")
    return array.astype(numpy.int32)


def as_dataset(given):
    """The data set that a trainer uses for an object. Data sets are returned unchanged; mappings become ArrayDataset,
    or from_storage() if an array is not in memory; objects with len() and samples by index become from_samples().
    Of mappings, int64 arrays become int32."""
    if isinstance(given, Dataset):
        return given
    if isinstance(given, collections.abc.Mapping):
        in_memory = all(isinstance(a, numpy.ndarray) and not isinstance(a, numpy.memmap) or hasattr(a, "__dlpack__")
                        for a in given.values())
        return ArrayDataset({n: _labels(n, a) for n, a in given.items()}) if in_memory else from_storage(given)
    if hasattr(given, "__len__") and hasattr(given, "__getitem__"):
        return from_samples(given)
    raise _errors.InputError(f"the data are a {type(given).__name__}. Expected a data set of keelson.data, arrays by name "
                             "({'x': images, 'y': targets}), or samples by index; for iterables of batches see "
                             "keelson.data.from_batches")


def generate_text(folder, *, words=1_000_000, validation_words=100_000, test_words=100_000, vocab_size=1000, branching=8,
                  topics=4, sentence=12, seed=0):
    """Writes ptb.train.txt, ptb.valid.txt and ptb.test.txt: made-up text whose entropy is known exactly. Returns the best
    possible perplexities: {'best': ..., 'unigram': ..., 'bigram': ..., 'trigram': ...}. Called by one rank."""
    names = ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt")
    record = os.path.join(folder, "source.json")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(record):
        for name in names:
            if os.path.exists(os.path.join(folder, name)):
                raise _errors.InputError(f"{os.path.join(folder, name)}: exists already, and without source.json beside it "
                                         "was not made here. Expected another folder")
    tokens = dict(zip(names, (words, validation_words, test_words)))
    settings = dict(vocab_size=vocab_size, branching=branching, topics=topics, sentence=sentence, seed=seed)
    with open(record, "w") as file:  # from here on the folder is known to be made here
        json.dump({"seed": seed}, file)
    perplexity = _write_texts(os.fspath(folder), tokens, **settings)
    with open(record, "w") as file:
        json.dump({"seed": seed, "words": vocab_size, "branching": branching, "topics": topics, "sentence": sentence,
                   "perplexity": perplexity, "tokens": tokens}, file, indent=2)
    return perplexity
