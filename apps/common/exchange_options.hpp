#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson::app {

class Verb;

/// What the user says about the exchange of gradients between ranks.
struct ExchangeWishes {
  double bucket_mb = 0;  ///< MiB; 0: the size that measures best
  std::string wire = "fp32";
  bool reproducible = false;  ///< stored in checkpoints, as nothing else here
};

/// Declares --bucket-mb, --wire and --reproducible on a verb.
void declare(ExchangeWishes& o, Verb& verb);

/// What is open, decided by timing sums over `ranks`. Collective.
ExchangeOptions decide(const ExchangeWishes& wanted, Communicator& ranks);

/// `precision`: as the user gives it. Throws InputError where it does not go with --reproducible.
void check(const ExchangeWishes& wanted, const std::string& precision);

}  // namespace keelson::app
