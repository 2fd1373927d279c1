#include "comm/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "comm/communicators.hpp"

namespace keelson::comm {
namespace {

std::vector<int> range(int first, int last) {
  std::vector<int> cpus(static_cast<std::size_t>(last - first));
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

/// A node of `cores` cores; with SMT, core i has the CPUs i and i + cores, as on most machines.
PlacementFacts node(int cores, int ranks, int local_rank = 0, int smt = 1) {
  PlacementFacts facts;
  for (int cpu = 0; cpu < cores * smt; ++cpu) facts.core_of_cpu.push_back(cpu % cores);
  facts.node_cpus = range(0, cores * smt);
  facts.masks.assign(static_cast<std::size_t>(ranks), facts.node_cpus);
  facts.local_rank = local_rank;
  return facts;
}

bool says(const Placement& placement, const std::string& part) {
  return placement.advice.find(part) != std::string::npos;
}

TEST(Placement, OneRankTakesAllCores) {
  const auto p = decide_placement(node(8, 1));
  EXPECT_EQ(p.threads, 8);
  EXPECT_TRUE(p.cpus.empty());
  EXPECT_EQ(p.cores, 8);
  EXPECT_EQ(p.node_cores, 8);
  EXPECT_EQ(p.advice, "");
}

TEST(Placement, TwoRanksOnTwoCoresRunOneThreadEach) {
  for (int r = 0; r < 2; ++r) {
    const auto p = decide_placement(node(2, 2, r));
    EXPECT_EQ(p.threads, 1);
    EXPECT_EQ(p.cpus, std::vector<int>{r});
    EXPECT_EQ(p.advice, "");
  }
}

TEST(Placement, RanksDivideASharedMaskEvenly) {
  std::vector<int> seen;
  for (int r = 0; r < 3; ++r) {
    const auto p = decide_placement(node(16, 3, r));
    EXPECT_EQ(p.threads, 5);
    EXPECT_EQ(p.cpus, range(5 * r, 5 * r + 5));
    EXPECT_EQ(p.advice, "") << "a remainder of one core is nobody's mistake";
  }
}

TEST(Placement, DivisionRespectsCoreOrderAndHardwareThreads) {
  const auto p = decide_placement(node(4, 2, 1, 2));
  EXPECT_EQ(p.threads, 2) << "one thread per core, not per hardware thread";
  EXPECT_EQ(p.cpus, (std::vector<int>{2, 3, 6, 7}));

  auto facts = node(4, 2, 0);
  facts.core_of_cpu = {0, 2, 1, 3};  // neighbours in number, but on other sockets
  EXPECT_EQ(decide_placement(facts).cpus, (std::vector<int>{0, 2}));
}

TEST(Placement, RanksWithCoresOfTheirOwnKeepThem) {
  auto facts = node(8, 2, 1);
  facts.masks = {range(0, 4), range(4, 8)};
  const auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 4);
  EXPECT_TRUE(p.cpus.empty());
  EXPECT_EQ(p.advice, "");
}

TEST(Placement, SomeRanksShareAndOthersDoNot) {
  auto facts = node(8, 3, 1);
  facts.masks = {range(0, 4), range(0, 4), range(4, 8)};
  EXPECT_EQ(decide_placement(facts).cpus, range(2, 4));
  facts.local_rank = 2;
  EXPECT_EQ(decide_placement(facts).threads, 4);
}

TEST(Placement, PartlyOverlappingMasksAreNotRebound) {
  auto facts = node(8, 2);
  facts.masks = {range(0, 6), range(2, 8)};
  const auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 3);
  EXPECT_TRUE(p.cpus.empty());
}

TEST(Placement, MoreRanksThanCoresRunOneThreadEachUnbound) {
  const auto p = decide_placement(node(2, 4, 3));
  EXPECT_EQ(p.threads, 1);
  EXPECT_TRUE(p.cpus.empty());
  EXPECT_TRUE(says(p, "4 ranks share 2 cores")) << p.advice;
}

TEST(Placement, AnExplicitWishCounts) {
  auto facts = node(8, 2, 1);
  facts.threads_wanted = 2;
  facts.threads_wanted_by = "KEELSON_THREADS";
  auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 2);
  EXPECT_EQ(p.cpus, range(4, 8));
  EXPECT_EQ(p.reason, "KEELSON_THREADS");
  EXPECT_EQ(p.advice, "");

  facts.threads_wanted = 8;  // does not fit the rank's half
  p = decide_placement(facts);
  EXPECT_EQ(p.threads, 8);
  EXPECT_TRUE(p.cpus.empty());
  EXPECT_TRUE(says(p, "KEELSON_THREADS=8")) << p.advice;
}

TEST(Placement, SlurmAndControlGroupsLimit) {
  auto facts = node(16, 2);
  facts.cpus_per_task = 4;
  EXPECT_EQ(decide_placement(facts).threads, 4);
  facts.cpus_per_task = 32;
  EXPECT_EQ(decide_placement(facts).threads, 8);

  facts = node(16, 2);
  facts.cgroup_cpu_limit = 5;
  auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 2);
  EXPECT_EQ(p.advice, "") << "the idle cores are not ours to use";
  facts.cgroup_cpu_limit = 0.5;
  EXPECT_EQ(decide_placement(facts).threads, 1);
  facts.cgroup_cpu_limit = 2;
  facts.threads_wanted = 4;
  facts.threads_wanted_by = "OMP_NUM_THREADS";
  p = decide_placement(facts);
  EXPECT_EQ(p.threads, 4);
  EXPECT_TRUE(says(p, "control group")) << p.advice;
}

TEST(Placement, MpirunsDefaultForOneRankIsWidened) {
  auto facts = node(8, 1);
  facts.masks = {{3}};
  facts.open_mpi = true;
  auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 8);
  EXPECT_EQ(p.cpus, range(0, 8));
  EXPECT_EQ(p.advice, "");

  auto keep = facts;
  keep.bind = false;
  EXPECT_EQ(decide_placement(keep).threads, 1);
  keep = facts;
  keep.threads_wanted = 1;
  keep.threads_wanted_by = "KEELSON_THREADS";
  EXPECT_TRUE(decide_placement(keep).cpus.empty());
  keep = facts;
  keep.open_mpi = false;  // taskset, or another launcher's word
  EXPECT_EQ(decide_placement(keep).threads, 1);
  EXPECT_TRUE(says(decide_placement(keep), "7 of 8 cores stay idle")) << decide_placement(keep).advice;
  keep = facts;
  keep.masks = {{2, 3}};  // --map-by slot:pe=2
  EXPECT_EQ(decide_placement(keep).threads, 2);
}

TEST(Placement, TwoRanksBoundToOneCoreEachAreToldOfTheOthers) {
  auto facts = node(8, 2);
  facts.masks = {{0}, {1}};
  facts.open_mpi = true;
  const auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 1);
  EXPECT_TRUE(says(p, "6 of 8 cores stay idle")) << p.advice;
  EXPECT_TRUE(says(p, "slot:pe=4")) << p.advice;
  facts.open_mpi = false;
  facts.slurm = true;
  EXPECT_TRUE(says(decide_placement(facts), "srun --cpus-per-task=4")) << decide_placement(facts).advice;
}

TEST(Placement, BindingCanBeForbidden) {
  auto facts = node(8, 2);
  facts.bind = false;
  auto p = decide_placement(facts);
  EXPECT_EQ(p.threads, 4);
  EXPECT_TRUE(p.cpus.empty());

  facts.bind = true;
  facts.openmp_binds = true;
  p = decide_placement(facts);
  EXPECT_TRUE(p.cpus.empty());
  EXPECT_TRUE(says(p, "OMP_PROC_BIND")) << p.advice;
}

TEST(Placement, FactsOfThisProcessLeadToSomethingThatRuns) {
  const auto self = make_self();
  const auto facts = placement_facts(*self);
  ASSERT_EQ(facts.masks.size(), 1u);
  EXPECT_FALSE(facts.masks[0].empty());
  EXPECT_GE(facts.node_cpus.size(), facts.masks[0].size());
  EXPECT_EQ(placement_facts(*self).masks, facts.masks) << "asking must not change the mask";
  auto placement = decide_placement(facts);
  EXPECT_GE(placement.threads, 1);
  placement.cpus = {facts.masks[0].front()};
  bind(placement);
  EXPECT_EQ(placement_facts(*self).masks[0], placement.cpus);
  placement.cpus = facts.masks[0];
  bind(placement);
  EXPECT_EQ(placement_facts(*self).masks, facts.masks);
}

TEST(Placement, RanksBoundToTheSameCoreAreTold) {
  for (int r = 0; r < 2; ++r) {
    PlacementFacts facts = node(2, 2, r);
    facts.slurm = true;
    facts.masks = {{0}, {0}};  // srun --cpu-bind=map_cpu:0,0
    const auto p = decide_placement(facts);
    EXPECT_EQ(p.threads, 1);
    EXPECT_EQ(p.busy_cores, 1);
    EXPECT_EQ(p.node_cores, 2);
    EXPECT_EQ(
        p.advice,
        "ranks 0, 1 of this node were bound to the same core (CPU 0) while 1 of 2 cores stay idle: bind each rank to "
        "cores of its own, e.g. srun --cpu-bind=cores");
  }
  PlacementFacts facts = node(4, 4, 0);
  facts.masks = {{0}, {2}, {2}, {3}};
  EXPECT_EQ(decide_placement(facts).busy_cores, 3);
  EXPECT_TRUE(says(decide_placement(facts), "ranks 1, 2 of this node were bound to the same core (CPU 2)"));
}

TEST(Placement, TwoHardwareThreadsAreOneCore) {
  PlacementFacts facts = node(2, 2, 0, 2);
  facts.masks = {{0}, {2}};
  EXPECT_EQ(decide_placement(facts).busy_cores, 1);
  EXPECT_TRUE(says(decide_placement(facts), "bound to the same core (CPU 0, 2) while 1 of 2 cores"));
}

TEST(Placement, IndependentRunsSideBySideHearNothingOfIdleCores) {
  PlacementFacts facts = node(2, 1);
  facts.masks = {{0}};
  facts.slurm = true;
  EXPECT_TRUE(says(decide_placement(facts), "1 of 2 cores stay idle"));
  facts.beside_others = true;  // KEELSON_MPI=off srun -n 2
  EXPECT_EQ(decide_placement(facts).advice, "");
}

TEST(Placement, DescribesItself) {
  Placement placement;
  placement.threads = 1;
  placement.cores = 1;
  placement.node_cores = 2;
  const auto self = make_self();
  EXPECT_EQ(describe(placement, *self), "1 rank on 1 node, 1 thread (1 of 2 cores)");
  EXPECT_EQ(describe(placement, *self, Computes::on_gpu), "1 rank on 1 node, 1 thread and 1 GPU (1 of 2 cores)");
  placement.threads = 2;
  placement.busy_cores = 2;
  placement.advice = "do this";
  EXPECT_EQ(describe(placement, *self), "1 rank on 1 node, 2 threads (2 of 2 cores); do this");
}

}  // namespace
}  // namespace keelson::comm
