#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson::app {

class Verb;

/// What the user says about the exchange of gradients between ranks; nothing of it is stored in checkpoints.
struct ExchangeWishes {
  double bucket_mb = 0;  ///< MiB; 0: the size that measures best
  std::string wire = "fp32";
};

/// Declares --bucket-mb and --wire on a verb.
void declare(ExchangeWishes& o, Verb& verb);

/// What is open, decided by timing sums over `ranks`. Collective.
ExchangeOptions decide(const ExchangeWishes& wanted, Communicator& ranks);

}  // namespace keelson::app
