#include "engine/data/shared_samples.hpp"

#include <atomic>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

/// Sample i is three numbers and a target, which depend on i. Counts how often this rank reads.
class CountedReads final : public Dataset {
 public:
  std::int64_t size() const override { return 7; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    if (index == bad) refuse("sample {} is bad", index);
    for (int i = 0; i < 3; ++i) static_cast<float*>(dst[0])[i] = static_cast<float>(10 * index + i);
    static_cast<float*>(dst[1])[0] = static_cast<float>(-index);
    ++reads;
  }
  std::string describe() const override { return "counted reads"; }
  std::int64_t bad = -1;
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::vector<Field> fields_{{"x", {3}}, {"y", {1}}};
};

class SharedSamplesOnRanks : public MpiTest {};

TEST_F(SharedSamplesOnRanks, EachSampleIsReadOnceByOneRank) {
  const CountedReads data;
  const SampleStore store(data, &world());
  std::int64_t all = data.reads;
  EXPECT_EQ(store.samples_read(), all);
  world().allreduce(&all, 1, Reduction::sum);
  EXPECT_EQ(all, data.size());
  EXPECT_EQ(store.bytes(), data.size() * 16);

  const SharedSamples shared(data, store);
  const std::int64_t before = data.reads;
  std::vector<float> x(3), expected(3);
  float y = 0;
  std::vector<std::byte> stored(16);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    void* const dst[] = {x.data(), &y};
    shared.read(i, dst);
    EXPECT_EQ(x, (std::vector<float>{10.0f * static_cast<float>(i), 10.0f * static_cast<float>(i) + 1,
                                     10.0f * static_cast<float>(i) + 2}));
    EXPECT_EQ(y, -static_cast<float>(i));
    x.assign(3, 0);
    shared.read_stored(i, stored.data());
    SampleRequest request;
    request.id.index = i;
    shared.decode(request, stored.data(), dst);
    EXPECT_EQ(x[2], 10.0f * static_cast<float>(i) + 2);
    shared.read_sample(request, dst);
    EXPECT_EQ(y, -static_cast<float>(i));
  }
  EXPECT_EQ(data.reads, before);
}

TEST_F(SharedSamplesOnRanks, ASampleThatCannotBeReadIsAnErrorOnAllRanks) {
  CountedReads data;
  data.bad = 4;
  EXPECT_THROW(SampleStore(data, &world()), InputError);
}

}  // namespace
}  // namespace keelson::testing
