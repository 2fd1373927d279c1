#pragma once

#include <string>

#include "engine/base/process_grid.hpp"
#include "engine/plan/plan.hpp"
#include "engine/train/progress_choice.hpp"

namespace keelson::app {

class Verb;

/// The user's options for the exchange of gradients between ranks.
struct RequestedExchange {
  double bucket_mb = 0;  ///< MiB; 0: the size that is fastest when measured
  std::string wire = "fp32";
  std::string progress = "auto";
  bool reproducible = false;
  std::string shards = "none";     ///< OptimizerShards
  int spatial = 1;                 ///< parts of each sample
  std::int64_t micro_batches = 1;  ///< forward and backward passes of a step
};

/// Declares --bucket-mb, --wire, --progress, --reproducible, --shard-optimizer, --spatial and --micro-batches on a
/// verb.
void declare(RequestedExchange& o, Verb& verb);
/// Declares --spatial alone.
void declare_spatial(int& parts, Verb& verb);

/// Throws InputError for more than one rank along the axis space if none of the network's inputs can be cut into as
/// many parts, or if a layer cannot compute parts.
void require_parts(const Graph& graph, const ProcessGrid& grid);

/// Makes ExchangeOptions from the user's options. A bucket size of 0 is decided by timing sums over `ranks`.
/// Collective.
ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks);

/// --progress: whether a thread or the calls between ops let the exchange advance.
ProgressBy progress_by(const RequestedExchange& requested);

/// `precision`: as the user gives it. Throws InputError if this precision cannot be combined with --reproducible.
void check(const RequestedExchange& requested, const std::string& precision);

}  // namespace keelson::app
