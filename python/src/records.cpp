#include "records.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/rate_range.hpp"
#include "objects.hpp"

namespace keelson::python {

Evaluated evaluated(const Evaluation& evaluation, const std::vector<std::shared_ptr<Metric>>& metrics) {
  Evaluated e{evaluation, {}, {}};
  for (const auto& m : metrics) {
    e.metrics[m->name()] = m->value();
    e.values[m->name()] = m->values();
  }
  return e;
}

EpochResult epoch_result(const EpochRecord& record, const std::vector<std::shared_ptr<Metric>>& metrics) {
  EpochResult result{record, {}};
  if (!std::isnan(record.validation_loss))
    for (const auto& m : metrics) result.metrics[m->name()] = m->value();
  return result;
}

namespace {

std::vector<double> column(const RateRange& range, double RatePoint::* of) {
  std::vector<double> values;
  for (const RatePoint& p : range.points) values.push_back(p.*of);
  return values;
}

}  // namespace

void bind_records(nb::module_& m) {
  nb::class_<StepRecord>(m, "Step", "Results of one optimizer step.")
      .def_ro("step", &StepRecord::step, "Steps done, this one included.")
      .def_ro("epoch", &StepRecord::epoch, "Position in training: epochs done, with their fraction.")
      .def_ro("loss", &StepRecord::loss, "Mean loss over the samples of all ranks.")
      .def_ro("learning_rate", &StepRecord::learning_rate, "Learning rate of this step.")
      .def_ro("rate", &StepRecord::rate, "Samples per second of all ranks together.")
      .def_prop_ro(
          "noise_scale", [](const StepRecord& s) { return s.noise.samples(); },
          "The noise scale of the gradient after this step, in samples: gradient_noise / gradient_square, moving "
          "averages over\n"
          "the steps that were measured. NaN: not measured, or not known yet.")
      .def_prop_ro(
          "gradient_noise", [](const StepRecord& s) { return s.noise.noise; },
          "The trace of the covariance of the gradients of single samples. NaN: not measured.")
      .def_prop_ro(
          "gradient_square", [](const StepRecord& s) { return s.noise.gradient; },
          "The square of the norm of the mean gradient of all samples. NaN: not measured.")
      .def("__repr__", [](const StepRecord& s) { return fmt::format("<step {}: loss {:.6g}>", s.step, s.loss); });
  nb::class_<EpochResult>(m, "Epoch", "Results of one epoch.")
      .def_ro("epoch", &EpochRecord::epoch, "Epochs done.")
      .def_ro("step", &EpochRecord::step, "Optimizer steps done.")
      .def_ro("samples", &EpochRecord::samples, "Training samples that the epoch has used, of all ranks.")
      .def_ro("train_loss", &EpochRecord::train_loss, "Mean over the training samples of the epoch.")
      .def_ro("validation_loss", &EpochRecord::validation_loss, "NaN without validation.")
      .def_ro("metric", &EpochRecord::metric, "The first metric (the loss without metrics); NaN without validation.")
      .def_ro("metrics", &EpochResult::metrics, "All metrics by name; empty without validation.")
      .def_ro("metric_values", &EpochRecord::metric_values, "The parts of the first metric.")
      .def_ro("learning_rate", &EpochRecord::learning_rate, "Learning rate of the last step.")
      .def_ro("rate", &EpochRecord::rate, "Samples per second of training, all ranks together.")
      .def_ro("validation_seconds", &EpochRecord::validation_seconds, "Wall time; 0 without validation.")
      .def_prop_ro("seconds", &EpochResult::wall_seconds, "Wall time of training and validation, on this rank.")
      .def_prop_ro(
          "noise_scale", [](const EpochResult& e) { return e.noise.samples(); },
          "As Step.noise_scale, at the end of the epoch.")
      .def_prop_ro(
          "gradient_noise", [](const EpochResult& e) { return e.noise.noise; },
          "As Step.gradient_noise, at the end of the epoch.")
      .def_ro("best", &EpochRecord::best, "Whether the validation was better than all before.")
      .def("__repr__", [](const EpochResult& e) {
        return fmt::format("<epoch {}: train loss {:.6g}, validation loss {:.6g}, metric {:.6g}>", e.epoch,
                           e.train_loss, e.validation_loss, e.metric);
      });
  nb::class_<Evaluated>(m, "Evaluation", "Results of a network on a data set, the same on all ranks.")
      .def_prop_ro(
          "samples", [](const Evaluated& e) { return e.evaluation.samples; }, "Number of samples in the data set.")
      .def_prop_ro(
          "loss", [](const Evaluated& e) { return e.evaluation.loss; }, "Mean loss over all samples.")
      .def_prop_ro(
          "metric", [](const Evaluated& e) { return e.evaluation.metric; },
          "The first metric; without metrics the loss.")
      .def_ro("metrics", &Evaluated::metrics, "All metrics by name.")
      .def_ro("values", &Evaluated::values, "The parts of each metric (per target, per class), by the metric's name.")
      .def_prop_ro(
          "seconds", [](const Evaluated& e) { return e.evaluation.seconds; }, "Wall time on this rank.")
      .def("__repr__", [](const Evaluated& e) {
        return fmt::format("<{} samples: loss {:.6g}, metric {:.6g}>", e.evaluation.samples, e.evaluation.loss,
                           e.evaluation.metric);
      });
  nb::class_<RateRange>(
      m, "RateRange",
      "What keelson.Trainer.lr_range() has found, the same on all ranks. Lists have an entry for each "
      "step.")
      .def_prop_ro(
          "learning_rates", [](const RateRange& r) { return column(r, &RatePoint::rate); }, "Of the steps, rising.")
      .def_prop_ro(
          "losses", [](const RateRange& r) { return column(r, &RatePoint::loss); },
          "Of the samples of each step, before the step.")
      .def_prop_ro(
          "smoothed", [](const RateRange& r) { return column(r, &RatePoint::smoothed); }, "The smoothed losses.")
      .def_prop_ro("suggestion", &RateRange::suggestion,
                   "The rate to begin with: where the smoothed loss falls fastest; None: it never falls.")
      .def_ro("minimum", &RateRange::minimum,
              "The rate with the least smoothed loss; a tenth of it is another usual choice. None: without steps.")
      .def_ro("diverged", &RateRange::diverged, "Whether the search ended early, since the loss rose.")
      .def("__repr__", [](const RateRange& r) {
        return fmt::format("<keelson.RateRange: {} steps, suggestion {}>", r.points.size(),
                           r.suggestion() ? fmt::format("{:.3g}", *r.suggestion()) : "None");
      });
  nb::class_<RunState>(m, "RunState", "State of a training run.")
      .def_ro("network", &RunState::network, "The graph's name.")
      .def_ro("config", &RunState::config, "Texts from which a program can make network and data again.")
      .def_ro("texts", &RunState::texts, "Larger texts by name: 'vocabulary'.")
      .def_ro("topology", &RunState::topology, "The parts of the network, as JSON.")
      .def_ro("seed", &RunState::seed, "Seed of sample order, transform and dropout.")
      .def_ro("epoch", &RunState::epoch, "Finished epochs.")
      .def_ro("step", &RunState::step, "Optimizer steps done.")
      .def_ro("step_in_epoch", &RunState::step_in_epoch, "Steps done in the current epoch.")
      .def_ro("samples", &RunState::samples, "Training samples used so far, all ranks together.")
      .def_ro("global_batch", &RunState::global_batch, "Samples of a full step, all ranks together.")
      .def_ro("train_samples", &RunState::train_samples, "Samples of the training data.")
      .def_ro("seconds", &RunState::seconds, "Seconds of training so far, in all starts of the run.")
      .def_ro("best_metric", &RunState::best_metric, "Metric of the best validation.")
      .def_ro("best_epoch", &RunState::best_epoch, "Finished epochs at the best validation; -1: none.")
      .def_ro("metric", &RunState::metric, "Metric of the last validation; NaN: none.")
      .def_ro("validation_loss", &RunState::validation_loss, "Loss of the last validation; NaN: none.")
      .def_ro("optimizer", &RunState::optimizer, "The optimizer with its settings, as text.")
      .def_ro("schedule", &RunState::schedule, "The learning rate, as text.")
      .def_ro("version", &RunState::version, "Version of Keelson, in a checkpoint.")
      .def_ro("created", &RunState::created, "Time in UTC, in a checkpoint.")
      .def("__repr__", [](const RunState& s) {
        return fmt::format("<keelson.RunState of {}: epoch {}, step {}>", s.network, s.epoch, s.step);
      });
}

}  // namespace keelson::python
