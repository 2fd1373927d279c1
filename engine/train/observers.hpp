#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/train/observer.hpp"

namespace keelson {

/// The observers of a training. They must outlive the training.
class Observers {
 public:
  /// Makes observers.
  using Maker = std::function<std::vector<TrainObserver*>()>;

  /// Replaces all observers. `rank0`: makes the observers that rank 0 alone has; may be empty.
  void replace(std::vector<TrainObserver*> observers, Maker rank0 = {}) {
    observers_ = std::move(observers);
    rank0_ = std::move(rank0);
  }
  /// Called on rank 0, when training begins and when a loss has made another rank rank 0. Adds the observers of rank 0
  /// and returns them. Returns none if this rank has made them before.
  std::vector<TrainObserver*> make_rank0_observers() {
    if (!rank0_) return {};
    auto made = std::exchange(rank0_, {})();
    observers_.insert(observers_.end(), made.begin(), made.end());
    return made;
  }
  /// Calls `call` with each observer.
  template <class Call>
  void notify(Call&& call) const {
    for (TrainObserver* o : observers_) call(*o);
  }

 private:
  std::vector<TrainObserver*> observers_;
  Maker rank0_;  ///< empty: none, or called before
};

}  // namespace keelson
