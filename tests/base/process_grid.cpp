#include "engine/base/process_grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.hpp"

/// The numbers of a process grid, without MPI. tests/mpi/process_grid.cpp communicates.
namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;
using Axes = ProcessGrid::Axes;

/// The groups that ranks of the world have asked for: per group the key of each rank. A group is named by the colors
/// that lead to it.
using SplitGroups = std::map<std::string, std::map<int, int>>;

/// One rank of a world that notes how groups are split.
class SplitRank final : public Communicator {
 public:
  SplitRank(int world_rank, RankInfo info, std::string path, SplitGroups& groups)
      : world_rank_(world_rank), info_(std::move(info)), path_(std::move(path)), groups_(groups) {}
  const RankInfo& info() const override { return info_; }
  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::string path = path_ + "/" + std::to_string(color);
    groups_[path][world_rank_] = key;
    RankInfo info;
    info.size = 2;  // more than one
    return std::make_unique<SplitRank>(world_rank_, info, path, groups_);
  }
  void barrier() override {}
  void broadcast(void*, std::size_t, int) override {}
  void reduce(void*, Number, std::size_t, Reduction) override {}  // all ranks have the same
  std::vector<std::string> allgather(const std::string& text) override { return {text}; }
  std::vector<float> gather(const std::vector<float>& mine, int) override { return mine; }

 private:
  std::unique_ptr<Collective> implement(const CollectiveDesc&) override { return nullptr; }
  int world_rank_;
  RankInfo info_;
  std::string path_;
  SplitGroups& groups_;
};

/// The groups of along(axes, size) on a grid: the ranks of the world in each, in the order of the group.
std::vector<std::vector<int>> groups_along(const ProcessGrid::Extents& extents, int ranks, Axes axes, int size) {
  SplitGroups groups;  // those that the grid's constructor has not made
  for (int r = 0; r < ranks; ++r) {
    RankInfo info;
    info.rank = r;
    info.size = ranks;
    SplitGroups of_rank;
    SplitRank world(r, info, "world", of_rank);
    const ProcessGrid grid(world, extents);
    of_rank.clear();
    (void)grid.along(axes, size);
    for (const auto& [path, keys] : of_rank) groups[path].insert(keys.begin(), keys.end());
  }
  std::vector<std::vector<int>> result;
  for (const auto& [path, keys] : groups) {
    std::map<int, int> by_key;
    for (const auto& [rank, key] : keys) by_key[key] = rank;
    auto& members = result.emplace_back();
    for (const auto& [key, rank] : by_key) members.push_back(rank);
  }
  std::sort(result.begin(), result.end());
  return result;
}

TEST(ProcessGrid, GroupsOverSeveralAxesVaryTheFirstAxisFastest) {
  // channel 2 x space 2 x data 2: rank = channel + 2 space + 4 data
  const ProcessGrid::Extents cube{.data = 2, .space = 2, .channel = 2};
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(groups_along(cube, 8, {Axis::data, Axis::space}, 0), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups_along(cube, 8, {Axis::space, Axis::data}, 0), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups_along(cube, 8, {Axis::channel, Axis::data}, 0), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(groups_along(cube, 8, {Axis::channel, Axis::space}, 0), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups_along(cube, 8, {Axis::stage, Axis::channel, Axis::space}, 0), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(ProcessGrid, CutsSeveralAxesIntoGroupsOfNeighboursAlongTheLast) {
  // space 2 x data 3 in groups of two coordinates of data: the last group has one
  const ProcessGrid::Extents extents{.data = 3, .space = 2};
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(groups_along(extents, 6, {Axis::data, Axis::space}, 2), (Groups{{0, 1, 2, 3}, {4, 5}}));
}

TEST(ProcessGrid, FindsGroupsThatAreThere) {
  SplitGroups groups;
  RankInfo info;
  info.rank = 5;
  info.size = 8;
  SplitRank world(5, info, "", groups);
  const ProcessGrid grid(world, {.data = 2, .space = 2, .channel = 2});
  Communicator* const space = grid.along(Axis::space);
  EXPECT_NE(space, nullptr);
  EXPECT_EQ(grid.along({Axis::space, Axis::stage}), space) << "an axis of one rank adds none";
  EXPECT_EQ(grid.along({Axis::space, Axis::data}, 1), space) << "one coordinate of data";
  EXPECT_EQ(grid.along({Axis::space, Axis::data}), grid.along({Axis::data, Axis::space}, 2));
  EXPECT_EQ(grid.along({Axis::space, Axis::data, Axis::channel}), &world);
  EXPECT_EQ(grid.along({Axis::stage, Axis::ensemble}), nullptr);
  EXPECT_EQ(grid.along(Axes{}), nullptr);
  EXPECT_THROW((void)grid.along({Axis::space, Axis::data}, -1), Error);
}

TEST(ProcessGrid, CountsRanksAlongSeveralAxes) {
  const ProcessGrid grid({.data = 3, .space = 4, .stage = 2}, 0);
  EXPECT_EQ(grid.extent(Axis::space), 4);
  EXPECT_EQ(grid.extent({Axis::space, Axis::data}), 12);
  EXPECT_EQ(grid.extent({Axis::space, Axis::data, Axis::stage, Axis::ensemble}), 24);
  EXPECT_EQ(grid.extent(Axes{}), 1);
  EXPECT_EQ(ProcessGrid::to_string({Axis::space, Axis::data}), "data and space");
  EXPECT_EQ(ProcessGrid::to_string(Axis::stage), "stage");
}

TEST(ProcessGrid, WithoutACommunicatorHasCoordinatesAlone) {
  const ProcessGrid grid({.data = 2, .space = 4}, 6);
  EXPECT_FALSE(grid.has_ranks());
  EXPECT_EQ(grid.describe(), "data 2 x space 4");
  EXPECT_EQ(grid.coordinate(Axis::space), 2);
  EXPECT_EQ(grid.coordinate(Axis::data), 1);
  EXPECT_EQ(grid.neighbor(Axis::space, 1), 3);
  EXPECT_EQ(grid.along(Axis::stage), nullptr) << "this rank is alone, with or without a communicator";
  EXPECT_THROW((void)grid.along(Axis::space), Error);
  EXPECT_THROW((void)grid.world(), Error);
}

TEST(ProcessGrid, WithoutACommunicatorRefusesWhatNoGridHas) {
  const auto refusal = [](const ProcessGrid::Extents& extents, int rank) -> std::string {
    try {
      return "accepted " + ProcessGrid(extents, rank).describe();
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal({.data = 2, .space = 2}, 3), "accepted data 2 x space 2");
  EXPECT_NE(refusal({.data = 2, .space = 2}, 4).find("there is no rank 4; give a rank from 0 to 3"), std::string::npos);
  EXPECT_NE(refusal({.data = 2, .space = 2}, -1).find("there is no rank -1"), std::string::npos);
  EXPECT_EQ(refusal({.space = 2}, 0), "process grid: 0 ranks along the axis data; expected 1 or more");
  EXPECT_NE(refusal({.data = 2'000'000'000, .space = 2'000'000'000, .channel = 2'000'000'000}, 0).find("no rank 0"),
            std::string::npos);
}

TEST(ProcessGrid, ReadsItsOwnWords) {
  for (const ProcessGrid::Extents& e :
       {ProcessGrid::Extents{.data = 4}, ProcessGrid::Extents{.data = 2, .space = 3},
        ProcessGrid::Extents{.data = 2, .space = 8, .columns = 2},
        ProcessGrid::Extents{.data = 1, .space = 2, .channel = 3, .stage = 4, .ensemble = 5}}) {
    const std::string text = ProcessGrid(e, 0).describe();
    EXPECT_EQ(ProcessGrid(ProcessGrid::parse(text), 0).describe(), text);
  }
  EXPECT_EQ(ProcessGrid::parse("space 4").data, 0) << "what the others leave";
  EXPECT_EQ(ProcessGrid::parse(" space  2 x data 3 ").space, 2);
  const ProcessGrid blocks(ProcessGrid::parse("data 3 x space 4x2"), 0);
  EXPECT_EQ(blocks.extent(Axis::space), 8);
  EXPECT_EQ(blocks.rows(), 4);
  EXPECT_EQ(blocks.columns(), 2);
}

TEST(ProcessGrid, RefusesOtherWords) {
  const std::pair<const char*, const char*> cases[] = {{"", "there is no axis"},
                                                       {"4x2", "4x2 is no axis"},
                                                       {"data", "missing"},
                                                       {"data 0", "not 1 or more"},
                                                       {"data 2 x", "ends behind an x"},
                                                       {"data 2 space 2", "where an x should"},
                                                       {"data 2 x data 2", "twice"},
                                                       {"data two", "not 1 or more"},
                                                       {"data 99999999999", "not 1 or more"},
                                                       {"data 2 x depth 2", "depth is no axis"},
                                                       {"space 4x", "4x parts of a sample"},
                                                       {"space 1x4", "at least 2 along the first"},
                                                       {"data 2x2", "not 1 or more"}};
  for (const auto& [text, says] : cases) {
    try {
      ProcessGrid::parse(text);
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace keelson::testing
