#include "engine/data/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/bag.hpp"
#include "engine/data/epoch_order.hpp"
#include "tests/support/data_files.hpp"

namespace keelson {
namespace {

/// Sample i is a 2 x 3^3 field of the numbers 1000 i ... and the target i.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size), fields_{{"x", {2, 3, 3, 3}}, {"y", {1}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    if (delay > 0 && index % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    if (index >= bad_from) refuse("sample {} is bad", index);
    for (int i = 0; i < 54; ++i) static_cast<float*>(dst[0])[i] = value(index, i);
    static_cast<float*>(dst[1])[0] = static_cast<float>(index);
    ++reads;
  }
  std::string describe() const override { return "numbers"; }
  static float value(std::int64_t index, int i) { return static_cast<float>(1000 * index + i); }

  int delay = 0;
  std::int64_t bad_from = INT64_MAX;
  mutable std::atomic<int> reads = 0;

 protected:
  std::int64_t size_;
  std::vector<Field> fields_;
};

LoaderOptions options_of(std::int64_t batch, int rank = 0, int ranks = 1, int threads = 2) {
  LoaderOptions o;
  o.batch = batch;
  o.rank = rank;
  o.ranks = ranks;
  o.threads.count = threads;
  o.seed = 11;
  return o;
}

/// What all ranks get in one epoch: per step the samples in order of rank, after checking what a batch promises.
std::vector<std::vector<std::int64_t>> epoch_of(const Dataset& data, std::int64_t batch, int ranks, std::int64_t epoch,
                                                std::int64_t first_sample = 0) {
  std::vector<std::vector<std::int64_t>> steps;
  for (int rank = 0; rank < ranks; ++rank) {
    Loader loader(data, options_of(batch, rank, ranks));
    const std::int64_t global_batch = ranks * batch;
    steps.resize(static_cast<std::size_t>((data.size() - first_sample + global_batch - 1) / global_batch));
    loader.start_epoch(epoch, first_sample);
    for (auto& step : steps) {
      const Batch* b = loader.next();
      if (b == nullptr) {
        ADD_FAILURE() << "the epoch ended early";
        return steps;
      }
      EXPECT_EQ(b->sample_offset, rank * batch);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->fields[0]) % 64, 0u);
      const auto *x = static_cast<const float*>(b->fields[0]), *y = static_cast<const float*>(b->fields[1]);
      for (std::int64_t i = 0; i < batch; ++i) {
        EXPECT_EQ(b->weight[i], i < b->count ? 1.0f : 0.0f);
        const bool filled = b->count > 0;  // beyond the samples by the first one
        const std::int64_t index = b->indices[i < b->count ? i : 0];
        EXPECT_EQ(y[i], filled ? static_cast<float>(index) : 0.0f);
        for (int k = 0; k < 54; ++k) EXPECT_EQ(x[i * 54 + k], filled ? Numbers::value(index, k) : 0.0f);
      }
      step.insert(step.end(), b->indices, b->indices + b->count);
      if (rank == ranks - 1) {
        EXPECT_EQ(b->global_count, static_cast<std::int64_t>(step.size()));
      }
    }
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
  return steps;
}

std::vector<std::int64_t> order_of(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const EpochOrder order(size, seed, epoch);
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < size; ++i) samples.push_back(order[i]);
  return samples;
}

std::vector<std::int64_t> flat(const std::vector<std::vector<std::int64_t>>& steps) {
  std::vector<std::int64_t> all;
  for (const auto& s : steps) all.insert(all.end(), s.begin(), s.end());
  return all;
}

TEST(Loader, EverySampleOnceWhateverTheRanks) {
  for (const std::int64_t size : {1, 7, 8, 29, 64}) {
    const Numbers data(size);
    for (const std::int64_t epoch : {0, 3}) {
      const auto one = epoch_of(data, 8, 1, epoch);
      auto all = flat(one);
      EXPECT_EQ(all, order_of(size, 11, epoch));
      EXPECT_EQ(one, epoch_of(data, 4, 2, epoch)) << size;
      EXPECT_EQ(one, epoch_of(data, 2, 4, epoch)) << size;
    }
  }
}

TEST(Loader, WeighsSamplesOfABagAlikeInAllEpochsAndOnAnyRanks) {
  const Numbers data(29);
  for (const int ranks : {1, 2, 4})
    for (const std::int64_t epoch : {0, 3}) {
      std::vector<double> own(4), all(4);  // of each step
      for (int rank = 0; rank < ranks; ++rank) {
        auto options = options_of(8 / ranks, rank, ranks);
        options.bag = true;
        Loader loader(data, options);
        loader.start_epoch(epoch);
        for (std::size_t step = 0; step < own.size(); ++step) {
          const Batch& b = *loader.next();
          for (std::int64_t i = 0; i < options.batch; ++i) {
            const std::int64_t weight = i < b.count ? bag_weight(options.seed, b.indices[i]) : 0;
            EXPECT_EQ(b.weight[i], static_cast<float>(weight));
            own[step] += static_cast<double>(weight);
          }
          all[step] = b.total_weight();
          EXPECT_EQ(b.inverse_weight(2), all[step] > 0 ? 2 / static_cast<float>(all[step]) : 0.0f);
        }
      }
      EXPECT_EQ(own, all) << ranks << " ranks";
    }
}

TEST(Loader, ReadsChosenSamplesWithTheirWeights) {
  const Numbers data(29);
  auto chosen = std::make_shared<EpochSamples>();
  chosen->order = {28, 3, 11, 0, 17, 4, 9};
  chosen->weights.assign(29, 0);
  for (const std::int64_t i : chosen->order) chosen->weights[static_cast<std::size_t>(i)] = i % 2 == 0 ? 1.0f : 2.5f;
  chosen->represented = 21;
  for (const int ranks : {1, 2, 4})
    for (const std::int64_t first : {0, 4}) {
      std::vector<std::vector<std::int64_t>> steps((7 - static_cast<std::size_t>(first) + 3) / 4);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto options = options_of(4 / ranks, rank, ranks);
        Loader loader(data, options);
        loader.start_epoch(2, first, chosen);
        for (auto& step : steps) {
          const Batch& b = *loader.next();
          for (std::int64_t i = 0; i < options.batch; ++i)
            EXPECT_EQ(b.weight[i], i < b.count ? chosen->weights[static_cast<std::size_t>(b.indices[i])] : 0);
          step.insert(step.end(), b.indices, b.indices + b.count);
          EXPECT_EQ(b.total_weight(), 3 * static_cast<double>(b.global_count)) << "each sample stands for three";
        }
        EXPECT_EQ(loader.next(), nullptr);
        EXPECT_EQ(loader.steps_per_epoch(), 8);
        loader.start_epoch(3);  // all samples again, each for itself
        EXPECT_EQ(loader.next()->total_weight(), 4);
      }
      EXPECT_EQ(flat(steps), (std::vector<std::int64_t>{chosen->order.begin() + first, chosen->order.end()}));
    }
}

TEST(BagWeight, IsPoissonDistributedWithMeanOne) {
  constexpr std::int64_t draws = 200'000;
  std::array<std::int64_t, 13> count{};
  double product = 0;
  for (std::int64_t i = 0; i < draws; ++i) {
    ++count.at(static_cast<std::size_t>(bag_weight(7, i)));
    product += static_cast<double>(bag_weight(7, i) * bag_weight(8, i)) / draws;
  }
  double want = std::exp(-1.0);
  for (std::size_t k = 0; k < 6; ++k) {
    const double deviation = std::sqrt(want * (1 - want) / draws);
    EXPECT_NEAR(static_cast<double>(count[k]) / draws, want, 5 * deviation) << k;
    want /= static_cast<double>(k + 1);
  }
  EXPECT_NEAR(product, 1, 0.03);  // of independent seeds
}

TEST(Loader, RanksMayHaveNothingInTheLastStep) {
  const Numbers data(9);
  Loader last(data, options_of(2, 3, 4));
  EXPECT_EQ(last.steps_per_epoch(), 2);
  last.start_epoch(0);
  EXPECT_EQ(last.next()->count, 2);
  const Batch* b = last.next();
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->count, 0);
  EXPECT_EQ(b->global_count, 1);
  EXPECT_EQ(b->weight[0], 0.0f);
  EXPECT_EQ(last.next(), nullptr);
}

TEST(Loader, EmptyDatasetsHaveEmptyEpochs) {
  const Numbers data(0);
  Loader loader(data, options_of(2));
  EXPECT_EQ(loader.steps_per_epoch(), 0);
  loader.start_epoch(0);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, ResumesInTheMiddleOfAnEpoch) {
  const Numbers data(50);
  const auto all = epoch_of(data, 4, 2, 5);
  for (std::int64_t first = 0; first <= static_cast<std::int64_t>(all.size()); ++first) {
    const std::vector<std::vector<std::int64_t>> rest(all.begin() + first, all.end());
    EXPECT_EQ(rest, epoch_of(data, 4, 2, 5, 8 * first));
  }
}

TEST(Loader, DecodesNoFurtherAheadThanAsked) {
  const Numbers data(100);
  auto options = options_of(2);
  options.threads.prefetch = 3;
  Loader loader(data, options);
  loader.start_epoch(0);
  ASSERT_NE(loader.next(), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(data.reads, 2 * (1 + 3));
}

TEST(Loader, ABatchStaysWhileItIsHeld) {
  const Numbers data(100);
  auto options = options_of(2);
  options.threads.prefetch = 1;
  Loader loader(data, options);
  loader.start_epoch(0);
  for (const Batch* b; (b = loader.next()) != nullptr;) {
    const auto* x = static_cast<const float*>(b->fields[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 108; ++i) ASSERT_EQ(x[i], Numbers::value(b->indices[i / 54], i % 54));
  }
}

TEST(Loader, ErrorsArriveWithTheirBatch) {
  Numbers data(40);
  data.bad_from = 30;
  auto options = options_of(4, 0, 1, 3);
  options.shuffle = false;
  Loader loader(data, options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    loader.start_epoch(epoch);
    for (int step = 0; step < 7; ++step) ASSERT_NE(loader.next(), nullptr);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(testing::message_of<InputError>([&] { loader.next(); }), "sample 30 is bad");
  }
  data.bad_from = INT64_MAX;
  loader.start_epoch(3, 28);
  EXPECT_NE(loader.next(), nullptr);
}

/// An epoch that four ranks began and three, then one, end: every sample comes once, in the order of the epoch.
TEST(Loader, EpochsThatOtherNumbersOfRanksEnd) {
  const Numbers data(50);
  const auto order = order_of(50, 11, 2);
  std::vector<std::int64_t> seen;
  const auto take = [&](int ranks, std::size_t steps) {
    const auto all = epoch_of(data, 2, ranks, 2, static_cast<std::int64_t>(seen.size()));
    for (std::size_t s = 0; s < std::min(steps, all.size()); ++s) seen.insert(seen.end(), all[s].begin(), all[s].end());
  };
  take(4, 2);
  EXPECT_EQ(seen.size(), 16u);
  take(3, 3);
  EXPECT_EQ(seen.size(), 34u);
  take(1, 100);
  EXPECT_EQ(seen, order);
  EXPECT_TRUE(epoch_of(data, 2, 4, 2, 50).empty());
}

/// Adds a random number below 0.5 to all of x.
class Shift final : public SampleTransform {
 public:
  void check(const Dataset& dataset) const override {
    if (dataset.fields()[0].shape.rank() != 4) refuse("nothing to shift in {}", dataset.describe());
  }
  void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const override {
    auto* x = static_cast<float*>(sample[0]);
    for (std::int64_t i = 0; i < fields[0].shape.elements(); ++i) x[i] += shift_of(id);
  }
  std::string describe() const override { return "shift"; }
  static float shift_of(const SampleId& id) {
    const philox::Key key{id.seed, philox::stream_of("shift"), static_cast<std::uint64_t>(id.epoch)};
    return static_cast<float>(philox::below(key, static_cast<std::uint64_t>(id.index), 64)) / 128;
  }
};

TEST(Loader, TransformsBySeedEpochAndSample) {
  const Numbers data(24);
  for (const std::int64_t epoch : {0, 1}) {
    std::set<float> distinct;
    for (const auto& [batch, threads] : {std::pair{4, 1}, {3, 3}}) {
      auto options = options_of(batch, 0, 1, threads);
      options.decoding.transform = std::make_shared<Shift>();
      Loader loader(data, options);
      loader.start_epoch(epoch);
      int samples = 0;
      for (const Batch* b; (b = loader.next()) != nullptr;) {
        for (std::int64_t i = 0; i < b->count; ++i, ++samples) {
          const float shift = Shift::shift_of({11, epoch, b->indices[i]});
          distinct.insert(shift);
          for (int k = 0; k < 54; ++k)
            ASSERT_EQ(static_cast<const float*>(b->fields[0])[i * 54 + k], Numbers::value(b->indices[i], k) + shift);
          ASSERT_EQ(static_cast<const float*>(b->fields[1])[i], static_cast<float>(b->indices[i]));
        }
      }
      EXPECT_EQ(samples, 24);
    }
    EXPECT_GT(distinct.size(), 12u);  // 24 draws of 64: 20 expected
  }
}

/// A data set that knows a transform may apply it while it decodes; the loader then leaves that to it.
TEST(Loader, LetsTheDataSetTransformWhileItDecodes) {
  class Fused : public Numbers {
   public:
    using Numbers::Numbers;
    void read_sample(const SampleRequest& request, void* const* dst) const override {
      ASSERT_NE(dynamic_cast<const Shift*>(request.transform), nullptr);
      const SampleId& id = request.id;
      for (int i = 0; i < 54; ++i) static_cast<float*>(dst[0])[i] = value(id.index, i) + Shift::shift_of(id);
      static_cast<float*>(dst[1])[0] = static_cast<float>(id.index);
    }
  };
  const Numbers plain(10);
  const Fused fused(10);
  auto options = options_of(10);
  options.decoding.transform = std::make_shared<Shift>();
  Loader one(plain, options), other(fused, options);
  one.start_epoch(2);
  other.start_epoch(2);
  const Batch *a = one.next(), *b = other.next();
  for (int f : {0, 1})
    EXPECT_EQ(std::memcmp(a->fields[f], b->fields[f], (f == 0 ? 540 : 10) * sizeof(float)), 0) << "field " << f;
  EXPECT_EQ(plain.reads, 10);
  EXPECT_EQ(fused.reads, 0);
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  class Flat : public Numbers {
   public:
    Flat() : Numbers(4) { fields_[0].shape = {54}; }
  };
  const Numbers data(4);
  EXPECT_THROW(Loader(data, options_of(0)), InputError);
  EXPECT_THROW(Loader(data, options_of(1, 0, 1, 0)), InputError);
  auto options = options_of(1);
  options.threads.prefetch = -1;
  EXPECT_THROW(Loader(data, options), InputError);
  options = options_of(1);
  options.threads.readers = -1;
  EXPECT_THROW(Loader(data, options), InputError);
  options = options_of(1);
  options.decoding.transform = std::make_shared<Shift>();
  EXPECT_THROW(Loader(Flat(), options), InputError);
  EXPECT_THROW(Loader(data, options_of(1, 2, 2)), Error);
}

/// Epochs that are abandoned at any point, loaders that go while decoding, threads faster and slower than the reader.
TEST(Loader, SurvivesEpochsThatAreAbandoned) {
  Numbers data(37);
  for (const int delay : {0, 50}) {
    data.delay = delay;
    for (const int threads : {1, 3, 8}) {
      for (const int prefetch : {1, 4}) {
        auto options = options_of(3, 0, 1, threads);
        options.threads.prefetch = prefetch;
        Loader loader(data, options);
        for (int epoch = 0; epoch < 40; ++epoch) {
          loader.start_epoch(epoch, epoch % 4);
          for (int step = 0; step < (epoch * 7) % 15; ++step) {
            const Batch* b = loader.next();
            if (b == nullptr) break;
            for (std::int64_t i = 0; i < b->count; ++i) {
              ASSERT_EQ(static_cast<const float*>(b->fields[1])[i], static_cast<float>(b->indices[i]));
              ASSERT_EQ(static_cast<const float*>(b->fields[0])[i * 54 + 53], Numbers::value(b->indices[i], 53));
            }
          }
        }
      }
    }
  }
  for (int i = 0; i < 50; ++i) {
    Loader loader(data, options_of(4, 0, 1, 3));
    if (i % 2 == 0) loader.start_epoch(i);
    if (i % 4 == 0) loader.next();
  }
}

TEST(Loader, RunsOnTheCpusGiven) {
  const Numbers data(10);
  auto options = options_of(2);
  options.threads.cpus = {0, 100000};  // what does not exist is passed over
  Loader loader(data, options);
  loader.start_epoch(0);
  int steps = 0;
  while (loader.next() != nullptr) ++steps;
  EXPECT_EQ(steps, 5);
}

}  // namespace
}  // namespace keelson
