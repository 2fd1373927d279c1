"""keelson.fit and the estimators. Each rank trains for itself, unless it gives a context."""

import pickle

import numpy
import pytest

import keelson
from conftest import batch_of


def rows(count=400, seed=0):
    x = numpy.random.default_rng(seed).normal(size=(count, 5))
    return x, numpy.where(x[:, 0] * x[:, 1] > 0, "same", "other")


def test_classes():
    x, y = rows()
    model = keelson.fit(x[:300], y[:300], epochs=40, learning_rate=3e-3)
    assert model.score(x[300:], y[300:]) > 0.8
    probabilities = model.predict_proba(x[300:])
    assert list(model.classes_) == ["other", "same"] and numpy.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert (model.predict(x[300:]) == model.classes_[probabilities.argmax(axis=1)]).all()
    losses = model.history_["val_loss"]
    assert len(losses) == model.n_iter_ and losses[-1] < losses[0]
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(x) == model.predict_proba(x)).all() and again.history_ == model.history_
    again = keelson.KeelsonClassifier(epochs=40, learning_rate=3e-3).fit(x[:300], y[:300])
    assert (again.predict_proba(x) == model.predict_proba(x)).all()


def test_numbers_and_the_best_epoch():
    x, _ = rows()
    y = 100 + 20 * (x[:, 0] ** 2 + x[:, 1])
    model = keelson.fit(x[:300], y[:300], epochs=60, patience=3, learning_rate=0.02)
    assert model.predict(x).shape == (400,) and model.score(x[300:], y[300:]) > 0.8
    losses = model.history_["val_loss"]
    best = losses.index(min(losses))
    assert len(losses) == min(60, best + 1 + 3), "it stops 3 epochs after the best one"
    order = numpy.random.default_rng(model._seed).permutation(300)[:30]  # the samples that were held out
    error = (model.predict(x[order]) - y[order]) / model._y_scales[1][0, 0]
    assert numpy.isclose((error ** 2).mean(), losses[best], rtol=1e-3), "with the parameters of the best epoch"
    two = keelson.fit(x, numpy.stack([y, -y], axis=1), epochs=2)
    assert two.predict(x[:7]).shape == (7, 2)


def test_images_and_a_network_of_ones_own():
    random = numpy.random.default_rng(1)
    x, y = random.random((120, 8, 8)), numpy.arange(120) % 2
    x[y == 1, :4] += 1
    assert keelson.fit(x, y, epochs=10).score(x, y) > 0.95

    def network(shape, outputs):
        graph = keelson.Graph("linear")
        logits = keelson.layers.dense(keelson.layers.flatten(graph.input("x", shape)), outputs)
        graph.output("prediction", logits)
        keelson.layers.cross_entropy(logits, graph.input("y", (), "int32"))
        return graph

    model = keelson.KeelsonClassifier(network=network, epochs=20, learning_rate=0.01).fit(x, y)
    assert model.graph_.parameters["dense1/weights"] == (2, 64) and model.score(x, y) > 0.95


def test_tables_and_data_sets(tmp_path):
    x, y = rows(200)
    for name, values in (("names", y), ("numbers", x[:, 0] - x[:, 1]), ("counts", numpy.where(y == "same", 3, 5))):
        text = "a,b,c,d,e,value\n" + "".join(",".join(map(str, [*r, v])) + "\n" for r, v in zip(x, values))
        (tmp_path / f"{name}.csv").write_text(text)
    model = keelson.fit(tmp_path / "names.csv", target="value", epochs=5)
    assert list(model.classes_) == ["other", "same"] and model.n_features_in_ == 5
    assert isinstance(keelson.fit(tmp_path / "numbers.csv", epochs=2), keelson.KeelsonRegressor)
    assert list(keelson.fit(tmp_path / "counts.csv", epochs=2).classes_) == ["3", "5"]
    assert isinstance(keelson.fit(tmp_path / "counts.csv", epochs=2, classes=False), keelson.KeelsonRegressor)
    table = keelson.data.TableDataset(str(tmp_path / "names.csv"), classes=True)
    assert (keelson.fit(table, epochs=5).predict(x) == model.predict(x)).all()
    with pytest.raises(keelson.InputError, match="missing.csv"):
        keelson.fit(tmp_path / "missing.csv")


def test_ranks_train_together(context):
    x, y = rows()
    model = keelson.fit(x, y, context=context, batch=batch_of(32), epochs=3, verbose=False)
    assert keelson.world().allgather(str(model.history_["loss"])).count(str(model.history_["loss"])) == keelson.world().size


@pytest.mark.parametrize("call, words", [
    (lambda x, y: keelson.fit(x, y[:3]), "X has 40 samples, and y has 3"),
    (lambda x, y: keelson.fit(x[:, 0], y), "reshape"),
    (lambda x, y: keelson.fit(x, numpy.full(40, "a")), "the only class 'a'"),
    (lambda x, y: keelson.fit(numpy.where(x > 2, numpy.nan, x), y), "has NaN or infinity"),
    (lambda x, y: keelson.fit(x, y, epochs=1).predict(x[:, :2]), "X has 2 features, but KeelsonClassifier is expecting 5"),
    (lambda x, y: keelson.fit(x, y, epochs=1, validation=(x, numpy.full(40, "b"))), "has the class 'b', which no training"),
    (lambda x, y: keelson.KeelsonClassifier().set_params(lr=1), "no parameter 'lr'. Expected one of layers"),
    (lambda x, y: keelson.KeelsonClassifier().predict(x), "not fitted yet"),
    (lambda x, y: keelson.KeelsonClassifier().fit(x, x[:, 0]), "y has fractions"),
])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(ValueError) as raised:
        call(*rows(40))
    assert words in str(raised.value).replace("Reshape", "reshape")


@pytest.mark.parametrize("name", ["KeelsonClassifier", "KeelsonRegressor"])
def test_they_are_estimators_of_scikit_learn(alone, name):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    batches = "a sample of weight 0 is in a batch"
    results = checks.check_estimator(getattr(keelson, name)(epochs=60, units=64), on_fail=None, on_skip=None,
                                     expected_failed_checks={"check_sample_weight_equivalence_on_dense_data": batches})
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []


def test_weights_move_the_decision():
    random = numpy.random.default_rng(4)
    x = numpy.concatenate([random.normal(0, 1, (360, 2)), random.normal(1, 1, (40, 2))])
    y = numpy.array(["many"] * 360 + ["few"] * 40)

    def recall(**options):
        weight = options.pop("sample_weight", None)
        model = keelson.KeelsonClassifier(units=16, epochs=15, random_state=1, verbose=False, **options)
        return numpy.mean(model.fit(x, y, sample_weight=weight).predict(x[y == "few"]) == "few")

    plain = recall()
    assert recall(class_weight="balanced") > plain + 0.3
    assert recall(class_weight={"few": 9.0}) > plain + 0.3
    assert recall(sample_weight=numpy.where(y == "few", 9.0, 1.0)) > plain + 0.3
    assert recall(sample_weight=numpy.full(400, 3.0)) == plain
    with pytest.raises(keelson.InputError, match="class_weight has the class 'none'. The classes are few, many"):
        recall(class_weight={"none": 2.0})
    with pytest.raises(keelson.InputError, match=r"sample_weight has the shape \(3,\)"):
        recall(sample_weight=numpy.ones(3))


def test_smooth_labels_make_a_classifier_less_certain():
    random = numpy.random.default_rng(5)
    x = numpy.concatenate([random.normal(-3, 1, (200, 2)), random.normal(3, 1, (200, 2))])
    y = numpy.repeat([0, 1], 200)
    sure, smooth = (keelson.KeelsonClassifier(units=16, epochs=30, random_state=1, verbose=False, label_smoothing=s).fit(x, y)
                    for s in (0.0, 0.2))
    assert sure.predict_proba(x).max(axis=1).mean() > 0.97
    assert abs(smooth.predict_proba(x).max(axis=1).mean() - 0.9) < 0.03
