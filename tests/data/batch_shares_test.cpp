#include "engine/data/cache/batch_shares.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/data/epoch_order.hpp"

namespace keelson {
namespace {

/// The mean of max(X - b, 0) / b for X samples of R b that one of R ranks keeps.
double expected_excess(int ranks, std::int64_t b) {
  const double p = 1.0 / ranks, n = static_cast<double>(ranks * b);
  double excess = 0;
  for (std::int64_t x = b + 1; x <= ranks * b; ++x) {
    const double k = static_cast<double>(x);
    const double log_of =
        std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) + (n - k) * std::log1p(-p);
    excess += std::exp(log_of) * (k - static_cast<double>(b)) / static_cast<double>(b);
  }
  return excess;
}

using Shares = std::vector<std::vector<BatchSample>>;

std::int64_t moved(const Shares& shares) {
  std::int64_t count = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    for (const BatchSample& s : shares[r]) count += s.holder >= 0 && s.holder != static_cast<int>(r);
  return count;
}

TEST(DealSamples, MovesTheExcessAlone) {
  constexpr std::int64_t samples = 1 << 16;
  for (const int ranks : {4, 64})
    for (const std::int64_t batch : {1, 2, 4, 16}) {
      const CachedSamples kept{samples, ranks, samples, 0};
      const EpochOrder order(samples, 3, 0);
      const std::int64_t global = ranks * batch, steps = samples / 2 / global;
      std::int64_t all = 0;
      for (std::int64_t step = 0; step < steps; ++step)
        all += moved(deal_samples({global, batch}, kept, false,
                                  [&](std::int64_t place) { return order[step * global + place]; }));
      const double part = static_cast<double>(all) / static_cast<double>(steps * global);
      const double want = expected_excess(ranks, batch), b = static_cast<double>(batch);
      EXPECT_NEAR(part, want, 0.03 * want) << ranks << " ranks, " << batch;
      if (ranks == 64) {  // the limit for many ranks
        EXPECT_NEAR(part, std::exp(-b + b * std::log(b) - std::lgamma(b + 1)), 0.03 * want) << batch;
      }
    }
}

TEST(DealSamples, GivesEachSampleToOneRank) {
  for (const std::int64_t memory : {0, 1, 5, 100})
    for (const std::int64_t count : {1, 5, 11, 12})
      for (const bool keep_places : {false, true}) {
        const CachedSamples kept{50, 4, memory, 0};
        const EpochOrder order(50, 1, 2);
        const GlobalBatch global{count, 3};
        const auto shares = deal_samples(global, kept, keep_places, [&](std::int64_t place) { return order[place]; });
        std::set<std::int64_t> places;
        for (int r = 0; r < 4; ++r) {
          const auto& share = shares[static_cast<std::size_t>(r)];
          EXPECT_EQ(std::ssize(share), global.count_of(r));
          EXPECT_TRUE(std::ranges::is_sorted(share, {}, &BatchSample::place));
          for (const BatchSample& s : share) {
            EXPECT_EQ(s.sample, order[s.place]);
            EXPECT_EQ(s.holder, kept.holder(s.sample));
            if (keep_places) {
              EXPECT_EQ(s.place / 3, r);
            }
            places.insert(s.place);
          }
        }
        EXPECT_EQ(std::ssize(places), count);
        if (memory == 0) {
          EXPECT_EQ(moved(shares), 0);
        }
      }
}

/// What a rank computes in the order of the data set, it can keep without sending.
TEST(CachedSamples, HaveHoldersByBatches) {
  for (const std::int64_t samples : {1, 7, 12, 50}) {
    for (const int ranks : {1, 2, 4}) {
      for (const std::int64_t batch : {1, 3}) {
        const CachedSamples kept{samples, ranks, 2, 1, batch};
        std::vector<std::int64_t> seen(static_cast<std::size_t>(ranks));
        std::int64_t all = 0;
        for (std::int64_t i = 0; i < samples; ++i) {
          const auto rank = static_cast<int>(i % (ranks * batch) / batch);
          const auto slot = seen[static_cast<std::size_t>(rank)]++;
          EXPECT_EQ(kept.place_of(i).rank, rank);
          EXPECT_EQ(kept.place_of(i).slot, slot);
          EXPECT_EQ(kept.holder(i), slot < 3 ? rank : -1);
          all += slot < 3 ? 1 : 0;
        }
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(kept.share_of(r), seen[static_cast<std::size_t>(r)]);
        EXPECT_EQ(kept.kept(), all);
      }
    }
  }
}

TEST(CachedSamples, HaveHoldersInBlocks) {
  for (const std::int64_t samples : {1, 2, 7, 64, 1001})
    for (const int ranks : {1, 2, 3, 8})
      for (const std::int64_t room : {0, 1, 4, 2000}) {
        const CachedSamples kept{samples, ranks, room / 2, room - room / 2};
        std::int64_t held = 0;
        for (std::int64_t s = 0; s < samples; ++s) {
          const int holder = kept.holder(s);
          if (holder < 0) continue;
          ++held;
          EXPECT_GE(s, kept.begin(holder));
          EXPECT_LT(s, std::min(kept.begin(holder + 1), kept.begin(holder) + room));
        }
        EXPECT_EQ(held, kept.kept());
      }
}

}  // namespace
}  // namespace keelson
