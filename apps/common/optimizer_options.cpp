#include "apps/common/optimizer_options.hpp"

#include "apps/common/verb.hpp"
#include "engine/base/error.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/train/sync/sync_mode.hpp"

namespace keelson::app {
namespace {

void declare_schedule(OptimizerOptions& o, Verb& v) {
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

void check_layer_rates(const OptimizerOptions& o) {
  const bool lars = o.optimizer == "lars", lamb = o.optimizer == "lamb";
  if ((lars || lamb) && o.larc != "none")
    refuse("--larc is for sgd, adam and adamw: {} has layer-wise rates of its own", o.optimizer);
  if (o.lars_rate_outside && !lars)
    refuse("--lars-rate-outside needs --optimizer lars, but the optimizer is {}", o.optimizer);
  if (o.nvlamb && !lamb) refuse("--nvlamb needs --optimizer lamb, but the optimizer is {}", o.optimizer);
  if (o.adapt_vectors && !lars && !lamb)
    refuse("--adapt-vectors needs --optimizer lars or lamb, but the optimizer is {}", o.optimizer);
  if (lamb && o.weight_decay == 0 && !o.nvlamb)
    refuse(
        "--optimizer lamb scales the steps of parameters with weight decay only, and --weight-decay is 0: give "
        "--weight-decay 0.01 --clip-norm 1, as published, or --nvlamb");
}

Larc make_larc(const OptimizerOptions& o) {
  Larc larc;
  larc.mode = o.larc == "none" ? ops::LarcMode::none : o.larc == "scale" ? ops::LarcMode::scale : ops::LarcMode::clip;
  larc.eta = o.larc_eta;
  larc.floor = o.larc_floor;
  larc.relative = o.larc_relative;
  return larc;
}

std::shared_ptr<Optimizer> make_sgd(const OptimizerOptions& o) {
  auto p = std::make_shared<Sgd>();
  p->momentum = o.momentum;
  p->nesterov = o.nesterov;
  p->larc = make_larc(o);
  return p;
}

std::shared_ptr<Optimizer> make_lars(const OptimizerOptions& o) {
  auto p = std::make_shared<Lars>();
  p->momentum = o.momentum;
  p->eta = o.lars_eta;
  p->rate_in_momentum = !o.lars_rate_outside;
  p->adapt_vectors = o.adapt_vectors;
  return p;
}

std::shared_ptr<Optimizer> make_lamb(const OptimizerOptions& o) {
  auto p = std::make_shared<Lamb>();
  p->nvlamb = o.nvlamb;
  p->adapt_vectors = o.adapt_vectors;
  return p;
}

std::shared_ptr<Optimizer> make_adam(const OptimizerOptions& o) {
  std::shared_ptr<Adam> p = o.optimizer == "adam" ? std::make_shared<Adam>() : std::make_shared<AdamW>();
  p->larc = make_larc(o);
  return p;
}

}  // namespace

void declare(OptimizerOptions& o, Verb& v) {
  v.option("--batch", o.batch, "Samples per rank and step", "SAMPLES").positive().stored();
  v.option("--global-batch", o.global_batch,
           "Samples per step of all ranks together, instead of --batch; 0: --batch x ranks", "SAMPLES")
      .non_negative()
      .stored();
  v.replaces("batch", "global-batch");
  v.replaces("global-batch", "batch");
  v.option("--epochs", o.epochs, "Passes over the training data", "N").positive().stored();
  v.option("--seed", o.seed, "Of initial weights, sample order, augmentation and dropout", "N").stored();
  v.option("--optimizer", o.optimizer, "How parameters move").one_of({"sgd", "adam", "adamw", "lars", "lamb"}).stored();
  declare_schedule(o, v);
  v.option("--momentum", o.momentum, "For sgd and lars").between(0.0, 1.0).stored();
  v.flag("--nesterov", o.nesterov, "Nesterov's momentum, for sgd").stored();
  v.option(
       "--weight-decay", o.weight_decay,
       "L2 for sgd, adam and lars, decoupled for adamw and lamb; of all parameters, with lars and lamb not of biases "
       "and other vectors")
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
  if (o.nesterov && (o.optimizer != "sgd" || o.momentum == 0))
    refuse("--nesterov needs --optimizer sgd and --momentum above 0");
  check_layer_rates(o);
  SyncMode::parse(o.sync);
}

std::shared_ptr<Optimizer> make_optimizer(const OptimizerOptions& o) {
  std::shared_ptr<Optimizer> p = o.optimizer == "sgd"    ? make_sgd(o)
                                 : o.optimizer == "lars" ? make_lars(o)
                                 : o.optimizer == "lamb" ? make_lamb(o)
                                                         : make_adam(o);
  p->weight_decay = o.weight_decay;
  p->clip_norm = o.clip_norm;
  return p;
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

std::int64_t batch_per_rank(const OptimizerOptions& o, int ranks) {
  if (o.global_batch == 0) return o.batch;
  if (o.global_batch % ranks != 0)
    refuse(
        "a global batch of {} cannot be divided evenly among {} ranks: start a number of ranks that divides it, or "
        "give --batch",
        o.global_batch, ranks);
  return o.global_batch / ranks;
}

}  // namespace keelson::app
