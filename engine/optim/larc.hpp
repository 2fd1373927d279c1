#pragma once

#include <string>

#include "engine/ops/update.hpp"

namespace keelson {

/// LARC (You, Gitman, Ginsburg 2017): each parameter's gradient is scaled by a local rate; ops::UpdateParams has the
/// formulas. A setting of several optimizers.
struct Larc {
  ops::LarcMode mode = ops::LarcMode::none;  ///< none: no LARC; scale; clip
  float eta = 0.002f;                        ///< trust coefficient
  float floor = 0;                           ///< the local rate if a norm is 0
  bool relative = false;                     ///< clip: the local rate is divided by the learning rate

  /// Writes these settings into the settings of an update.
  void apply_to(ops::UpdateParams& p) const;
  /// Whether updates read the norms of each parameter and of its gradient.
  bool needs_norms() const { return mode != ops::LarcMode::none; }
  std::string to_string() const;  ///< ", larc clip 0.002"; empty without LARC
};

}  // namespace keelson
