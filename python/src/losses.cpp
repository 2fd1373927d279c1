#include "engine/layers/layers.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "casters.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Name = const std::string&;
using ops::LossKind;
using SampleWeight = std::optional<Value>;

std::optional<Var> importance_of(const SampleWeight& weight) {
  return weight ? std::optional(weight->var) : std::nullopt;
}

Value made(const Value& prediction, const Value& target, const ops::LossParams& params, const SampleWeight& weight,
           Name name = "loss") {
  return {prediction.network, loss(prediction.var, target.var, params, name, importance_of(weight))};
}

void bind_loss(nb::module_& m) {
  m.def(
      "loss",
      [](const Value& prediction, const Value& target, const std::string& kind, float delta, bool sum_rows,
         float label_smoothing, const SampleWeight& sample_weight, Name name) {
        return made(prediction, target,
                    {.kind = choose<LossKind>("kind", kind,
                                              {{"mse", LossKind::mse},
                                               {"mae", LossKind::mae},
                                               {"huber", LossKind::huber},
                                               {"gaussian_nll", LossKind::gaussian_nll},
                                               {"cross_entropy", LossKind::cross_entropy},
                                               {"binary_cross_entropy", LossKind::binary_cross_entropy}}),
                     .delta = delta,
                     .sum_rows = sum_rows,
                     .label_smoothing = label_smoothing},
                    sample_weight, name);
      },
      nb::arg("prediction"), nb::arg("target"), nb::arg("kind"), nb::kw_only(), nb::arg("delta") = 1.0f,
      nb::arg("sum_rows") = false, nb::arg("label_smoothing") = 0.0f, nb::arg("sample_weight") = nb::none(),
      nb::arg("name") = "loss",
      "Compares a prediction (rows, F) with a target input and makes the result the graph's loss. kind: 'mse', 'mae',\n"
      "'huber' (with delta), 'gaussian_nll' (the prediction has the mean of each target, then s of each target, and\n"
      "the variance is softplus(s) + 1e-6), 'cross_entropy' (target: int32 class numbers) or 'binary_cross_entropy'\n"
      "(target: 0 to 1 for each logit). sum_rows: a sample's loss is the sum over its rows instead of their mean.\n"
      "label_smoothing: of 'cross_entropy', the part of the probability that all classes share. sample_weight: an\n"
      "input () float32, what the loss of each sample is multiplied by; the mean still divides by the number of "
      "samples.");
}

void bind_simple_losses(nb::module_& m) {
  const auto simple = [&m](const char* kind, LossKind loss_kind, const char* text) {
    m.def(
        kind,
        [loss_kind](const Value& prediction, const Value& target, const SampleWeight& weight) {
          return made(prediction, target, {loss_kind}, weight);
        },
        nb::arg("prediction"), nb::arg("target"), nb::kw_only(), nb::arg("sample_weight") = nb::none(), text);
  };
  simple("mse", LossKind::mse, "The mean of squares, as the graph's loss. sample_weight: as of loss().");
  simple("mae", LossKind::mae, "The mean of absolute values, as the graph's loss. sample_weight: as of loss().");
  simple(
      "binary_cross_entropy", LossKind::binary_cross_entropy,
      "-t log sigmoid(x) - (1 - t) log(1 - sigmoid(x)) of each logit x and its target t, 0 to 1, as the graph's loss:\n"
      "PyTorch's BCEWithLogitsLoss, for samples that can have several labels. sample_weight: as of loss().");
  m.def(
      "cross_entropy",
      [](const Value& logits, const Value& target, float label_smoothing, const SampleWeight& weight) {
        return made(logits, target, {.kind = LossKind::cross_entropy, .label_smoothing = label_smoothing}, weight);
      },
      nb::arg("logits"), nb::arg("target"), nb::kw_only(), nb::arg("label_smoothing") = 0.0f,
      nb::arg("sample_weight") = nb::none(),
      "-log softmax(logits)[target], as the graph's loss. target: int32 class numbers, one per sample or row.\n"
      "label_smoothing, sample_weight: as of loss().");
  m.def(
      "huber",
      [](const Value& prediction, const Value& target, float delta, const SampleWeight& weight) {
        return made(prediction, target, {LossKind::huber, delta}, weight);
      },
      nb::arg("prediction"), nb::arg("target"), nb::arg("delta") = 1.0f, nb::kw_only(),
      nb::arg("sample_weight") = nb::none(),
      "Squares up to `delta`, absolute values beyond, as the graph's loss. sample_weight: as of loss().");
}

void bind_sampled_softmax(nb::module_& m) {
  m.def(
      "sampled_softmax",
      [](const Value& x, const Value& target, std::int64_t classes, std::int64_t samples, bool sum_rows,
         const std::string& weights_of, Name name) {
        const SampledSoftmaxOptions options{
            .classes = classes, .samples = samples, .sum_rows = sum_rows, .weights_of = weights_of};
        return Value{x.network, sampled_softmax(x.var, target.var, options, name)};
      },
      nb::arg("x"), nb::arg("target"), nb::kw_only(), nb::arg("classes"), nb::arg("samples"),
      nb::arg("sum_rows") = false, nb::arg("weights_of") = "", nb::arg("name") = "",
      "The cross entropy of dense(x, classes), as the graph's loss, for many classes, the most frequent first. "
      "Training\n"
      "estimates the sum over all classes from `samples` of them, which are drawn anew in each step, and from the "
      "row's\n"
      "own. Evaluation computes all classes. Parameters as of dense(): 'weights' and 'bias'.");
}

void bind_mean_loss(nb::module_& m) {
  m.def(
      "mean_loss",
      [](const Value& x, const SampleWeight& weight, Name name) {
        return Value{x.network, mean_loss(x.var, name, importance_of(weight))};
      },
      nb::arg("x"), nb::kw_only(), nb::arg("sample_weight") = nb::none(), nb::arg("name") = "loss",
      "The mean of all elements of an expression, as the graph's loss: a loss of your own formula, for example\n"
      "mean_loss((prediction - target) ** 4). sample_weight: as of loss().");
}

void bind_pixel_loss(nb::module_& m) {
  m.def(
      "pixel_cross_entropy",
      [](const Value& logits, const Value& target, std::vector<float> class_weights, const std::string& mean,
         float factor, float focal_gamma, float sampled_pixels, Name name) {
        const ops::PixelLossParams params{
            .class_weights = std::move(class_weights),
            .mean = choose<ops::PixelMean>(
                "mean", mean,
                {{"none", ops::PixelMean::none}, {"all", ops::PixelMean::all}, {"counted", ops::PixelMean::counted}}),
            .factor = factor,
            .focal_gamma = focal_gamma,
            .sampled_pixels = sampled_pixels};
        return Value{logits.network, pixel_cross_entropy(logits.var, target.var, params, name)};
      },
      nb::arg("logits"), nb::arg("target"), nb::kw_only(), nb::arg("class_weights") = std::vector<float>(),
      nb::arg("mean") = "all", nb::arg("factor") = 1.0f, nb::arg("focal_gamma") = 0.0f,
      nb::arg("sampled_pixels") = 0.0f, nb::arg("name") = "loss",
      "Cross entropy of each pixel, as the graph's loss: logits (N, classes, spatial...), target (N, spatial...) "
      "int32.\n"
      "mean: the number by which the sum over pixels is divided: 'none', 'all' pixels, or those 'counted' (of a class "
      "with "
      "weight).");
}

}  // namespace

void bind_losses(nb::module_& m) {
  bind_loss(m);
  bind_simple_losses(m);
  bind_sampled_softmax(m);
  bind_mean_loss(m);
  bind_pixel_loss(m);
}

}  // namespace keelson::python
