"""Networks for arrays with the methods of scikit-learn's estimators. scikit-learn itself is not needed."""

import os
import sys

import numpy

from . import _engine, _errors, nets
from ._engine import data as _data
from ._engine import layers as _layers
from ._stopping import EarlyStopping

__all__ = ["KeelsonClassifier", "KeelsonRegressor", "fit"]


def _conv_network(shape, outputs, classes, units, dropout, label_smoothing, weighs):
    """Two convolutions with pooling, and two dense layers, for images and volumes."""
    graph = _engine.Graph("images")
    h = x = graph.input("x", shape)
    for i, filters in enumerate((16, 32)):
        h = _layers.relu(_layers.conv(h, filters, name=f"conv{i + 1}"))
        if min(shape[1:]) >= 4 ** (i + 1):
            h = _layers.max_pool(h, 2)
    h = _layers.relu(_layers.dense(_layers.flatten(h), units, name="dense1"))
    if dropout > 0:
        h = _layers.dropout(h, dropout)
    prediction = _layers.dense(h, outputs, name="head")
    graph.output("prediction", prediction)
    target = graph.input("y", (), "int32") if classes else graph.input("y", (outputs,))
    weight = graph.input("sample_weight", ()) if weighs else None
    if classes:
        _layers.cross_entropy(prediction, target, label_smoothing=label_smoothing, sample_weight=weight)
    else:
        _layers.mse(prediction, target, sample_weight=weight)
    return graph


class _Estimator:
    """What classifiers and regressors share. Parameters are those of the constructor, as scikit-learn wants them."""

    _classifies, label_smoothing = False, 0.0
    _NAMES = ("layers", "units", "activation", "dropout", "batch_norm", "network", "epochs", "batch", "learning_rate",
              "optimizer", "validation", "patience", "random_state", "context", "verbose")

    def __init__(self, *, layers=2, units=128, activation="relu", dropout=0.0, batch_norm=False, network=None, epochs=100,
                 batch=32, learning_rate=1e-3, optimizer=None, validation=0.1, patience=10, random_state=None, context=None,
                 verbose=None):
        self.layers, self.units, self.activation, self.dropout, self.batch_norm = layers, units, activation, dropout, batch_norm
        self.network, self.epochs, self.batch, self.learning_rate = network, epochs, batch, learning_rate
        self.optimizer, self.validation, self.patience = optimizer, validation, patience
        self.random_state, self.context, self.verbose = random_state, context, verbose

    # --- what scikit-learn expects of every estimator

    def get_params(self, deep=True):
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._NAMES}

    def set_params(self, **params):
        """Sets arguments of the constructor, for the next fit(). Returns the estimator."""
        for name, value in params.items():
            if name not in self._NAMES:
                raise _errors.InputError(f"{type(self).__name__} has no parameter '{name}'. Expected one of "
                                         f"{', '.join(self._NAMES)}")
            setattr(self, name, value)
        return self

    def __repr__(self):
        standard = type(self)()
        given = [f"{n}={getattr(self, n)!r}" for n in self._NAMES if getattr(self, n) is not getattr(standard, n)
                 and repr(getattr(self, n)) != repr(getattr(standard, n))]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        return Tags(estimator_type=self._estimator_type,
                    target_tags=TargetTags(required=True, multi_output=not self._classifies),
                    classifier_tags=ClassifierTags() if self._classifies else None,
                    regressor_tags=None if self._classifies else RegressorTags(),
                    input_tags=InputTags(two_d_array=True, three_d_array=True),
                    non_deterministic=False)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "graph_")

    def __getstate__(self):
        state = dict(self.__dict__)
        if "parameters_" in state:
            state["_values"] = {name: numpy.array(self.parameters_[name]) for name in self.parameters_}
            for name in ("graph_", "parameters_", "_inference"):
                state.pop(name, None)
        state["context"] = None
        return state

    def __setstate__(self, state):
        values = state.pop("_values", None)
        self.__dict__.update(state)
        if values is not None:
            self._make_network()
            for name, value in values.items():
                self.parameters_[name] = value
            self._make_inference()

    # --- samples

    def _refuse(self, text):
        raise _errors.InputError(f"{type(self).__name__}: {text}")

    def _samples(self, x, reset):
        """x as float32 arrays, checked. reset: it is that of fit(), and says what others must look like."""
        if "sklearn" in sys.modules:
            from sklearn.utils.validation import validate_data

            x = validate_data(self, x, reset=reset, dtype="numeric", allow_nd=True, ensure_min_samples=2 if reset else 1)
        x = numpy.asarray(x)
        if x.dtype.kind not in "fiub":
            try:
                x = x.astype("float64")
            except (TypeError, ValueError):
                self._refuse(f"x has the dtype {x.dtype}. Expected numbers")
        if x.ndim < 2:
            self._refuse(f"x has the shape {x.shape}. Expected (samples, features), or images or volumes with their samples as "
                         "the first dimension: reshape(-1, 1) for one feature")
        bad = numpy.flatnonzero(~numpy.isfinite(x.reshape(len(x), -1)).all(axis=1)) if x.dtype.kind == "f" else []
        if len(bad):
            self._refuse(f"sample {bad[0]} of x has NaN or infinity ({len(bad)} samples do). Expected finite numbers: leave the "
                         "samples out, or give a number for what is missing")
        if reset:
            self.n_features_in_, self._shape = x.shape[1], x.shape[1:]
        elif x.shape[1:] != self._shape:
            if x.ndim == 2:
                self._refuse(f"X has {x.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                             "as input")
            self._refuse(f"samples of x have the shape {x.shape[1:]}. Expected {self._shape}, as in fit()")
        if x.ndim in (3,):
            x = x[:, None]  # one channel
        return numpy.ascontiguousarray(x, dtype="float32")

    @staticmethod
    def _scales(a):
        """Mean and standard deviation of each feature or channel, in a shape that fits the samples."""
        axes = (0, *range(2, a.ndim))
        means, deviations = a.mean(axes, dtype="float64", keepdims=True), a.std(axes, dtype="float64", keepdims=True)
        return means, numpy.where(deviations > 0, deviations, 1)

    def _scaled(self, x):
        return numpy.ascontiguousarray((x - self.scales_[0]) / self.scales_[1], dtype="float32")

    # --- training

    def _make_network(self):
        shape = self._sample_shape
        if self.network is not None:
            self.graph_ = self.network(shape, self._outputs)
        elif len(shape) == 1:
            self.graph_ = nets.mlp(shape[0], self._outputs, classes=self._classifies, layers=self.layers, units=self.units,
                                   activation=self.activation, batch_norm=self.batch_norm, dropout=self.dropout,
                                   label_smoothing=self.label_smoothing, sample_weights=self._weighs)
        else:
            self.graph_ = _conv_network(shape, self._outputs, self._classifies, self.units, self.dropout,
                                        self.label_smoothing, self._weighs)
        seed = self.random_state if isinstance(self.random_state, (int, numpy.integer)) else 1
        if hasattr(self.random_state, "randint"):  # numpy.random.RandomState
            seed = int(self.random_state.randint(1 << 30))
        self._seed = int(seed)
        self.parameters_ = _engine.Parameters(self.graph_, self.context or _engine.Context(), seed=self._seed)

    def _make_inference(self):
        self._inference = _engine.Inference(self.parameters_, batch=max(64, self.batch))

    def _split(self, *arrays):
        """Of x, y and weights: training and validation samples; the latter may be None."""
        count = len(arrays[0])
        if isinstance(self.validation, (tuple, list)):
            held_x, held_y = self.validation
            held_y = self._known_targets(held_y)
            return arrays, (self._samples(held_x, False), held_y, self._weights(None, held_y))
        held = int(self.validation * count) if self.validation else 0
        if held < 1 or count - held < 2:
            return arrays, None
        order = numpy.random.default_rng(self._seed).permutation(count)
        return [a[order[held:]] for a in arrays], [a[order[:held]] for a in arrays]

    def _weights(self, given, y):
        """The weight of each sample."""
        if given is None:
            return numpy.ones(len(y))
        weights = numpy.asarray(given, dtype="float64")
        if weights.shape != (len(y),) or not numpy.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            self._refuse(f"sample_weight has the shape {weights.shape}. Expected a number for each of {len(y)} samples, none "
                         "negative and not all of them zero")
        return weights

    def fit(self, X, y, sample_weight=None):
        """Trains a new network. X: (samples, features), or images and volumes (samples, height, width) or (samples,
        channels, [depth,] height, width); a DataFrame, too. y: (samples). sample_weight: (samples), how much each sample
        counts beside others; only ratios matter. Returns the estimator.

        With `validation` the loss of these samples decides: training ends after `patience` epochs without a better one, and
        the network gets the parameters of the best epoch. history_: results of the epochs (keelson.History). parameters_,
        graph_: the network, e.g. for keelson.export_onnx.
        """
        if y is None:
            self._refuse("y is None. It requires y to be passed, but the target y is None: expected a target for each sample")
        x, y = self._samples(X, True), self._targets(y)
        if len(x) != len(y):
            self._refuse(f"X has {len(x)} samples, and y has {len(y)}. Expected the same number")
        self._sample_shape = x.shape[1:]
        weights = self._weights(sample_weight, y)
        self._weighs = bool((weights != weights[0]).any())
        self._make_network()
        training, held = self._split(x, y, weights)
        self.scales_ = self._scales(training[0])
        self._set_target_scales(training[1])
        self._train(*(self._fields(part, training[2].mean()) for part in (training, held)))
        self._make_inference()
        return self

    def _fields(self, part, mean_weight):
        """Arrays by the inputs of the network, or None."""
        if part is None:
            return None
        fields = {"x": self._scaled(part[0]), "y": self._scaled_targets(part[1])}
        if self._weighs:
            fields["sample_weight"] = numpy.ascontiguousarray(part[2] / mean_weight, dtype="float32")
        return fields

    def _train(self, training, held):
        batch = min(self.batch, len(training["x"]))
        stopping = [] if held is None else [EarlyStopping(self.patience)]
        with _engine.Trainer(self.parameters_, training, held, batch=batch, epochs=self.epochs, seed=self._seed,
                             optimizer=self.optimizer, learning_rate=self.learning_rate, callbacks=stopping) as trainer:
            self.history_ = trainer.run(progress=self.verbose)
        self.n_iter_ = len(self.history_["epoch"])

    def _predicted(self, X):
        if not hasattr(self, "graph_"):
            text = f"This {type(self).__name__} instance is not fitted yet: call fit(X, y) first"
            if "sklearn" in sys.modules:
                from sklearn.exceptions import NotFittedError

                raise NotFittedError(text)
            raise _errors.InputError(text)
        return self._inference(self._scaled(self._samples(X, False)))


class KeelsonClassifier(_Estimator):
    """Learns classes: a dense network for tables, two convolutions and two dense layers for images and volumes.

        model = keelson.KeelsonClassifier().fit(X, y)
        model.predict(X_new)

    It has the methods of scikit-learn's classifiers, and works in its pipelines, searches and cross validations.

    layers, units, activation, batch_norm, dropout: of the dense network (keelson.nets.mlp). network: a function of the shape of
    a sample and the number of outputs that returns another keelson.Graph, with inputs x and y (int32), the output
    "prediction" (logits) and a loss; with weights also an input sample_weight. class_weight: how much each class counts: a dict,
    or 'balanced': as if all classes had as many samples. label_smoothing: the part of a target's probability that all classes
    share. epochs: at most. batch, learning_rate, optimizer: default Adam.
    validation: the part of the samples that decides when to stop, or a pair (X, y), or None. patience: epochs without a better
    validation loss after which training ends; None: never. random_state: seed of everything. context: the device.
    verbose: True: a line for each epoch; False: nothing; None: one line that is rewritten, on a terminal or in a notebook.

    Features get the mean 0 and the standard deviation 1 over the training samples; of images and volumes, channels do.
    scales_: these means and deviations. classes_: the classes, sorted.
    """

    _estimator_type, _classifies = "classifier", True
    _NAMES = (*_Estimator._NAMES, "class_weight", "label_smoothing")

    def __init__(self, *, layers=2, units=128, activation="relu", dropout=0.0, batch_norm=False, network=None, epochs=100,
                 batch=32, learning_rate=1e-3, optimizer=None, validation=0.1, patience=10, random_state=None, context=None,
                 verbose=None, class_weight=None, label_smoothing=0.0):
        super().__init__(layers=layers, units=units, activation=activation, dropout=dropout, batch_norm=batch_norm,
                         network=network, epochs=epochs, batch=batch, learning_rate=learning_rate, optimizer=optimizer,
                         validation=validation, patience=patience, random_state=random_state, context=context,
                         verbose=verbose)
        self.class_weight, self.label_smoothing = class_weight, label_smoothing

    def _weights(self, given, y):
        weights = super()._weights(given, y)
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                self._refuse(f"class_weight is '{self.class_weight}'. Expected None, 'balanced' or a dict")
            counts = numpy.bincount(y, weights=weights, minlength=len(self.classes_))
            of_class = weights.sum() / len(self.classes_) / numpy.maximum(counts, 1e-30)
        else:
            classes = self.classes_.tolist()
            unknown = [c for c in self.class_weight if c not in classes]
            if unknown:
                self._refuse(f"class_weight has the class '{unknown[0]}'. The classes are {', '.join(map(str, classes))}")
            of_class = numpy.array([self.class_weight.get(c, 1.0) for c in classes], dtype="float64")
        return weights * of_class[y]

    def _targets(self, y):
        y = self._checked_labels(y)
        self.classes_, numbers = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            self._refuse(f"y has the only class '{self.classes_[0]}'. Expected at least two classes")
        self._outputs = len(self.classes_)
        return numbers.reshape(-1).astype("int32")

    def _checked_labels(self, y):
        if "sklearn" in sys.modules:
            from sklearn.utils.multiclass import check_classification_targets
            from sklearn.utils.validation import column_or_1d

            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        y = numpy.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            self._refuse(f"y has the shape {y.shape}. Expected one class for each sample")
        if y.dtype.kind == "f" and not numpy.isfinite(y).all():
            self._refuse("y has NaN or infinity. Expected classes")
        if y.dtype.kind == "f" and (y != numpy.round(y)).any():
            self._refuse("y has fractions. Expected classes: names or whole numbers; Unknown label type for numbers to "
                         "predict, which KeelsonRegressor takes")
        return y

    def _known_targets(self, y):
        y = self._checked_labels(y)
        places = numpy.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        wrong = numpy.flatnonzero(self.classes_[places] != y)
        if len(wrong):
            self._refuse(f"sample {wrong[0]} of the validation has the class '{y[wrong[0]]}', which no training sample has")
        return places.astype("int32")

    def _set_target_scales(self, y):
        pass

    def _scaled_targets(self, y):
        return y

    def predict_proba(self, X):
        """Probabilities of the classes, (samples, classes), in the order of classes_."""
        return _engine.ensemble.combine_classes([numpy.ascontiguousarray(self._predicted(X))])["mean"]

    def predict(self, X):
        """The likeliest class of each sample."""
        found = self._predicted(X).argmax(axis=1)
        return self.classes_[found]

    def score(self, X, y, sample_weight=None):
        """The accuracy."""
        return float(numpy.average(self.predict(X) == numpy.asarray(y), weights=sample_weight))


class KeelsonRegressor(_Estimator):
    """Learns numbers: as keelson.KeelsonClassifier, with the mean squared error as its loss.

    y: (samples), or (samples, targets). Targets get the mean 0 and the standard deviation 1; predictions are in the units
    of y. `network` makes a graph with the output "prediction" (samples, targets).
    """

    _estimator_type = "regressor"

    def _targets(self, y):
        if "sklearn" in sys.modules:
            from sklearn.utils.validation import check_array

            y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
        y = numpy.asarray(y)
        if y.ndim not in (1, 2) or y.dtype.kind not in "fiub":
            self._refuse(f"y has the shape {y.shape} and the dtype {y.dtype}. Expected numbers: (samples) or (samples, targets)")
        bad = numpy.flatnonzero(~numpy.isfinite(y.astype("float64").reshape(len(y), -1)).all(axis=1))
        if len(bad):
            self._refuse(f"sample {bad[0]} of y has NaN or infinity. Expected finite numbers")
        self._flat = y.ndim == 1
        y = y.reshape(len(y), -1).astype("float64")
        self._outputs = y.shape[1]
        return y

    def _known_targets(self, y):
        return numpy.asarray(y, dtype="float64").reshape(len(y), -1)

    def _set_target_scales(self, y):
        self._y_scales = self._scales(y)

    def _scaled_targets(self, y):
        return numpy.ascontiguousarray((y - self._y_scales[0]) / self._y_scales[1], dtype="float32")

    def predict(self, X):
        """Numbers in the units of y: (samples), or (samples, targets) as y had."""
        found = self._predicted(X) * self._y_scales[1] + self._y_scales[0]
        return found[:, 0] if self._flat else found

    def score(self, X, y, sample_weight=None):
        """The coefficient of determination R^2, the mean over the targets: 1 less the ratio of squared errors to squares of
        the deviations from the mean."""
        y = numpy.asarray(y, dtype="float64").reshape(len(X), -1)
        errors = (y - self.predict(X).reshape(len(y), -1)) ** 2
        spread = (y - numpy.average(y, axis=0, weights=sample_weight)) ** 2
        numerator, denominator = (numpy.average(a, axis=0, weights=sample_weight) for a in (errors, spread))
        return float(numpy.mean(1 - numerator / numpy.where(denominator > 0, denominator, 1)))


def _table(path, target, classes):
    """The table with its classes where its target has some, as the programs tell them: names, and columns of at most 100
    different whole numbers."""
    path, columns = os.fspath(path), {} if target is None else {"targets": target}
    if classes is None:
        try:
            table = _data.TableDataset(path, **columns)
        except _errors.InputError:  # a name in the target, or a file that cannot be read, which is refused again
            classes = True
        else:
            y = numpy.array([table[i]["y"] for i in range(len(table))])
            most_classes = 100
            classes = y.shape[1:] == (1,) and (y == numpy.round(y)).all() and len(numpy.unique(y)) <= most_classes
            if not classes:
                return table
    return _data.TableDataset(path, classes=bool(classes), **columns)


def _read(given, target, classes):
    """x and y of a table's file, or of a data set with these fields."""
    dataset = given if isinstance(given, _data.Dataset) else _table(given, target, classes)
    samples = [dataset[i] for i in range(len(dataset))]
    x, y = (numpy.stack([sample[field] for sample in samples]) for field in ("x", "y"))
    names = getattr(dataset, "classes", None)
    if names:
        return x, numpy.array(names)[y]
    return x, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def fit(X, y=None, *, target=None, classes=None, **options):
    """Trains a network on arrays, and returns it: a fitted KeelsonClassifier or KeelsonRegressor.

        model = keelson.fit(X, y)
        predicted = model.predict(X_new)

    Without y, X is the path of a table (CSV, Parquet; target: its column, by default the last one), or a data set of
    keelson.data with the fields x and y; all samples are read into memory. Of arrays, y with names, truth values or whole
    numbers are classes, and others are numbers to predict; of tables, names and at most 100 different whole numbers are
    classes. classes=True or False says so. The other options are those of the two classes.
    """
    if y is None:
        X, y = _read(X, target, classes)
    if classes is None:
        classes = numpy.asarray(y).dtype.kind not in "fc" and numpy.asarray(y).ndim == 1
    return (KeelsonClassifier if classes else KeelsonRegressor)(**options).fit(X, y)
