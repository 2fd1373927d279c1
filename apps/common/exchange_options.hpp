#pragma once

#include <string>

#include "apps/common/parallel_option.hpp"
#include "engine/plan/plan.hpp"
#include "engine/train/progress_choice.hpp"

namespace keelson::app {

class Subcommand;

/// The user's options for the exchange of gradients between ranks.
struct RequestedExchange {
  double bucket_mb = 0;  ///< MiB; 0: the size that is fastest when measured
  std::string wire = "fp32";
  std::string progress = "auto";
  bool reproducible = false;
  std::string shards = "none";  ///< OptimizerShards
  RequestedGrid grid;           ///< how ranks share the work
  /// Forward and backward passes of a step; 0: 4 for each stage, as far as the samples allow, and 1 without stages.
  std::int64_t micro_batches = 0;
};

/// Declares --bucket-mb, --wire, --progress, --reproducible, --shard-optimizer, --parallel, --spatial,
/// --channel-parallel, --stages and --micro-batches on a subcommand.
void declare(RequestedExchange& o, Subcommand& subcommand);

/// Makes ExchangeOptions from the user's options. A bucket size of 0 is decided by timing sums over `ranks`.
/// Collective.
ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks);

/// --micro-batches for this many samples of a replica; default_micro_batches() where the user gives none.
std::int64_t decide_micro_batches(const RequestedExchange& requested, std::int64_t samples, int stages);

/// --progress: whether a thread or the calls between ops let the exchange advance.
ProgressBy progress_by(const RequestedExchange& requested);

/// `precision`: as the user gives it. Throws InputError if this precision cannot be combined with --reproducible.
void check(const RequestedExchange& requested, const std::string& precision);

}  // namespace keelson::app
