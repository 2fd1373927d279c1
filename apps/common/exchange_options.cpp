#include "apps/common/exchange_options.hpp"

#include <algorithm>

#include "apps/common/subcommand.hpp"
#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/train/choose_stages.hpp"

namespace keelson::app {

void declare(RequestedExchange& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  constexpr double most = 1024;
  v.option("--bucket-mb", o.bucket_mb,
           "MiB of gradients that ranks exchange at once, beside the backward pass; 0: the size that is fastest when "
           "measured",
           "MIB")
      .between(0, most)
      .stored();
  v.option("--wire", o.wire,
           "Type of the numbers sent between nodes: fp32; or bf16 or fp16, where each rank adds the rounding error to "
           "its gradients of the next step",
           "TYPE")
      .one_of({"fp32", "bf16", "fp16"})
      .stored();
  v.option("--progress", o.progress,
           "How the exchange advances while ops compute: by calls between two ops, or by a thread; auto: the faster "
           "way, measured in the first steps",
           "WAY")
      .one_of({"auto", "calls", "thread"})
      .not_stored();
  v.flag("--reproducible", o.reproducible,
         "The same bits for any number of ranks: samples are computed one by one and summed in a fixed order. Slower. "
         "Ranks and samples per rank must be powers of two, and all runs need the same number of threads per rank "
         "(OMP_NUM_THREADS)")
      .stored();
  v.option("--shard-optimizer", o.shards,
           "What each rank keeps a part of, to save memory: moments, the optimizer's state; gradients, these too. "
           "Checkpoints are the same",
           "PARTS")
      .one_of({"none", "moments", "gradients"})
      .stored();
  declare(o.grid, v);
  v.option("--micro-batches", o.micro_batches,
           "Gradient accumulation: forward and backward passes of a step, each with an equal part of the batch. Less "
           "memory, the same results up to rounding. 0: one pass; with --stages, up to 4 for each stage",
           "PASSES")
      .non_negative()
      .stored();
}

ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks) {
  ExchangeOptions o;
  o.wire = requested.wire == "bf16" ? Wire::bf16 : requested.wire == "fp16" ? Wire::fp16 : Wire::fp32;
  constexpr double mebi = 1024 * 1024;
  o.bucket_bytes = requested.bucket_mb > 0 ? static_cast<std::size_t>(requested.bucket_mb * mebi)
                                           : comm::choose_bucket_bytes(ranks, o.wire);
  o.reproducible = requested.reproducible;
  o.shards = parse_shards(requested.shards);
  return o;
}

std::int64_t decide_micro_batches(const RequestedExchange& requested, std::int64_t samples, int stages) {
  if (requested.micro_batches > 0) return requested.micro_batches;
  return requested.reproducible ? 1 : default_micro_batches(samples, stages);
}

ProgressBy progress_by(const RequestedExchange& requested) {
  if (requested.progress == "auto") return ProgressBy::measured;
  return requested.progress == "thread" ? ProgressBy::thread : ProgressBy::calls;
}

void check(const RequestedExchange& requested, const std::string& precision) {
  if (requested.reproducible && precision == "auto")
    refuse(
        "--precision auto takes the precision that was measured to be faster, so it cannot be combined with "
        "--reproducible: give the precision by name");
}

}  // namespace keelson::app
