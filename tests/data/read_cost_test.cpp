#include "engine/data/hdf5/read_cost.hpp"

#include <gtest/gtest.h>

namespace keelson {
namespace {

hdf5::DatasetInfo array_of(const hdf5::Dims& shape, const hdf5::Dims& chunk, bool filtered) {
  return {.name = "x", .shape = shape, .type = hdf5::Type::i16, .file = "a.h5", .chunk = chunk, .filtered = filtered};
}

double amplification(const hdf5::DatasetInfo& array, const hdf5::Dims& sample) {
  return cost_of_samples("data", array, sample).amplification();
}

TEST(ReadCost, CountsWholeChunksThatAreFiltered) {
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {}, false), {1, 8, 8}), 1);
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {1, 8, 8}, true), {1, 8, 8}), 1);
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {1, 4, 2}, true), {1, 8, 8}), 1);
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {4, 8, 8}, true), {1, 8, 8}), 4);
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {1, 5, 8}, true), {1, 8, 8}), 10.0 / 8);
  // Cubes of 4 in chunks of 6: the first touches one chunk, the second two, in each dimension.
  EXPECT_EQ(amplification(array_of({8, 8}, {6, 6}, true), {4, 4}), 9.0 * 9 / 16);
}

TEST(ReadCost, CountsTheNeededPartOfChunksThatAreNotFiltered) {
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {4, 8, 8}, false), {1, 8, 8}), 1);
  EXPECT_EQ(amplification(array_of({8, 8, 8}, {8, 8, 8}, false), {4, 4, 4}), 4);
}

TEST(ReadCost, AdvisesOnBadChunksAlone) {
  const auto advice = [](const hdf5::Dims& shape, const hdf5::Dims& chunk, const hdf5::Dims& sample) {
    return advice_on(cost_of_samples("data/train", array_of(shape, chunk, true), sample), "keelson-x");
  };
  EXPECT_EQ(advice({4, 64, 64}, {1, 64, 64}, {1, 64, 64}), "");
  EXPECT_EQ(advice({4, 64, 64}, {}, {1, 64, 64}), "");
  const auto many = advice({4, 64, 64}, {4, 64, 64}, {1, 64, 64});
  EXPECT_EQ(many,
            "a.h5: 'x' (4, 64, 64) is stored in chunks of (4, 64, 64): to read a sample of 8.2 kB, 32.8 kB must be "
            "read, 4.0 times as much. Expected at most 1.5 times as much; `keelson-x rechunk --data data/train --out "
            "NEW` makes faster files");
  EXPECT_NE(advice({4, 64, 64}, {1, 8, 8}, {1, 64, 64}).find("a chunk has 128 bytes, so a sample takes 64 reads"),
            std::string::npos);
  EXPECT_EQ(advice({4, 8, 8}, {1, 8, 8}, {1, 8, 8}), "");  // small samples
  // Boxes that are cut out are not contiguous in a contiguous array.
  EXPECT_NE(advice({4, 64, 64}, {1, 64, 64}, {1, 16, 16}).find("--data data/train --out NEW --chunk 16,16`"),
            std::string::npos);
  EXPECT_NE(advice({1 << 15, 1 << 15}, {1 << 15, 1 << 15}, {1 << 15, 1 << 15}).find("Expected at most 1 GiB"),
            std::string::npos);
}

}  // namespace
}  // namespace keelson
