#include "apps/cosmoflow/run_options.hpp"

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::cosmoflow {
namespace {

void declare_data(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::data);
  app::declare_files(o, v);
  v.option("--normalise", o.normalise,
           "How x is normalised: log(x + 1), division by the sample's mean, or not; auto: as published")
      .one_of({"auto", "log1p", "mean", "none"})
      .stored()
      .same_for_members();
  v.option_without_default("--channels", o.channels,
                           "Stored channels (redshifts) to use, counted from 0; default: all (mlperf), z = 0 (paper)",
                           "N,...")
      .comma_separated()
      .non_negative()
      .stored()
      .same_for_members();
  v.option("--size,--subcube", o.size,
           "Edge of the cubic samples; stored volumes are cut into sub-cubes of this edge; 0: as stored", "CELLS")
      .non_negative()
      .stored()
      .same_for_members();
  v.flag("--augment", o.augment, "One of the 48 symmetries of the cube at random for each training sample").stored();
  v.flag("--augment-planes", o.augment_planes,
         "As --augment, with the 16 symmetries that keep the first dimension: with --spatial each rank then reads its "
         "own "
         "planes of a sample")
      .stored();
}

}  // namespace

/// Sources: mlcommons/hpc cosmoflow configs (global batch 64); NERSC/CosmoFlow hyper_parameters_Cosmo.py (SC18).
const app::Recipes& recipes() {
  static const app::Recipes all{{"mlperf-64",
                                 {{"net", "mlperf"},
                                  {"size", "128"},
                                  {"global-batch", "64"},
                                  {"epochs", "128"},
                                  {"optimizer", "sgd"},
                                  {"momentum", "0.9"},
                                  {"lr", "0.001"},
                                  {"warmup-epochs", "4"},
                                  {"warmup-from", "0.001"},
                                  {"schedule", "steps"},
                                  {"decay", "16:0.25,32:0.125"},
                                  {"dropout", "0"},
                                  {"l2", "0.01"},
                                  {"normalise", "log1p"},
                                  {"target-mae", "0.124"}}},
                                {"paper",
                                 {{"net", "paper"},
                                  {"size", "128"},
                                  {"batch", "1"},
                                  {"epochs", "100"},
                                  {"optimizer", "adam"},
                                  {"lr", "0.001"},
                                  {"final-lr", "0.0001"},
                                  {"schedule", "linear"},
                                  {"larc", "clip"},
                                  {"larc-eta", "0.002"},
                                  {"dropout", "0.5"},
                                  {"normalise", "mean"}}},
                                {"demo",
                                 {{"net", "mlperf"},
                                  {"size", "32"},
                                  {"batch", "2"},
                                  {"epochs", "20"},
                                  {"optimizer", "sgd"},
                                  {"momentum", "0.9"},
                                  {"lr", "0.006"},
                                  {"schedule", "cosine"},
                                  {"dropout", "0"},
                                  {"augment", "true"},
                                  {"normalise", "log1p"}}}};
  return all;
}

void declare(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::network);
  app::declare_recipe(o, v, recipes());
  v.option("--net", o.net, "Network of MLPerf HPC or of the SC18 paper")
      .one_of({"mlperf", "paper"})
      .stored()
      .same_for_members();
  v.option("--dropout", o.dropout, "Probability that a hidden feature is dropped in training")
      .between(0.0, 0.99)
      .stored();
  v.flag("--uncertainty", o.uncertainty,
         "Also predict the variance of each target, and learn by the normal distribution's negative logarithm; for "
         "--net mlperf")
      .stored()
      .same_for_members();
  app::declare_precision(o, v, "convolutions' and dense layers' operands");
  declare_data(o, v);
  app::declare(o, v);
  const auto training = v.in(app::OptionGroup::training);
  v.option("--l2", o.l2,
           "L2 term on the weights of dense1 and dense2, as TensorFlow's l2(x) (gradient 2 x w; the loss shown is "
           "without it)",
           "X")
      .non_negative()
      .stored();
  v.option("--target-mae", o.target_mae, "Stop when the validation metric is at most this; 0: never")
      .non_negative()
      .stored();
}

void check(const RunOptions& o) {
  app::check(o);
  if (o.uncertainty && o.net != "mlperf")
    refuse("--uncertainty is for --net mlperf; the network of {} predicts many times for each sample", o.net);
  if (o.l2 > 0 && o.net != "mlperf")
    refuse("--l2 is about the dense layers of the mlperf network; for {} give --weight-decay", o.net);
  if (o.l2 > 0 && app::make_optimizer(o)->decoupled_weight_decay())
    refuse("--l2 is an L2 term in the gradient, which {} replaces by --weight-decay", o.optimizer);
}

}  // namespace keelson::cosmoflow
