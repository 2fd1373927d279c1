"""Searching for networks that suit one's own data."""

import collections.abc
import contextlib
import dataclasses
import json
import os
import tempfile

import numpy

from . import _engine, _errors, _tpe
from . import data as _data
from ._predictor import Predictor

__all__ = ["FoundNetwork", "SearchResult", "search"]

_LAYOUTS = {"channels_first": "channels-first", "channels_last": "channels-last", None: "none"}


@dataclasses.dataclass(frozen=True)
class FoundNetwork:
    """A network of a search.

    number: its place among all networks of the search, from 0. design: layers and training in a line. loss: of the
    validation data, after its longest training; NaN: there is no result. metric: accuracy of classes, else the loss.
    epochs: that it has trained. parameters: trained elements. flops: of a forward pass of one sample. step_ms: of a
    training step. seconds: of all its trainings. origin: "random", "crossover, mutation", "tpe", ... parents: numbers of
    the networks that it was bred from. genome: all choices. failure: why it is not trained again; "": it did not fail.
    """

    number: int
    design: str
    loss: float
    metric: float
    epochs: float
    parameters: int
    flops: float
    step_ms: float
    seconds: float
    origin: str
    parents: list
    genome: dict
    failure: str


class SearchResult:
    """A search in a folder: of keelson.search or of keelson-search, also one that still runs, as far as it is now.

    settings: what the first line of the log says: seed, method, epochs, space, ... networks: all, by number. ranking:
    those with results, the best first. front: those that no other beats in all objectives; of one objective, the best.
    """

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        found = _engine.search.read(self.folder)
        self.settings = json.loads(found["settings"])
        self.networks = [FoundNetwork(**{**n, "genome": json.loads(n["genome"])}) for n in found["networks"]]
        self.ranking = [self.networks[number] for number in found["best"]]
        self.front = [self.networks[number] for number in found["front"]]
        self._state, self._checkpoints = found["state"], found["checkpoints"]

    @property
    def best(self):
        """The best network. Raises InputError if none has a result."""
        if not self.ranking:
            raise _errors.InputError(f"{self.folder}: no network has a result yet. Give the search more time: "
                                     f"keelson.search(resume={self.folder!r}, seconds=...)")
        return self.ranking[0]

    def load(self, number=None, *, context=None, batch=64):
        """The trained network with this number, by default the best, as a keelson.Predictor: model(x) predicts."""
        number = self.best.number if number is None else number
        path = self._checkpoints[number] if 0 <= number < len(self.networks) else os.path.join(self.folder, "networks", f"{number:06}")
        if not os.path.isdir(path):
            raise _errors.InputError(f"{path}: the checkpoint of network {number} was not kept. Expected one of the best "
                                     "networks: a search keeps as many as keep= says")
        return Predictor(path, context=context, batch=batch)

    def report(self):
        """Writes the page of the search, and returns its path: course, best networks, ancestors of the best."""
        _engine.search.write_report(self.folder)
        return os.path.join(self.folder, "report.html")

    def curve(self, over="networks"):
        """Two arrays: the networks with results so far, or with over="seconds" the seconds of the search without pauses
        between its starts; and the loss of the network that was the best one then."""
        if over not in ("networks", "seconds"):
            raise _errors.InputError(f"over is '{over}'. Expected 'networks' or 'seconds'")
        networks, seconds, best, losses = [], [], [], {}
        before = begin = now = 0.0
        for line in map(json.loads, _engine.search.lines(self.folder)):
            if line["type"] == "start":
                before, begin = before + now - begin, line["time"]
                now = begin
            now = max(now, line.get("time", now))  # the clocks of the ranks differ a little
            if line["type"] == "result" and line["id"] < len(self.networks):
                losses[line["id"]] = line["loss"]
                networks.append(len(losses))
                seconds.append(before + now - begin)
                best.append(min(losses.values()))
        return numpy.array(networks if over == "networks" else seconds), numpy.array(best)

    def __repr__(self):
        return f"<keelson.SearchResult {self.folder}: {self._state}>"


def _on_first_rank(comm, work):
    """Calls work() on rank 0. If it fails, all ranks raise. Returns its result, a text, on all ranks."""
    failed, result = None, ""
    if comm.rank == 0:
        try:
            result = work() or ""
        except (OSError, _errors.Error) as error:
            failed = error
    told = comm.allgather(f"{failed}" if failed else "")[0]
    if told:
        raise _errors.Error(told) from failed
    return comm.allgather(result)[0]


def _targets(y, classes):
    """y as the readers of files take it: whole numbers for classes, else (samples, numbers)."""
    y = numpy.asarray(y)
    if y.dtype.kind not in "biuf":
        raise _errors.InputError(f"y has the dtype {y.dtype}. Expected numbers; of names, numpy.unique(y, "
                                 "return_inverse=True) gives the names and the numbers of their classes")
    if classes or (classes is None and y.dtype.kind in "biu"):
        return y.astype("uint8") if y.dtype.kind == "b" else y
    return y.astype("float32").reshape(len(y), -1)


def _checked_arrays(x, y, classes):
    x, y = numpy.asarray(x), _targets(y, classes)
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y):
        raise _errors.InputError(f"x has the shape {x.shape} and y {y.shape}. Expected (samples, ...) with the same number "
                                 "of samples")
    if x.dtype == "float64" or x.dtype.kind == "b":
        x = x.astype("float32")
    return {"x": numpy.ascontiguousarray(x), "y": numpy.ascontiguousarray(y)}


def _save_arrays(path, arrays):
    with open(path + ".part", "wb") as file:
        numpy.savez(file, **arrays)
    os.replace(path + ".part", path)


def _as_pair(given):
    """x and y of a mapping, a tuple or a list; None for other data."""
    if isinstance(given, collections.abc.Mapping) and set(given) == {"x", "y"}:
        return given["x"], given["y"]
    return tuple(given) if isinstance(given, (tuple, list)) and len(given) == 2 else None


def _in_memory(array):
    """Whether this is an array, or what NumPy makes one of, and no data set in a file (h5py, zarr, memmap)."""
    return not isinstance(array, numpy.memmap) and not hasattr(array, "chunks") and (
        isinstance(array, list) or hasattr(array, "__dlpack__") or hasattr(array, "__array__"))


def _as_dataset(given, like=None):
    """The data set of data that are not written into the folder: arrays in storage, samples by index, ... Validation data
    may be arrays in memory, of other dtypes than those of `like`."""
    pair = _as_pair(given)
    if pair and like is not None and all(map(_in_memory, pair)):
        kinds = [dtype for _, dtype in like.fields.values()]
        given = {name: numpy.asarray(a).astype(kind) for name, a, kind in zip("xy", pair, kinds)}
    elif pair:
        given = dict(zip("xy", pair))
    return _data.as_dataset(given)


def _texts(given):
    return [str(one) for one in ([given] if isinstance(given, (str, int)) else given)]


def _json_text(given, what):
    """JSON of a dict, or of the file with this path; "" for None."""
    if given is None or isinstance(given, dict):
        return json.dumps(given) if given else ""
    try:
        with open(given) as file:
            return file.read()
    except OSError as error:
        raise _errors.InputError(f"{what}: {error}. Expected a dict, or the path of a JSON file") from None


class _Given:
    """The data of a search as the user gave them: options of the readers, or data sets."""

    def __init__(self, options, sets=(None, None)):
        self.options, self.sets = options, sets

    @classmethod
    def of(cls, data, validation, classes, folder, comm, options):
        """Writes arrays in memory into the folder, so that the search can go on there without them. Collective."""
        options = dict(options)
        if classes is not None:
            options["classes"] = bool(classes)
        if isinstance(validation, (int, float)):
            if not 0 < validation < 1:
                raise _errors.InputError(f"validation is {validation}. Expected the part to hold out, between 0 and 1, or data")
            options["holdout"], validation = float(validation), None
        pair, sets = _as_pair(data), (None, None)
        if pair and all(map(_in_memory, pair)):
            options.setdefault("layout", "channels-first")
            for name, part in (("data", pair), ("validation", _as_pair(validation) if validation is not None else None)):
                if part:
                    options[name] = os.path.abspath(os.path.join(folder, f"{name}.npz"))
                    arrays = _checked_arrays(*part, classes)
                    _on_first_rank(comm, lambda: _save_arrays(options[name], arrays))
            if validation is not None and "validation" not in options:
                raise _errors.InputError(f"validation is a {type(validation).__name__}. Expected (x, y), as the data are, or "
                                         "the part to hold out")
        elif isinstance(data, (str, os.PathLike)):
            options["data"] = os.fspath(data)
            if validation is not None and not isinstance(validation, (str, os.PathLike)):
                raise _errors.InputError(f"validation is a {type(validation).__name__}. Expected a path, as the data are, or "
                                         "the part to hold out")
            if validation is not None:
                options["validation"] = os.fspath(validation)
        else:
            sets = cls._sets(data, validation)
        return cls(options, sets)

    @staticmethod
    def _sets(data, validation):
        data = _as_dataset(data)
        return data, None if validation is None else _as_dataset(validation, data)

    @classmethod
    def of_log(cls, config, data, validation, folder):
        """As the log has it, or with other data."""
        kinds = {"holdout": float, "split-seed": int, "classes": lambda t: t in ("true", "1"),
                 "one-per-file": lambda t: t in ("true", "1"), "target": lambda t: t.split(","),
                 "features": lambda t: t.split(",")}
        known = ("data", "validation", "holdout", "target", "features", "classes", "x", "y", "layout", "one-per-file",
                 "missing", "split-seed")
        options = {name: kinds.get(name, str)(config[name]) for name in known if config.get(name)}
        for name in ("data", "validation"):  # the folder may have been moved
            path = os.path.join(folder, f"{name}.npz")
            if os.path.basename(options.get(name, "")) == f"{name}.npz" and os.path.exists(path):
                options[name] = path
        if isinstance(data, (str, os.PathLike)):
            options["data"] = os.fspath(data)
        elif data is not None and "data" in options:
            raise _errors.InputError(f"the log names its data, {options['data']}. Leave data out, or give another path")
        elif data is not None:
            return cls(options, cls._sets(data, validation))
        elif "data" not in options:
            raise _errors.InputError(f"{folder}: the search began with a data set in memory. Expected it again: "
                                     f"keelson.search(data, resume={folder!r})")
        return cls(options)

    def open(self, comm):
        return _engine.search.SearchData(self.options, *self.sets, comm)

    def config(self, classes):
        """For the log, as keelson-search writes it."""
        def text(value):
            if isinstance(value, bool):
                return "true" if value else "false"
            return ",".join(value) if isinstance(value, list) else str(value)

        return json.dumps({name: text(value) for name, value in {**self.options, "classes": classes}.items()})


def _budget(networks, seconds, budget):
    if budget is not None:
        if not isinstance(budget, dict) or not set(budget) <= {"networks", "seconds"} or networks or seconds:
            raise _errors.InputError(f"budget is {budget!r}. Expected {{'networks': 200, 'seconds': 600}}, or one of them; or "
                                     "networks= and seconds= in its place")
        networks, seconds = budget.get("networks"), budget.get("seconds")
    if networks is None and seconds is None:
        networks = 100
    for name, value in (("networks", networks), ("seconds", seconds)):
        if value is not None and not value > 0:
            raise _errors.InputError(f"{name} is {value}. Expected a number above 0")
    return int(networks or 0), float(seconds or 0)


def _require(name, value, least, most=float("inf")):
    if not least <= value <= most:
        raise _errors.InputError(f"{name} is {value}. Expected at least {least}"
                                 + (f" and at most {most}" if most < float("inf") else ""))


def search(data=None, *, networks=None, seconds=None, budget=None, epochs=8, first_epochs=None, eta=4,
           method="evolution", seed=1, objectives=("loss",), space=None, blueprint=None, start=None, classes=None,
           validation=None, target=None, features=None, x="x", y="y", layout="", missing=None, one_per_file=False, out=None,
           overwrite=False, resume=None, join=False, ranks_per_network=1, keep=5, lease=60.0, interval=1,
           tournament=0.1, partition=False, context=None, progress=True):
    """Finds a network that suits labelled data: trains many small ones and breeds new ones from the best.

    data: (x, y), arrays with the dims (N, C, [D,] H, W) or (N, features); a data set of keelson.data with the fields x
    and y; or the path of tables (CSV, Parquet) or arrays (HDF5, NetCDF, NumPy) as keelson-search reads them. Arrays are
    written into the folder of the search. Features are standardised, but not those of data sets.
    networks, seconds: when to end: after so many networks, or seconds of this start; by default after 100 networks.
    budget: both as a dict. epochs: of the longest training. first_epochs, eta: a network trains so long at first; one of
    `eta` goes on, eta times longer. method: 'evolution', 'ageing', 'random', 'grid', or 'tpe', that of Optuna; 'pbt' and
    'ltfb' train `networks` members of one network together: that of `start`, or the only one that `space` leaves.
    interval: epochs after which a member may take over another's weights. tournament: of ltfb, the part of the training
    data by which members choose; partition: each trains on a part of the rest.
    objectives: what is minimised: 'loss', 'parameters', 'flops', 'time'; several give a Pareto front. space: dict or path
    of a JSON file that restricts the choices; blueprint: dict or path of a TOML file that restricts widths and copies of
    layers, as grow= of Trainer reads it; start: a genome to begin with, as space (docs/search.md).
    classes: whether y are numbers of classes; by default if they are whole numbers (of a table: few, or names).
    validation: data as `data` that choose between networks, or the part that is held out, 0.2 by default. target,
    features: columns of a table. x, y, one_per_file: arrays in files. layout: 'channels_first', 'channels_last', or None
    for images without channels; by default channels are first in memory and last in files. missing: replaces missing
    values of x. out: folder of the search, by default a temporary one, which is not removed; overwrite: removes a search
    that it holds. resume: folder of a search that goes on, with the options of its log, networks of earlier
    starts included; join: beside workers that run. ranks_per_network, keep,
    lease: as keelson-search's options. context: device and ranks, by default all ranks of the job, each of which trains
    networks of its own. progress: True prints lines, a function gets them.

    Returns a SearchResult. Ctrl-C ends the search with checkpoints; all ranks get KeyboardInterrupt, which names the
    folder, and keelson.search(resume=folder) goes on. Collective.
    """
    networks, seconds = _budget(networks, seconds, budget)
    objectives = [objectives] if isinstance(objectives, str) else list(objectives)
    for name, value, *limits in (("ranks_per_network", ranks_per_network, 1), ("keep", keep, 1), ("eta", eta, 2, 64),
                                 ("epochs", epochs, 1), ("interval", interval, 1), ("tournament", tournament, 0.001, 0.9)):
        _require(name, value, *limits)
    if data is None and resume is None:
        raise _errors.InputError("no data were given. Expected (x, y), a data set, a path, or resume= with the folder of a "
                                 "search")
    if overwrite and resume is not None or join and resume is None:
        raise _errors.InputError("resume goes on with a search, overwrite removes one, and join needs resume. Expected other "
                                 "arguments")
    if method == "tpe":
        _tpe.require(objectives)
    readers = _reader_options(x, y, layout, target, features, missing, one_per_file)
    if context is None:
        context = _engine.Context(comm=_engine.world())
    comm = context.comm
    if comm is None:
        raise _errors.InputError("the context has no ranks. Expected keelson.Context(comm=keelson.world())")
    folder = os.fspath(resume or out or _on_first_rank(comm, lambda: tempfile.mkdtemp(prefix="keelson-search-")))
    with contextlib.nullcontext() if join else _engine.search.HeldFolder(folder, context):
        if resume is None:
            _refuse_old_search(folder, comm, overwrite)
            given = _Given.of(data, validation, classes, folder, comm, readers)
            found = given.open(comm)
            options = {"seed": seed, "method": method, "objectives": objectives, "epochs": float(epochs),
                       "first_epochs": float(first_epochs or 0), "eta": eta, "lease": float(lease),
                       "space": _json_text(space, "space"), "start": _json_text(start, "start"),
                       "interval": float(interval), "tournament": float(tournament), "partition": bool(partition)}
            if networks:
                options["members"] = networks
            if blueprint is not None:
                options["blueprint"] = blueprint
            _engine.search.begin(folder, found, context, options, given.config(found.classes))
        else:
            config = SearchResult(folder).settings["config"]
            found = _Given.of_log(config, data, validation, folder).open(comm)
        _run(folder, found, context, progress, networks=networks, seconds=seconds, ranks_per_network=ranks_per_network,
             keep=keep, joins=join)
    return SearchResult(folder)


def _reader_options(x, y, layout, target, features, missing, one_per_file):
    """By the names of the program's options."""
    if layout != "" and layout not in _LAYOUTS:
        raise _errors.InputError(f"layout is {layout!r}. Expected 'channels_first', 'channels_last' or None")
    options = {"x": x, "y": y, "one-per-file": one_per_file}
    options.update({name: _texts(given) for name, given in (("target", target), ("features", features)) if given})
    if layout != "":
        options["layout"] = _LAYOUTS[layout]
    if missing is not None:
        options["missing"] = str(missing)
    return options


def _refuse_old_search(folder, comm, overwrite):
    there = os.path.exists(os.path.join(folder, "search.jsonl")) and not overwrite
    if comm.allgather("yes" if there else "")[0]:
        raise _errors.InputError(f"{folder}: holds a search; keelson.search(resume={folder!r}) goes on with it, "
                                 "overwrite=True removes it, out= names another folder")


def _run(folder, found, context, progress, **options):
    """Works on a search that has begun, and writes its page."""
    rank = context.comm.rank
    tell = None
    if rank == 0 and progress:
        tell = progress if callable(progress) else lambda line: print(line, flush=True)
        tell(f"{found.describe()}; folder {folder}")
    settings = SearchResult(folder).settings
    propose = _tpe.Proposals(settings).propose if settings["method"] == "tpe" else None
    write_page = rank == 0 and not options["joins"]
    try:
        _engine.search.run(folder, found, context, tell=tell, propose=propose, **options)
    except BaseException as failure:
        if write_page:
            with contextlib.suppress(_errors.Error):  # the first failure is the one to tell
                _engine.search.write_report(folder)
        if isinstance(failure, KeyboardInterrupt):
            raise KeyboardInterrupt(f"the search was interrupted; keelson.search(resume={folder!r}) goes on") from None
        raise
    _on_first_rank(context.comm, lambda: _engine.search.write_report(folder) if write_page else None)
