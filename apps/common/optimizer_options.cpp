#include "apps/common/optimizer_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"
#include "engine/optim/optimizers.hpp"
#include "engine/train/sync/sync_mode.hpp"

namespace keelson::app {
namespace {

void declare_schedule(OptimizerOptions& o, Subcommand& v) {
  v.option("--lr", o.lr, "Learning rate after warm-up", "RATE").positive().stored();
  v.option("--warmup-epochs", o.warmup_epochs, "Epochs over which the rate rises linearly to --lr", "EPOCHS")
      .non_negative()
      .stored();
  v.option("--warmup-from", o.warmup_from, "Rate at the start of the warm-up", "RATE").non_negative().stored();
  v.option("--schedule", o.schedule, "Course of the rate after warm-up")
      .one_of({"constant", "steps", "linear", "cosine", "decay"})
      .stored();
  v.option_without_default("--decay", o.decay, "For steps: factors of --lr from these epochs on, e.g. 32:0.25,64:0.125",
                           "EPOCH:FACTOR,...")
      .stored();
  for (const char* other : {"decay", "decay-factor", "flat-epochs"}) v.replaces("schedule", other);
  v.option("--final-lr", o.final_lr, "For linear and cosine: rate at the end", "RATE").non_negative().stored();
  v.option("--schedule-epochs", o.schedule_epochs, "For linear and cosine: when the end is reached; 0: --epochs",
           "EPOCHS")
      .non_negative()
      .stored();
  v.option_without_default("--decay-factor", o.decay_factor,
                           "For decay: factor of the rate from each epoch to the next, e.g. 0.5", "FACTOR")
      .positive()
      .between(0.0, 1.0)
      .stored();
  v.option("--flat-epochs", o.flat_epochs, "For decay: number of epochs before it, with the rate --lr", "EPOCHS")
      .non_negative()
      .stored();
}

/// Values of the options for settings that not every optimizer has, by the setting's name.
std::map<std::string_view, std::string> setting_values(const OptimizerOptions& o) {
  const auto text = [](bool on) { return std::string(on ? "true" : "false"); };
  return {{"weight_decay", fmt::format("{}", o.weight_decay)},
          {"clip_norm", fmt::format("{}", o.clip_norm)},
          {"momentum", fmt::format("{}", o.momentum)},
          {"nesterov", text(o.nesterov)},
          {"larc", o.larc},
          {"larc_eta", fmt::format("{}", o.larc_eta)},
          {"larc_floor", fmt::format("{}", o.larc_floor)},
          {"larc_relative", text(o.larc_relative)},
          {"eta", fmt::format("{}", o.lars_eta)},
          {"rate_in_momentum", text(!o.lars_rate_outside)},
          {"nvlamb", text(o.nvlamb)},
          {"adapt_vectors", text(o.adapt_vectors)}};
}

/// Whether the optimizer has a setting of this name that an option sets. --momentum and --nesterov are for other
/// optimizers than muon: their defaults are not muon's, and it trains badly with them.
bool has_setting(const std::string& optimizer, std::string_view name) {
  if (optimizer == "muon" && (name == "momentum" || name == "nesterov")) return false;
  const auto made = keelson::make_optimizer(optimizer);
  return std::ranges::any_of(made->settings(), [&](const OptimizerSetting& s) { return s.name == name; });
}

/// Refuses an option that was given for an optimizer without the option's setting.
void require_setting(const OptimizerOptions& o, bool given, const char* option, std::string_view setting) {
  if (!given || has_setting(o.optimizer, setting)) return;
  std::vector<std::string> names = optimizer_names();
  std::erase_if(names, [&](const std::string& name) { return !has_setting(name, setting); });
  refuse("{} needs --optimizer {}, but the optimizer is {}", option, fmt::join(names, " or "), o.optimizer);
}

void check_settings(const OptimizerOptions& o) {
  require_setting(o, o.larc != "none", "--larc", "larc");
  require_setting(o, o.lars_rate_outside, "--lars-rate-outside", "rate_in_momentum");
  require_setting(o, o.nvlamb, "--nvlamb", "nvlamb");
  require_setting(o, o.adapt_vectors, "--adapt-vectors", "adapt_vectors");
  require_setting(o, o.nesterov, "--nesterov", "nesterov");
  if (o.nesterov && o.momentum == 0) refuse("--nesterov needs --momentum above 0");
  if (o.optimizer == "lamb" && o.weight_decay == 0 && !o.nvlamb)
    refuse(
        "--optimizer lamb scales the steps of parameters with weight decay only, and --weight-decay is 0: give "
        "--weight-decay 0.01 --clip-norm 1, as published, or --nvlamb");
  make_optimizer(o);
}

}  // namespace

void declare(OptimizerOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::training);
  v.option("--batch", o.batch, "Samples per rank and step", "SAMPLES").positive().stored();
  v.option("--global-batch", o.global_batch,
           "Samples per step of all ranks together, instead of --batch; 0: --batch x ranks", "SAMPLES")
      .non_negative()
      .stored();
  v.replaces("batch", "global-batch");
  v.replaces("global-batch", "batch");
  v.option("--epochs", o.epochs, "Passes over the training data", "N").positive().stored();
  v.option("--seed", o.seed, "Of initial weights, sample order, augmentation and dropout", "N")
      .stored()
      .same_for_members();
  v.flag("--bag", o.bag,
         "Weigh each sample by a random number of mean 1 that --seed decides (Poisson: 0, 1, 2, ...), in all epochs "
         "alike, as if the data had been drawn with replacement; each of --members has its own weights")
      .stored();
  v.option("--apoptosis", o.apoptosis,
           "Remove units that contribute nothing while the network trains: up to 10, 20 or 30 % of a layer before an "
           "epoch, undone where the loss rises")
      .one_of({"off", "conservative", "normal", "aggressive"})
      .stored();
  v.option_without_default("--grow", o.grow,
                           "Add units and layers while the network trains, as this TOML file says "
                           "(docs/growing.md): how wide and deep it may become, when it grows, and the learning rate "
                           "afterwards",
                           "BLUEPRINT")
      .stored();
  v.option("--prune-samples", o.prune_samples,
           "Leave samples out of epochs: infobatch: a random part of those with small losses, the rest of which counts "
           "more; random: any; kakurenbo: those with the smallest losses; forgetting: those that are never forgotten; "
           "el2n: those that are predicted well early. The last eighth of the epochs has all samples")
      .one_of(prune_rule_names())
      .stored();
  v.option_without_default("--prune-ratio", o.prune_ratio,
                           "For --prune-samples: the part that is left out, of the samples with small losses for "
                           "infobatch, else of all; not given: 0.5 for infobatch, else 0.3",
                           "PART")
      .between(0.0, 0.95)
      .stored();
  v.option("--optimizer", o.optimizer, "How parameters move").one_of(optimizer_names()).stored();
  v.option_without_default("--optimizer-options", o.optimizer_options,
                           "Settings of the optimizer that have no option of their own, e.g. beta2=0.95,epsilon=1e-6; "
                           "Python's keelson.optim has their names",
                           "NAME=VALUE,...")
      .stored();
  declare_schedule(o, v);
  v.option("--momentum", o.momentum, "For sgd, lars and kfac").between(0.0, 1.0).stored();
  v.flag("--nesterov", o.nesterov, "Nesterov's momentum, for sgd").stored();
  v.option(
       "--weight-decay", o.weight_decay,
       "L2 for sgd, adam, lars and kfac, decoupled for the others; of all parameters, with lars, lamb and muon not of "
       "biases and other vectors")
      .non_negative()
      .stored();
  v.option("--larc", o.larc, "Layer-wise adaptive rates, for sgd, adam and adamw")
      .one_of({"none", "scale", "clip"})
      .stored();
  v.option("--larc-eta", o.larc_eta, "Trust coefficient of --larc").positive().stored();
  v.option("--lars-eta", o.lars_eta, "Trust coefficient of lars").positive().stored();
  v.flag("--lars-rate-outside", o.lars_rate_outside,
         "For lars: the learning rate is not in the momentum (MLPerf's variant)")
      .stored();
  v.flag("--nvlamb", o.nvlamb, "For lamb: scale the steps of parameters without weight decay too (NVLAMB)").stored();
  v.flag("--adapt-vectors", o.adapt_vectors,
         "For lars and lamb: treat biases and other vectors like all other parameters, with weight decay and "
         "layer-wise rate")
      .stored();
  v.option("--clip-norm", o.clip_norm, "Scale gradients down to this global norm; 0: off").non_negative().stored();
  v.option("--sync", o.sync,
           "How ranks keep their parameters alike: synchronous; lag: updates come one step late; stale:STEPS: updates "
           "of other ranks come at most so many steps late; gossip: ranks average in pairs; local:STEPS: all ranks "
           "average every so many steps; post-local:STEPS@EPOCHS: local after so many epochs",
           "MODE")
      .stored();
}

void check(const OptimizerOptions& o) {
  if (o.schedule == "steps" && o.decay.empty()) refuse("--schedule steps needs --decay, e.g. --decay 32:0.25,64:0.125");
  if (o.schedule != "steps" && !o.decay.empty())
    refuse("--decay belongs to --schedule steps, but the schedule is {}", o.schedule);
  parse_steps(o.decay);
  if (o.schedule == "decay" && o.decay_factor == 0)
    refuse("--schedule decay needs --decay-factor, e.g. --decay-factor 0.5");
  if (o.schedule != "decay" && (o.decay_factor != 0 || o.flat_epochs != 0))
    refuse("--decay-factor and --flat-epochs belong to --schedule decay, but the schedule is {}", o.schedule);
  check_settings(o);
  if (o.prune_ratio >= 0 && o.prune_samples == "none")
    refuse("--prune-ratio {} belongs to --prune-samples, which is none: give a rule, e.g. --prune-samples infobatch",
           o.prune_ratio);
  if (o.apoptosis != "off" && !o.grow.empty())
    refuse("--grow with --apoptosis {}: one adds units, the other removes them. Leave one of them out", o.apoptosis);
  SyncMode::parse(o.sync);
}

std::shared_ptr<Optimizer> make_optimizer(const OptimizerOptions& o) {
  const auto values = setting_values(o);
  auto made = keelson::make_optimizer(o.optimizer);
  for (const OptimizerSetting& s : made->settings())
    if (const auto found = values.find(s.name); found != values.end() && has_setting(o.optimizer, s.name))
      s.read(found->second);
  read_settings(*made, o.optimizer_options);
  return made;
}

Schedule make_schedule(const OptimizerOptions& o) {
  using Kind = Schedule::Kind;
  Schedule s;
  s.kind = o.schedule == "steps"    ? Kind::steps
           : o.schedule == "linear" ? Kind::linear
           : o.schedule == "cosine" ? Kind::cosine
           : o.schedule == "decay"  ? Kind::decay
                                    : Kind::constant;
  s.base = o.lr;
  s.final = o.final_lr;
  s.epochs = o.schedule_epochs > 0 ? o.schedule_epochs : static_cast<double>(o.epochs);
  s.decay_factor = o.decay_factor;
  s.flat_epochs = o.flat_epochs;
  s.warmup_epochs = o.warmup_epochs;
  s.warmup_from = o.warmup_from;
  s.steps = parse_steps(o.decay);
  return s;
}

PruneOptions prune_options(const OptimizerOptions& o) {
  return {.rule = parse_prune_rule(o.prune_samples), .ratio = o.prune_ratio};
}

std::int64_t batch_per_replica(const OptimizerOptions& o, const ProcessGrid::Extents& grid) {
  if (o.global_batch == 0) return o.batch;
  if (o.global_batch % grid.data != 0)
    refuse(
        "a global batch of {} cannot be divided evenly among {} {}: start a number of ranks that divides it, or give "
        "--batch",
        o.global_batch, grid.data, grid.space == 1 ? "ranks" : "replicas");
  return o.global_batch / grid.data;
}

}  // namespace keelson::app
