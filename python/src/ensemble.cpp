#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "arrays.hpp"
#include "casters.hpp"
#include "engine/ensemble/combination.hpp"
#include "engine/ensemble/scores.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Arrays = std::vector<nb::object>;

/// What each member predicts for the same samples: f32 arrays of one shape, without gaps.
struct Predictions {
  std::vector<HostArray> owners;
  std::vector<const float*> members;
  Shape shape;  ///< (samples or rows, ...)
};

Predictions predictions_of(const Arrays& arrays) {
  Predictions p;
  if (arrays.empty()) refuse("no predictions were given. Expected an array for each member");
  for (std::size_t m = 0; m < arrays.size(); ++m) {
    const auto what = fmt::format("the predictions of member {}", m);
    auto array = host_array(arrays[m], what);
    require_dtype(array, DType::f32, what);
    if (!is_dense(array, false)) refuse("{}: expected an array without gaps", what);
    if (m > 0 && !(array.shape == p.shape))
      refuse("{} have the shape {}, but those of member 0 {}. Expected the same in all", what, shape_text(array.shape),
             shape_text(p.shape));
    p.shape = array.shape;
    p.members.push_back(reinterpret_cast<const float*>(array.data));
    p.owners.push_back(std::move(array));
  }
  if (p.shape.rank() < 2) refuse("the predictions have the shape {}. Expected (samples, ...)", shape_text(p.shape));
  return p;
}

/// Where the logits of a row or pixel are: (rows, classes) or (samples, classes, pixels...).
struct Points {
  explicit Points(const Shape& shape) : classes(shape[1]) {
    for (int d = 2; d < shape.rank(); ++d) pixels *= shape[d];
    count = shape[0] * pixels;
  }
  std::int64_t first(std::int64_t point) const { return point / pixels * classes * pixels + point % pixels; }
  std::int64_t classes, pixels = 1, count = 0;
};

Shape without_classes(const Shape& shape) {
  Shape rest{shape[0]};
  for (int d = 2; d < shape.rank(); ++d) rest.push_back(shape[d]);
  return rest;
}

/// An array of results, and its memory.
template <class T>
struct NewArray {
  explicit NewArray(const Shape& shape)
      : object(new_array(shape, sizeof(T) == sizeof(double) ? DType::f64 : DType::f32, false, &memory)) {}
  T& operator[](std::int64_t i) { return static_cast<T*>(memory)[i]; }
  void* memory = nullptr;
  nb::object object;
};

/// What an ensemble predicts, and how unsure it is: new arrays.
struct Combined {
  Combined(const Shape& predictions, const Shape& points)
      : mean(predictions), total(points), aleatoric(points), epistemic(points) {}
  nb::dict by_name() const {
    nb::dict arrays;
    arrays["mean"] = mean.object;
    arrays["total"] = total.object;
    arrays["aleatoric"] = aleatoric.object;
    arrays["epistemic"] = epistemic.object;
    return arrays;
  }
  NewArray<float> mean;
  NewArray<double> total, aleatoric, epistemic;
};

/// The mean of the members' probabilities at a temperature, and entropies before it.
nb::dict combine_classes(const Arrays& arrays, double temperature) {
  const Predictions p = predictions_of(arrays);
  const Points points(p.shape);
  Combined result(p.shape, without_classes(p.shape));
  {
    const nb::gil_scoped_release release;
    const auto classes = static_cast<std::size_t>(points.classes);
    std::vector<double> of_member(classes), sum(classes);
    const auto members = static_cast<double>(p.members.size());
    for (std::int64_t i = 0; i < points.count; ++i) {
      std::ranges::fill(sum, 0.0);
      double within = 0;
      for (const float* member : p.members) {
        ensemble::softmax(member + points.first(i), points.pixels, of_member);
        for (std::size_t k = 0; k < classes; ++k) sum[k] += of_member[k];
        within += ensemble::entropy(of_member);
      }
      for (double& s : sum) s /= members;
      result.total[i] = ensemble::entropy(sum);
      result.aleatoric[i] = within / members;
      result.epistemic[i] = result.total[i] - result.aleatoric[i];
      if (temperature != 1) ensemble::apply_temperature(sum, temperature, sum);
      for (std::size_t k = 0; k < classes; ++k)
        result.mean[points.first(i) + static_cast<std::int64_t>(k) * points.pixels] = static_cast<float>(sum[k]);
    }
  }
  return result.by_name();
}

/// Mean and variances of each number. `scales`: factor on the variances of each target, the last dimension; empty: 1.
nb::dict combine_values(const Arrays& arrays, const std::vector<double>& scales) {
  const Predictions p = predictions_of(arrays);
  const std::int64_t elements = p.shape.elements();
  const auto targets = static_cast<std::int64_t>(scales.size());
  if (targets > 0 && elements / p.shape[0] % targets != 0)
    refuse("{} scales for predictions of the shape {}. Expected one for each target", targets, shape_text(p.shape));
  Combined result(p.shape, p.shape);
  {
    const nb::gil_scoped_release release;
    std::vector<double> means(p.members.size());
    for (std::int64_t i = 0; i < elements; ++i) {
      for (std::size_t m = 0; m < means.size(); ++m) means[m] = static_cast<double>(p.members[m][i]);
      const auto moments = ensemble::mixture_moments(means, {});
      const double scale = targets == 0 ? 1 : scales[static_cast<std::size_t>(i % targets)];
      result.mean[i] = static_cast<float>(moments.mean);
      result.aleatoric[i] = scale * moments.aleatoric;
      result.epistemic[i] = scale * moments.epistemic;
      result.total[i] = result.aleatoric[i] + result.epistemic[i];
    }
  }
  return result.by_name();
}

/// Lets `combination` see all samples as one batch.
void combine(ensemble::Combination& combination, const Predictions& p, const HostArray& truth, DType type) {
  if (truth.shape.empty() || truth.shape[0] < 1 || p.shape[0] % truth.shape[0] != 0)
    refuse("y has the shape {}, but the predictions {}. Expected the same number of samples", shape_text(truth.shape),
           shape_text(p.shape));
  const std::int64_t samples = truth.shape[0];
  MetricSetup setup{.data = "y",
                    .samples = samples,
                    .units = static_cast<double>(samples),
                    .prediction_name = "prediction",
                    .prediction = p.shape,
                    .target = {"y", {}, type}};
  setup.prediction[0] = p.shape[0] / samples;
  for (int d = 1; d < truth.shape.rank(); ++d) setup.target.shape.push_back(truth.shape[d]);
  if (!is_dense(truth, false)) refuse("y: expected an array without gaps");
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples));
  std::iota(indices.begin(), indices.end(), 0);
  const nb::gil_scoped_release release;
  combination.reset(setup, static_cast<std::int64_t>(p.members.size()));
  combination.update({.count = samples, .indices = indices.data(), .members = p.members, .targets = truth.data});
}

HostArray truth_of(nb::handle y, DType type) {
  auto truth = host_array(y, "y");
  require_dtype(truth, type, "y");
  return truth;
}

nb::dict scores_of(const ensemble::ClassScores& s) {
  nb::dict d;
  d["nll"] = s.nll();
  d["brier"] = s.brier();
  d["ece"] = s.reliability().ece();
  d["accuracy"] = s.accuracy();
  return d;
}

nb::dict class_scores(const Arrays& arrays, nb::handle y, double temperature) {
  ensemble::ClassCombination combination(temperature);
  combine(combination, predictions_of(arrays), truth_of(y, DType::s32), DType::s32);
  const auto& s = combination.scores();
  nb::dict d = scores_of(s.ensemble());
  d["entropy"] = s.predictive_entropy();
  d["aleatoric"] = s.mean_entropy();
  d["epistemic"] = s.bald();
  nb::list members, bins;
  for (const auto& m : s.members()) members.append(scores_of(m));
  for (const auto& b : s.ensemble().reliability().bins())
    bins.append(nb::make_tuple(b.count, b.confidence, b.accuracy));
  d["members"] = members;
  d["reliability"] = bins;
  return d;
}

double fit_temperature(const Arrays& arrays, nb::handle y) {
  constexpr std::int64_t kept = 1 << 24;  // probabilities: 64 MiB
  ensemble::ClassCombination combination(1, kept);
  combine(combination, predictions_of(arrays), truth_of(y, DType::s32), DType::s32);
  const nb::gil_scoped_release release;
  return combination.fit();
}

nb::dict scores_of(const ensemble::ValueEnsemble& s) {
  nb::dict d;
  d["rmse"] = std::sqrt(s.ensemble().mse);
  d["mae"] = s.ensemble().mae;
  d["nll"] = s.nll();
  d["crps"] = s.crps();
  d["crps_of_members"] = s.crps_of_members();
  d["coverage_50"] = s.coverage(0.5);
  d["coverage_90"] = s.coverage(0.9);
  d["aleatoric"] = s.aleatoric();
  d["epistemic"] = s.epistemic();
  d["pit"] = s.pit().counts();
  nb::list members;
  for (const auto& m : s.members()) {
    nb::dict of_member;
    of_member["rmse"] = std::sqrt(m.mse);
    of_member["mae"] = m.mae;
    members.append(of_member);
  }
  d["members"] = members;
  return d;
}

std::vector<nb::dict> value_scores(const Arrays& arrays, nb::handle y, const std::vector<double>& scales) {
  const auto truth = truth_of(y, DType::f32);
  const std::int64_t targets =
      truth.shape.empty() ? 0 : truth.shape.elements() / std::max<std::int64_t>(1, truth.shape[0]);
  if (!scales.empty() && std::ssize(scales) != targets)
    refuse("{} scales for {} targets. Expected one for each", scales.size(), targets);
  ensemble::ValueCombination combination(scales);
  combine(combination, predictions_of(arrays), truth, DType::f32);
  std::vector<nb::dict> all;
  for (const auto& target : combination.targets()) all.push_back(scores_of(target));
  return all;
}

std::vector<double> fit_scales(const Arrays& arrays, nb::handle y) {
  ensemble::ValueCombination combination;
  combine(combination, predictions_of(arrays), truth_of(y, DType::f32), DType::f32);
  return combination.scales();
}

}  // namespace

void bind_ensemble(nb::module_& m) {
  m.def("combine_classes", &combine_classes, nb::arg("logits"), nb::arg("temperature") = 1.0,
        "Mean probabilities, and entropies, of members' logits (rows, classes) or (samples, classes, pixels...).");
  m.def("combine_values", &combine_values, nb::arg("values"), nb::arg("scales") = std::vector<double>(),
        "Means and variances of members' predictions (samples, targets).");
  m.def("class_scores", &class_scores, nb::arg("logits"), nb::arg("y"), nb::arg("temperature") = 1.0,
        "Scores of the mean probabilities, and of each member.");
  m.def("fit_temperature", &fit_temperature, nb::arg("logits"), nb::arg("y"),
        "The temperature for the mean probabilities that minimises the NLL.");
  m.def("value_scores", &value_scores, nb::arg("values"), nb::arg("y"), nb::arg("scales") = std::vector<double>(),
        "Scores of the mixture, and of each member, of each target.");
  m.def("fit_scales", &fit_scales, nb::arg("values"), nb::arg("y"),
        "The factors on the variances of each target that minimise the NLL.");
}

}  // namespace keelson::python
