#include "apps/cosmoflow/run_options.hpp"

#include <fmt/ranges.h>

#include "apps/common/options.hpp"
#include "engine/base/error.hpp"
#include "engine/graph/precision.hpp"
#include "engine/optim/schedule.hpp"

namespace keelson::cosmoflow {
namespace {

/// Sources: mlcommons/hpc cosmoflow configs (global batch 64); NERSC/CosmoFlow hyper_parameters_Cosmo.py (SC18).
const std::map<std::string, Config>& known_recipes() {
  static const std::map<std::string, Config> all{{"mlperf-64",
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

void declare_data(RunOptions& o, CLI::App& v, OptionTable& t) {
  t.add(app::option_without_default(v, "--train", o.train, "Training data: HDF5 file, folder or pattern", "PATH"));
  t.add(app::option_without_default(v, "--validation", o.validation, "Validation data: HDF5 file, folder or pattern",
                                    "PATH"));
  t.add(app::option(v, "--normalise", o.normalise,
                    "What happens to x: log(x + 1), division by the sample's mean, nothing; auto: as published")
            ->check(CLI::IsMember({"auto", "log1p", "mean", "none"})));
  t.add(app::option_without_default(
            v, "--channels", o.channels,
            "Stored channels (redshifts) to use, counted from 0; default: all (mlperf), z = 0 (paper)", "N,...")
            ->delimiter(',')
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--size,--subcube", o.size,
                    "Edge of the cubic samples; stored volumes are cut into such sub-cubes; 0: as stored", "CELLS")
            ->check(CLI::NonNegativeNumber));
  t.add_flag(app::flag(v, "--shuffle", o.shuffle, "Another sample order in each epoch"), o.shuffle);
  t.add_flag(
      app::flag(v, "--augment", o.augment, "One of the 48 symmetries of the cube at random for each training sample"),
      o.augment);
}

void declare_optimizer(RunOptions& o, CLI::App& v, OptionTable& t) {
  t.add(app::option(v, "--optimizer", o.optimizer, "How parameters move")
            ->check(CLI::IsMember({"sgd", "adam", "adamw"})));
  t.add(app::option(v, "--lr", o.lr, "Learning rate after warm-up", "RATE")->check(CLI::PositiveNumber));
  t.add(
      app::option(v, "--warmup-epochs", o.warmup_epochs, "Epochs over which the rate rises linearly to --lr", "EPOCHS")
          ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--warmup-from", o.warmup_from, "Rate at the start of the warm-up", "RATE")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--schedule", o.schedule, "Course of the rate after warm-up")
            ->check(CLI::IsMember({"constant", "steps", "linear", "cosine"})));
  t.add(app::option_without_default(v, "--decay", o.decay,
                                    "For steps: factors of --lr from these epochs on, e.g. 32:0.25,64:0.125",
                                    "EPOCH:FACTOR,..."));
  t.add(app::option(v, "--final-lr", o.final_lr, "For linear and cosine: rate at the end", "RATE")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--schedule-epochs", o.schedule_epochs,
                    "For linear and cosine: when the end is reached; 0: --epochs", "EPOCHS")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--momentum", o.momentum, "For sgd")->check(CLI::Range(0.0, 1.0)));
  t.add_flag(app::flag(v, "--nesterov", o.nesterov, "Nesterov's momentum, for sgd"), o.nesterov);
  t.add(app::option(v, "--weight-decay", o.weight_decay, "Of all parameters: L2 for sgd and adam, decoupled for adamw")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(
            v, "--l2", o.l2,
            "As TensorFlow's l2(x) on the weights of dense1 and dense2 (gradient 2 x w; the loss shown is without it)",
            "X")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--larc", o.larc, "Layer-wise adaptive rates")->check(CLI::IsMember({"none", "scale", "clip"})));
  t.add(app::option(v, "--larc-eta", o.larc_eta, "Trust coefficient of --larc")->check(CLI::PositiveNumber));
  t.add(app::option(v, "--clip-norm", o.clip_norm, "Scale gradients down to this global norm; 0: off")
            ->check(CLI::NonNegativeNumber));
}

}  // namespace

void declare(RunOptions& o, CLI::App& v, OptionTable& t) {
  app::option_without_default(v, "--recipe", o.recipe, "Published hyper-parameters; options given besides win")
      ->check(CLI::IsMember(recipes()));
  t.add(app::option(v, "--net", o.net, "Network: of MLPerf HPC or of the SC18 paper")
            ->check(CLI::IsMember({"mlperf", "paper"})));
  t.add(app::option(v, "--dropout", o.dropout, "Probability that a hidden feature is dropped in training")
            ->check(CLI::Range(0.0, 0.99)));
  t.add(app::option(v, "--precision", o.precision,
                    "Of convolutions' and dense layers' operands; auto: what is faster here, measured at the start")
            ->check(CLI::IsMember(precisions())));
  declare_data(o, v, t);
  t.add(app::option(v, "--batch", o.batch, "Samples per rank and step", "SAMPLES")->check(CLI::PositiveNumber));
  t.add(app::option(v, "--global-batch", o.global_batch,
                    "Samples per step of all ranks together, instead of --batch; 0: --batch x ranks", "SAMPLES")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--epochs", o.epochs, "Passes over the training data", "N")->check(CLI::PositiveNumber));
  t.add(app::option(v, "--seed", o.seed, "Of initial weights, sample order, augmentation and dropout", "N"));
  declare_optimizer(o, v, t);
  t.add(app::option(v, "--target-mae", o.target_mae, "Stop when the validation metric is at most this; 0: never")
            ->check(CLI::NonNegativeNumber));
}

Config recipe(const std::string& name) {
  const auto found = known_recipes().find(name);
  if (found == known_recipes().end()) refuse("unknown recipe {}: expected one of {}", name, fmt::join(recipes(), ", "));
  return found->second;
}

std::vector<std::string> recipes() {
  std::vector<std::string> names;
  for (const auto& [name, config] : known_recipes()) names.push_back(name);
  return names;
}

void check(const RunOptions& o) {
  if (o.schedule == "steps" && o.decay.empty()) refuse("--schedule steps needs --decay, e.g. --decay 32:0.25,64:0.125");
  if (o.schedule != "steps" && !o.decay.empty())
    refuse("--decay belongs to --schedule steps, but the schedule is {}", o.schedule);
  parse_steps(o.decay);
  if (o.nesterov && (o.optimizer != "sgd" || o.momentum == 0))
    refuse("--nesterov needs --optimizer sgd and --momentum above 0");
  if (o.l2 > 0 && o.net != "mlperf")
    refuse("--l2 is about the dense layers of the mlperf network; for {} give --weight-decay", o.net);
  if (o.l2 > 0 && o.optimizer == "adamw")
    refuse("--l2 is an L2 term in the gradient, which adamw replaces by --weight-decay");
}

}  // namespace keelson::cosmoflow
