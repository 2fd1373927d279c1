#include "engine/train/sync/synchronizer.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/train/sync/block_sum.hpp"
#include "engine/train/sync/flat_arrays.hpp"
#include "engine/train/sync/partners.hpp"

namespace keelson {
namespace {

/// Replaces arrays by their means over all ranks.
class RankMean {
 public:
  RankMean(Parameters& parameters, const FlatArrays::Content& content, Communicator& ranks, std::size_t piece_bytes)
      : arrays_(parameters, content), share_(1.0f / static_cast<float>(ranks.size())) {
    if (arrays_.size() == 0) return;
    block_ = arrays_.allocate("mean over ranks");
    sum_ = std::make_unique<BlockSum>(ranks, block_, piece_bytes, "the mean of the parameters");
  }
  void run() {
    if (!sum_) return;
    arrays_.gather(block_);
    sum_->start();
    sum_->wait();
    arrays_.scale(block_, share_);
    arrays_.scatter(block_);
  }

 private:
  FlatArrays arrays_;
  float share_;
  Tensor block_;
  std::unique_ptr<BlockSum> sum_;
};

/// Every `period` steps: w = mean of w over ranks; statistics and moments, too.
class LocalSteps final : public Synchronizer {
 public:
  LocalSteps(Parameters& parameters, Communicator& ranks, const SynchronizerOptions& o)
      : period_(o.mode.period), mean_(parameters, {}, ranks, o.piece_bytes) {}
  std::size_t slack() const override {
    constexpr std::int64_t most = 16;  // losses and votes that are under way
    return static_cast<std::size_t>(std::min(period_ - 1, most));
  }

 private:
  void exchange(std::int64_t step) override {
    if (step % period_ != 0) return;
    mean_.run();
    now_equal();
  }
  void equalize() override { mean_.run(); }

  std::int64_t period_;
  RankMean mean_;
};

/// After each step: w = (w + w of the partner) / 2; statistics, too.
class Gossip final : public Synchronizer {
 public:
  Gossip(Parameters& parameters, Communicator& ranks, const SynchronizerOptions& o)
      : ranks_(ranks),
        seed_(o.seed),
        arrays_(parameters, {.moments = false}),
        mine_(arrays_.allocate("parameters to send")),
        received_(arrays_.allocate("parameters of the partner")),
        mean_(parameters, {}, ranks, o.piece_bytes) {}
  std::size_t slack() const override { return 1; }

 private:
  void exchange(std::int64_t step) override {
    const auto partners = gossip_partners(ranks_.rank(), ranks_.size(), seed_, step - 1);
    const auto receive =
        ranks_.make_receive(received_.raw(), received_.bytes(), partners.from, "parameters of the gossip partner");
    const auto send = ranks_.make_send(mine_.raw(), mine_.bytes(), partners.to, "parameters for the gossip partner");
    arrays_.gather(mine_);
    receive->start();
    send->start();
    receive->wait();
    send->wait();
    arrays_.add(mine_, {mine_, received_});
    arrays_.scale(mine_, 0.5f);
    arrays_.scatter(mine_);
  }
  void equalize() override { mean_.run(); }

  Communicator& ranks_;
  std::uint64_t seed_;
  FlatArrays arrays_;
  Tensor mine_, received_;
  RankMean mean_;
};

/// w = common + the rank's own updates under way. `common`, with the updates of all ranks up to `bound` steps before,
/// is the same on all ranks bit for bit: each adds the same sums in the same order.
class StaleSteps final : public Synchronizer {
 public:
  StaleSteps(Parameters& parameters, Communicator& ranks, const SynchronizerOptions& o)
      : bound_(static_cast<std::size_t>(o.mode.bound)),
        share_(1.0f / static_cast<float>(ranks.size())),
        values_(parameters, {.statistics = false, .moments = false}),
        common_(values_.allocate("common parameters")),
        now_(values_.allocate("parameters of this rank")),
        rest_(parameters, {.values = false}, ranks, o.piece_bytes) {
    for (std::size_t i = 0; i <= bound_; ++i) {
      Update u{values_.allocate("update"), values_.allocate("updates of all ranks"), nullptr};
      u.exchange = std::make_unique<BlockSum>(ranks, u.sum, o.piece_bytes, "stale updates");
      updates_.push_back(std::move(u));
    }
    values_.gather(common_);
    values_.copy(now_, common_);
  }
  std::size_t slack() const override { return bound_; }

 private:
  /// Of one step: this rank's share, and the sum of all ranks' shares.
  struct Update {
    Tensor own, sum;
    std::unique_ptr<BlockSum> exchange;
  };
  Update& update(std::size_t step) { return updates_[step % updates_.size()]; }

  void exchange(std::int64_t) override {
    Update& u = update(posted_++);
    values_.gather(u.own);
    values_.scale(now_, -1);
    values_.add(u.own, {u.own, now_});
    values_.scale(u.own, share_);
    values_.copy(u.sum, u.own);
    u.exchange->start();
    finish(bound_);
  }
  void equalize() override {
    finish(0);
    rest_.run();
  }
  /// Waits for the sums of all steps but the last `left`.
  void finish(std::size_t left) {
    for (; done_ + left < posted_; ++done_) {
      update(done_).exchange->wait();
      values_.add(common_, {common_, update(done_).sum});
    }
    std::vector<Tensor> terms{common_};
    for (std::size_t s = done_; s < posted_; ++s) terms.push_back(update(s).own);
    values_.add(now_, terms);
    values_.scatter(now_);
  }

  std::size_t bound_;
  float share_;
  FlatArrays values_;
  Tensor common_, now_;
  std::vector<Update> updates_;
  RankMean rest_;                      ///< of statistics and moments
  std::size_t posted_ = 0, done_ = 0;  ///< updates
};

}  // namespace

std::unique_ptr<Synchronizer> make_synchronizer(Parameters& parameters, Communicator& ranks,
                                                const SynchronizerOptions& options) {
  KEELSON_EXPECT(ranks.size() > 1);
  switch (options.mode.kind) {
    case SyncMode::Kind::stale:
      return std::make_unique<StaleSteps>(parameters, ranks, options);
    case SyncMode::Kind::gossip:
      return std::make_unique<Gossip>(parameters, ranks, options);
    case SyncMode::Kind::local:
    case SyncMode::Kind::post_local:
      return std::make_unique<LocalSteps>(parameters, ranks, options);
    default:
      fail("the synchronization {} is no affair of a synchronizer", options.mode.to_string());
  }
}

}  // namespace keelson
