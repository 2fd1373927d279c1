#pragma once

#include <cstdint>
#include <memory>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/train/sync/sync_mode.hpp"

namespace keelson {

/// Exchanges the parameters of ranks whose optimizers work with the gradients of their own rank alone. All ranks make
/// the same calls in the same order. The same calls with the same parameters give the same bits.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  /// After the optimizer has moved the parameters. `step`: steps of the training that are done, this one included.
  void after_update(std::int64_t step) {
    equal_ = false;
    exchange(step);
  }
  /// Waits for the exchange, and makes parameters, statistics and moments the same on all ranks, bit for bit. Does
  /// nothing if they have been the same since the last call.
  void make_equal() {
    if (!equal_) equalize();
    equal_ = true;
  }
  /// Steps that a rank may be ahead of another one, without waiting for it. Ranks that wait for each other's losses or
  /// votes in every step should do so this many steps later.
  virtual std::size_t slack() const = 0;

 protected:
  virtual void exchange(std::int64_t step) = 0;  ///< the work of after_update()
  virtual void equalize() = 0;                   ///< the work of make_equal()
  void now_equal() { equal_ = true; }            ///< for exchange(): the ranks are as equalize() would make them

 private:
  bool equal_ = true;
};

/// How a Synchronizer works.
struct SynchronizerOptions {
  SyncMode mode;                       ///< stale, gossip, local or post_local
  std::uint64_t seed = 0;              ///< of gossip's partners
  std::size_t piece_bytes = 8u << 20;  ///< sums over ranks move so many bytes at once
};

/// For parameters that are the same on all ranks now, and have their memory and moments. `ranks`: more than one, whose
/// collectives work on the parameters' memory. Both must outlive the synchronizer. Collective.
std::unique_ptr<Synchronizer> make_synchronizer(Parameters& parameters, Communicator& ranks,
                                                const SynchronizerOptions& options);

}  // namespace keelson
