#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "comm/allreduce/algorithm.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

TEST(AllreduceAlgorithmTest, NamesComeBack) {
  for (const char* name : {"mpi", "two-level", "two-level-ring", "ring", "halving", "doubling", "ring:4M", "mpi:512K"})
    EXPECT_EQ(AllreduceAlgorithm::parse(name).to_string(), name);
}

TEST(AllreduceAlgorithmTest, RefusesOtherNames) {
  for (const char* name : {"", "rings", "ring:", "ring:4", "ring:0M", "ring:-1M", "ring:M", "two-level:4M"})
    EXPECT_THROW(AllreduceAlgorithm::parse(name), InputError) << name;
}

TEST(AllreduceAlgorithmTest, CandidatesCanBeHad) {
  for (const int nodes : {1, 4, 8})
    for (const bool shared : {false, true})
      for (const auto& [wire, order] : {std::pair(Wire::fp32, SumOrder::any), std::pair(Wire::fp32, SumOrder::tree),
                                        std::pair(Wire::bf16, SumOrder::any), std::pair(Wire::fp16, SumOrder::any)})
        for (const std::size_t bytes : {4, 60'000, 4'000'000, 100'000'000}) {
          const AllreduceFacts facts{8, nodes, shared, wire, order};
          const auto all = allreduce_candidates(facts, bytes);
          ASSERT_FALSE(all.empty());
          for (const auto& a : all) {
            EXPECT_TRUE(is_supported(a, facts));
            EXPECT_LT(a.piece_bytes, bytes);
            EXPECT_EQ(std::count(all.begin(), all.end(), a), 1);
          }
        }
}

TEST(AllreduceAlgorithmTest, RanksOfANodeUseItsMemoryByTheRuleOfThumb) {
  EXPECT_EQ(allreduce_candidates({2, 1, true, Wire::fp32}, 1 << 20).front().to_string(), "two-level");
  EXPECT_EQ(allreduce_candidates({2, 2, false, Wire::fp32}, 4).front().to_string(), "mpi");
}

}  // namespace
}  // namespace keelson::comm::detail
