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
  std::string shards = "none";  ///< OptimizerShards
  std::string spatial = "1";    ///< "4", "4x2"
};

/// Declares --bucket-mb, --wire, --progress, --reproducible and --shard-optimizer on a verb, and --spatial, which
/// --help does not show while the ranks of a replica compute alike.
void declare(RequestedExchange& o, Verb& verb);

/// The process grid that --spatial asks for on these ranks. Throws InputError for a --spatial that is not "4" or "4x2",
/// and where the ranks are no multiple of its parts.
ProcessGrid::Extents grid_extents(const RequestedExchange& requested, int ranks);

/// Makes ExchangeOptions from the user's options. A bucket size of 0 is decided by timing sums over `ranks`.
/// Collective.
ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks);

/// --progress: whether a thread or the calls between ops let the exchange advance.
ProgressBy progress_by(const RequestedExchange& requested);

/// `precision`: as the user gives it. Throws InputError if this precision cannot be combined with --reproducible.
void check(const RequestedExchange& requested, const std::string& precision);

}  // namespace keelson::app
