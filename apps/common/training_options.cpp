#include "apps/common/rate_search.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/training.hpp"

namespace keelson::app {
namespace {

/// What a training writes, how long it goes on, and how it goes on after an end.
void declare_run(TrainingOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::run);
  o.out_option = &v.option("--out", o.out, "The run's folder: checkpoints/, metrics.jsonl, report.html", "DIR")
                      .not_stored()
                      .differs_between_ranks();
  o.resume_option = &v.option_without_default(
                          "--resume", o.resume,
                          "Continue bit for bit from a checkpoint, or from the newest checkpoint of a run's folder; "
                          "without a value: of --out. Options that are not given are taken from the checkpoint",
                          "[PATH|latest]")
                         .value_optional()
                         .not_stored()
                         .differs_between_ranks();
  v.flag("--overwrite", o.overwrite, "Replace the run that --out holds").not_stored();
  v.option("--max-steps", o.max_steps,
           "End after this many steps in all; 0: only write the initial checkpoint; -1: no limit", "STEPS")
      .not_stored();
  v.option("--time-limit", o.time_limit,
           "End before this time is over, with a checkpoint and exit code 75; 0: no limit", "SECONDS")
      .non_negative()
      .not_stored();
  v.option("--checkpoint-every", o.checkpoint_every,
           "Write a checkpoint every so many epochs; 0: only the best and the last", "EPOCHS")
      .non_negative()
      .stored();
  v.option("--checkpoint-steps", o.checkpoint_steps, "Also write a checkpoint every so many steps; 0: do not", "STEPS")
      .non_negative()
      .stored();
  v.option("--max-failures", o.max_failures,
           "Go on after up to so many ranks have died, if MPI can (mpirun --with-ft ulfm); -1: half of the ranks",
           "RANKS")
      .not_stored();
  v.option("--spares", o.spares,
           "Keep the last ranks of the job waiting, to replace ranks that die; training then goes back to its latest "
           "checkpoint, in memory (mpirun --with-ft ulfm)",
           "RANKS")
      .non_negative()
      .not_stored();
  v.option("--keep", o.keep, "Checkpoints to keep besides the best", "N").positive().not_stored();
  v.option("--log-every", o.log_every, "Steps between records in metrics.jsonl; 0: a hundred records per epoch",
           "STEPS")
      .non_negative()
      .not_stored();
  v.option("--noise-scale", o.noise_scale,
           "Measure every so many steps how much the gradients of samples differ: the noise scale, up to which larger "
           "batches pay; needs several ranks or --micro-batches; 0: do not",
           "STEPS")
      .non_negative()
      .stored();
}

}  // namespace

void declare(TrainingOptions& o, Subcommand& v) {
  if (o.finds_rates) {
    const auto group = v.in(OptionGroup::run);
    o.out_option = &declare(o.rates, o.out, v);
  } else {
    declare_run(o, v);
  }
  const auto machine = v.in(OptionGroup::machine);
  declare(o.device, v);
  declare_threads(o.loader, v);
  declare_prefetch(o.loader, v);
  declare(o.cache, v);
  declare(o.exchange, v);
  v.flag("--recompute", o.recompute,
         "Use less memory: compute normalised values, activations, dropout and concatenations again in the backward "
         "pass. The results are the same; steps are a little slower")
      .not_stored();
  if (!o.finds_rates) declare(o.trace, v);
}

}  // namespace keelson::app
