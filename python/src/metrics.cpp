#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "casters.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/accuracy.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"
#include "engine/train/metrics/perplexity.hpp"
#include "engine/train/metrics/predictions.hpp"
#include "engine/train/metrics/roc_auc.hpp"
#include "engine/train/metrics/target_metric.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

/// The mean, over all samples, of a number that a Python function computes from each sample's prediction and target.
class FunctionMetric final : public Metric {
 public:
  FunctionMetric(nb::callable function, std::string name, bool higher_is_better)
      : function_(std::move(function)), name_(std::move(name)), higher_is_better_(higher_is_better) {}
  std::string name() const override { return name_; }
  bool higher_is_better() const override { return higher_is_better_; }
  void reset(const MetricSetup& setup) override {
    setup_ = setup;
    sum_ = {};
  }
  void update(const MetricBatch& batch) override {
    if (batch.count == 0) return;
    const nb::gil_scoped_acquire acquire;
    const auto predictions = with_samples(batch.count, setup_.prediction),
               targets = with_samples(batch.count, setup_.target.shape);
    const nb::object values =
        function_(copy(batch.predictions, predictions, DType::f32, false),
                  copy(batch.targets, targets, setup_.target.dtype, setup_.target.shape.rank() >= 3));
    const nb::object flat = nb::module_::import_("numpy").attr("asarray")(values, "float64");
    if (nb::cast<std::size_t>(flat.attr("size")) != static_cast<std::size_t>(batch.count))
      refuse("the metric '{}' gave {} numbers for {} samples. Expected one for each sample", name_,
             text_of(flat.attr("size")), batch.count);
    for (const auto value : flat.attr("ravel")()) sum_.add(nb::cast<double>(value));
  }
  void reduce(Communicator* communicator) override { ExactSum::reduce({&sum_, 1}, communicator); }
  double value() const override { return sum_.value() / static_cast<double>(setup_.samples); }

 private:
  static Shape with_samples(std::int64_t count, const Shape& sample) {
    Shape shape{count};
    for (const auto extent : sample) shape.push_back(extent);
    return shape;
  }
  static nb::object copy(const void* from, const Shape& shape, DType type, bool channels_last) {
    void* data = nullptr;
    nb::object array = new_array(shape, type, channels_last, &data);
    std::copy_n(static_cast<const std::byte*>(from), static_cast<std::size_t>(shape.elements()) * size_of(type),
                static_cast<std::byte*>(data));
    return array;
  }

  nb::callable function_;
  std::string name_;
  bool higher_is_better_;
  MetricSetup setup_;
  ExactSum sum_;
};

std::vector<TargetUnit> units_of(const std::vector<std::tuple<std::string, double, double>>& targets) {
  std::vector<TargetUnit> units;
  for (const auto& [name, scale, offset] : targets) units.push_back({name, scale, offset});
  return units;
}

/// (classes, classes) int64: rows are true classes.
nb::object array_of(const ConfusionMatrix& counts) {
  nb::list rows;
  for (std::int64_t truth = 0; truth < counts.classes(); ++truth) {
    nb::list row;
    for (std::int64_t found = 0; found < counts.classes(); ++found) row.append(counts(truth, found));
    rows.append(row);
  }
  return nb::module_::import_("numpy").attr("array")(rows, "int64");
}

/// The true classes as int32.
nb::object classes_of(const Predictions& p) {
  void* data = nullptr;
  nb::object array = new_array({std::ssize(p.truth())}, DType::s32, false, &data);
  std::ranges::transform(p.truth(), static_cast<std::int32_t*>(data),
                         [](float c) { return static_cast<std::int32_t>(c); });
  return array;
}

nb::object array_of(const Predictions& p, const std::vector<float>& values) {
  const auto kept = static_cast<std::int64_t>(p.value());
  const std::int64_t rows = values.empty() ? 0 : kept;
  void* data = nullptr;
  const Shape shape{rows, rows > 0 ? std::ssize(values) / rows : 0};
  nb::object array = new_array(shape, DType::f32, false, &data);
  std::copy(values.begin(), values.end(), static_cast<float*>(data));
  return array;
}

}  // namespace

void bind_metrics(nb::module_& m) {
  using Targets = std::vector<std::tuple<std::string, double, double>>;
  using Names = std::vector<std::string>;
  nb::class_<Metric>(m, "Metric", "A number that measures how good a network is. Evaluation.metrics has the values.")
      .def_prop_ro("name", &Metric::name, "Name in logs and reports.")
      .def_prop_ro("higher_is_better", &Metric::higher_is_better, "True for an accuracy, false for an error.")
      .def("__repr__", [](const Metric& metric) { return "<keelson.metrics: " + metric.name() + ">"; });
  nb::class_<MeanAbsoluteError, Metric>(m, "MeanAbsoluteError",
                                        "Mean of |prediction - target|, per target. targets: (name, scale, offset) of\n"
                                        "each; y in the network's units is scale * y + offset in the user's units.")
      .def(
          "__init__",
          [](MeanAbsoluteError* self, const Targets& targets) { new (self) MeanAbsoluteError(units_of(targets)); },
          nb::arg("targets") = Targets());
  nb::class_<MeanRelativeError, Metric>(m, "MeanRelativeError",
                                        "Mean of |P - T| / |T| in the user's units. targets: as in MeanAbsoluteError.")
      .def(
          "__init__",
          [](MeanRelativeError* self, const Targets& targets) { new (self) MeanRelativeError(units_of(targets)); },
          nb::arg("targets"));
  nb::class_<Accuracy, Metric>(m, "Accuracy",
                               "The part of the samples, or of the pixels, whose predicted class is the true class.")
      .def(nb::init<Names>(), nb::arg("classes") = Names())
      .def_prop_ro(
          "confusion", [](const Accuracy& a) { return array_of(a.confusion()); },
          nb::sig("def confusion(self) -> numpy.typing.NDArray[numpy.int64]"),
          "(classes, classes) of the last validation: how many samples of the class of the row were predicted to be\n"
          "of the class of the column.")
      .def_prop_ro(
          "recalls", &Accuracy::values,
          "Of each class, the part of its samples that the last validation found; NaN for a class without any.");
  nb::class_<RocAuc, Metric>(
      m, "RocAuc",
      "The area under the receiver operating characteristic: the probability that a sample of the class has a larger\n"
      "score than one of another class. Of two classes, that of class 1; of more, the mean over the classes, each\n"
      "against all others.")
      .def(nb::init<Names>(), nb::arg("classes") = Names())
      .def_prop_ro("of_classes", &RocAuc::values, "The area of each class; of two classes, one number.")
      .def("curve", &RocAuc::curve, nb::arg("curve") = 0,
           "The points (false positive rate, true positive rate) of of_classes[curve], from (0, 0) to (1, 1).");
  nb::class_<MeanImageIoU, Metric>(m, "MeanImageIoU",
                                   "Intersection over union per image and class, then the mean (MLPerf HPC's DeepCAM).")
      .def(nb::init<Names>(), nb::arg("classes") = Names());
  nb::class_<PooledIoU, Metric>(m, "PooledIoU", "Intersection over union over all pixels of all samples (SC18).")
      .def(nb::init<Names>(), nb::arg("classes") = Names());
  nb::class_<Perplexity, Metric>(m, "Perplexity", "exp(mean loss per unit), for language models.").def(nb::init<>());
  nb::class_<Predictions, Metric>(m, "Predictions",
                                  "Collects predictions and targets of every k-th sample on rank 0, at most `most`;\n"
                                  "0: of all samples.")
      .def(nb::init<std::int64_t>(), nb::arg("most") = 0)
      .def_prop_ro(
          "predicted", [](const Predictions& p) { return array_of(p, p.predicted()); },
          nb::sig("def predicted(self) -> numpy.typing.NDArray[numpy.float32]"),
          "(samples kept, targets), or the logits (samples kept, classes), in the order of the data set; empty on all\n"
          "ranks except 0.")
      .def_prop_ro(
          "truth", [](const Predictions& p) { return p.of_classes() ? classes_of(p) : array_of(p, p.truth()); },
          nb::sig("def truth(self) -> numpy.typing.NDArray[numpy.float32] | numpy.typing.NDArray[numpy.int32]"),
          "The targets of the same samples: (samples kept, targets), or their classes, (samples kept) int32.");
  nb::class_<FunctionMetric, Metric>(
      m, "FunctionMetric",
      "The mean, over all samples, of a function's results. The function gets predictions\n"
      "(n, rows, ...) and targets (n, ...) of a batch and returns n numbers.")
      .def(nb::init<nb::callable, std::string, bool>(), nb::arg("function"), nb::arg("name"), nb::kw_only(),
           nb::arg("higher_is_better") = false);
}

}  // namespace keelson::python
