#pragma once

#include <string>

#include "engine/plan/plan.hpp"
#include "engine/train/progress_choice.hpp"

namespace keelson::app {

class Verb;

/// What the user says about the exchange of gradients between ranks.
struct RequestedExchange {
  double bucket_mb = 0;  ///< MiB; 0: the size that measures best
  std::string wire = "fp32";
  std::string progress = "auto";
  bool reproducible = false;
};

/// Declares --bucket-mb, --wire, --progress and --reproducible on a verb.
void declare(RequestedExchange& o, Verb& verb);

/// What is open, decided by timing sums over `ranks`. Collective.
ExchangeOptions decide(const RequestedExchange& requested, Communicator& ranks);

/// Whether a thread lets the exchange advance, or the calls between ops: --progress.
ProgressBy progress_by(const RequestedExchange& requested);

/// `precision`: as the user gives it. Throws InputError where it does not go with --reproducible.
void check(const RequestedExchange& requested, const std::string& precision);

}  // namespace keelson::app
