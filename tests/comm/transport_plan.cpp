#include <gtest/gtest.h>

#include "comm/device/transport.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

std::vector<TransportFacts> four_ranks_on_two_nodes(const std::string& requested = "") {
  return {{requested, "n0", "0000:1b:00.0"},
          {requested, "n0", "0000:1c:00.0"},
          {requested, "n1", "0000:1b:00.0"},
          {requested, "n1", "0000:1c:00.0"}};
}

std::string refusal(const std::vector<TransportFacts>& ranks, bool nccl_built) {
  try {
    plan_transport(ranks, nccl_built);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TransportPlan, TakesNcclOrStagesByItself) {
  for (const char* requested : {"", "auto"}) {
    const auto with = plan_transport(four_ranks_on_two_nodes(requested), true);
    EXPECT_TRUE(with.nccl);
    EXPECT_FALSE(with.mpi) << "nor should NCCL not start";
    const auto without = plan_transport(four_ranks_on_two_nodes(requested), false);
    EXPECT_FALSE(without.nccl || without.mpi);
  }
}

TEST(TransportPlan, ForgoesNcclWhereRanksShareAGpu) {
  auto ranks = four_ranks_on_two_nodes("auto");
  ranks[3].bus_id = ranks[2].bus_id;
  const TransportPlan plan = plan_transport(ranks, true);
  EXPECT_FALSE(plan.nccl);
  EXPECT_EQ(plan.why_not_nccl, "ranks 2 and 3 share the GPU 0000:1b:00.0 of n1");
  for (TransportFacts& r : ranks) r.bus_id = "";
  EXPECT_TRUE(plan_transport(ranks, true).nccl) << "unnamed ones are not the same";
}

TEST(TransportPlan, FollowsTheWish) {
  const auto staged = plan_transport(four_ranks_on_two_nodes("staged"), true);
  EXPECT_FALSE(staged.nccl || staged.mpi);
  const auto mpi = plan_transport(four_ranks_on_two_nodes("mpi"), true);
  EXPECT_TRUE(mpi.mpi && !mpi.nccl);
  EXPECT_TRUE(plan_transport(four_ranks_on_two_nodes("nccl"), true).nccl);
}

TEST(TransportPlan, RefusesUnsupportedRequests) {
  EXPECT_TRUE(contains(refusal(four_ranks_on_two_nodes("pigeon"), true), "expected auto, nccl, mpi or staged"));
  EXPECT_TRUE(contains(refusal(four_ranks_on_two_nodes("nccl"), false), "-DKEELSON_WITH_NCCL=ON"));
  auto ranks = four_ranks_on_two_nodes("nccl");
  ranks[1].bus_id = ranks[0].bus_id;
  EXPECT_TRUE(contains(refusal(ranks, true), "ranks 0 and 1 share the GPU")) << refusal(ranks, true);
  ranks = four_ranks_on_two_nodes();
  ranks[3].requested = "mpi";
  EXPECT_TRUE(contains(refusal(ranks, true), "rank 3 requests collectives 'mpi'")) << refusal(ranks, true);
}

}  // namespace
}  // namespace keelson::comm::detail
