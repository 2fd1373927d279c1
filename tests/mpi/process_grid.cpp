#include "engine/base/process_grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;

class ProcessGridTest : public MpiTest {
 protected:
  /// The ranks of the world along an axis of this rank, in the group's order.
  static std::vector<int> members(const ProcessGrid& grid, ProcessGrid::Axes axes) {
    std::vector<int> ranks;
    for (const auto& text : grid.along(axes)->allgather(std::to_string(world().rank())))
      ranks.push_back(std::stoi(text));
    return ranks;
  }
  static std::string refusal(const ProcessGrid::Extents& extents) {
    try {
      const ProcessGrid grid(world(), extents);
      return "accepted " + grid.describe();
    } catch (const InputError& error) {
      return error.what();
    }
  }
};

TEST_F(ProcessGridTest, IsAllDataByDefault) {
  const ProcessGrid grid(world());
  EXPECT_EQ(grid.extent(Axis::data), size());
  EXPECT_EQ(grid.coordinate(Axis::data), rank());
  EXPECT_EQ(grid.along(Axis::data), size() > 1 ? &world() : nullptr) << "the world itself will do";
  for (const Axis axis : {Axis::space, Axis::channel, Axis::stage, Axis::ensemble}) {
    EXPECT_EQ(grid.extent(axis), 1);
    EXPECT_EQ(grid.coordinate(axis), 0);
    EXPECT_EQ(grid.along(axis), nullptr);
    EXPECT_EQ(grid.neighbor(axis, 1), -1);
    EXPECT_EQ(grid.neighbor(axis, 1, true), 0);
  }
  EXPECT_EQ(grid.describe(), "data " + std::to_string(size()));
}

TEST_F(ProcessGridTest, TwoByTwo) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid grid(world(), {.space = 2});
  EXPECT_EQ(grid.describe(), "data 2 x space 2");
  EXPECT_EQ(grid.coordinate(Axis::space), rank() % 2) << "space varies faster than data";
  EXPECT_EQ(grid.coordinate(Axis::data), rank() / 2);
  const int row = rank() / 2 * 2, column = rank() % 2;
  EXPECT_EQ(members(grid, Axis::space), (std::vector{row, row + 1}));
  EXPECT_EQ(members(grid, Axis::data), (std::vector{column, column + 2}));
  EXPECT_EQ(grid.along(Axis::stage), nullptr);
  EXPECT_EQ(grid.along({Axis::data, Axis::space}), &world());
  EXPECT_EQ(members(grid, {Axis::data, Axis::space}), (std::vector{0, 1, 2, 3}));

  EXPECT_EQ(grid.neighbor(Axis::space, 1), column == 0 ? 1 : -1);
  EXPECT_EQ(grid.neighbor(Axis::space, -1), column == 0 ? -1 : 0);
  EXPECT_EQ(grid.neighbor(Axis::space, -3, true), 1 - column);

  // A halo of one number, and a sum over the other axis beside it.
  Communicator& space = *grid.along(Axis::space);
  const float edge = static_cast<float>(rank());
  float halo = -1, sum = edge;
  const auto send = space.make_send(&edge, sizeof edge, grid.neighbor(Axis::space, 1), "edge");
  const auto receive = space.make_receive(&halo, sizeof halo, grid.neighbor(Axis::space, -1), "halo");
  const auto total = grid.along(Axis::data)->make_allreduce(&sum, 1, "sum");
  for (Collective* c : {send.get(), receive.get(), total.get()}) c->start();
  for (Collective* c : {total.get(), receive.get(), send.get()}) c->wait();
  EXPECT_EQ(halo, static_cast<float>(column == 0 ? -1 : row));
  EXPECT_EQ(sum, static_cast<float>(column + column + 2));
}

TEST_F(ProcessGridTest, OneAxisOfAllRanks) {
  KEELSON_NEED_RANKS(4);
  for (const Axis axis : ProcessGrid::axes) {
    ProcessGrid::Extents extents{.data = axis == Axis::data ? 4 : 1};
    if (axis == Axis::space) extents.space = 4;
    if (axis == Axis::channel) extents.channel = 4;
    if (axis == Axis::stage) extents.stage = 4;
    if (axis == Axis::ensemble) extents.ensemble = 4;
    const ProcessGrid grid(world(), extents);
    for (const Axis other : ProcessGrid::axes) {
      EXPECT_EQ(grid.extent(other), other == axis ? 4 : 1);
      EXPECT_EQ(grid.coordinate(other), other == axis ? rank() : 0);
      EXPECT_EQ(grid.along(other), other == axis ? &world() : nullptr);
    }
    EXPECT_EQ(grid.neighbor(axis, 1), rank() == 3 ? -1 : rank() + 1);
  }
}

TEST_F(ProcessGridTest, VariesEnsemblesSlowestAndChannelsFastest) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid grid(world(), {.channel = 2, .ensemble = 2});
  EXPECT_EQ(grid.coordinate(Axis::channel), rank() % 2);
  EXPECT_EQ(grid.coordinate(Axis::ensemble), rank() / 2);
  EXPECT_EQ(grid.describe(), "data 1 x channel 2 x ensemble 2");
  const ProcessGrid pipeline(world(), {.data = 2, .stage = 2});
  EXPECT_EQ(pipeline.coordinate(Axis::data), rank() % 2);
  EXPECT_EQ(pipeline.coordinate(Axis::stage), rank() / 2);
}

TEST_F(ProcessGridTest, CutsAnAxisIntoGroupsOfNeighbors) {
  const ProcessGrid grid(world());
  EXPECT_EQ(grid.along(Axis::data, 0), grid.along(Axis::data));
  EXPECT_EQ(grid.along(Axis::data, size()), grid.along(Axis::data));
  EXPECT_EQ(grid.along(Axis::data, size() + 1), grid.along(Axis::data));
  EXPECT_EQ(grid.along(Axis::data, 1), size() > 1 ? nullptr : grid.along(Axis::data));
  EXPECT_EQ(grid.along(Axis::space, 2), nullptr);
  for (const int n : {2, 3}) {
    if (n >= size()) continue;
    Communicator* group = grid.along(Axis::data, n);
    EXPECT_EQ(grid.along(Axis::data, n), group) << "made once";
    const int first = rank() / n * n, members = std::min(n, size() - first);
    EXPECT_EQ(group == nullptr, members == 1) << "the last of 4 ranks in groups of 3 is alone";
    if (!group) continue;
    EXPECT_EQ(group->size(), members);
    EXPECT_EQ(group->rank(), rank() - first);
    double sum = rank();
    group->allreduce(&sum, 1, Reduction::sum);
    EXPECT_EQ(sum, members * first + members * (members - 1) / 2);
  }
}

TEST_F(ProcessGridTest, CutsTheRanksOfAnAxisThatIsAPartOfTheWorld) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid grid(world(), {.space = 2});
  EXPECT_EQ(grid.along(Axis::data, 1), nullptr);
  EXPECT_EQ(grid.along(Axis::data, 2), grid.along(Axis::data));
  EXPECT_EQ(grid.along(Axis::space, 1), nullptr);
}

TEST_F(ProcessGridTest, GroupsOverSeveralAxes) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid slow(world(), {.data = 2, .stage = 2});  // the axes of the group do not begin the order
  EXPECT_EQ(slow.along({Axis::data, Axis::stage}), &world());
  EXPECT_EQ(slow.along({Axis::space, Axis::stage}), slow.along(Axis::stage));
  const ProcessGrid grid(world(), {.space = 2});
  EXPECT_EQ(grid.along({Axis::data, Axis::space}, 1), grid.along(Axis::space));
  EXPECT_EQ(grid.along({Axis::data, Axis::space}, 2), &world());
}

TEST_F(ProcessGridTest, RefusesGridsThatDoNotFit) {
  const std::string has = size() == 1 ? "the job has 1 rank" : "the job has " + std::to_string(size()) + " ranks";
  EXPECT_EQ(refusal({.data = 2, .space = 3}), "process grid data 2 x space 3: " + has +
                                                  ", but the grid needs 6; start as many ranks, or change the grid");
  EXPECT_EQ(refusal({.stage = 3}), "process grid data 0 x stage 3: " + has +
                                       ", but the grid needs a multiple of 3; start as many ranks, or change the grid");
  EXPECT_EQ(refusal({.channel = 0}), "process grid: 0 ranks along the axis channel; expected 1 or more");
  EXPECT_EQ(refusal({.data = -1}),
            "process grid: -1 ranks along the axis data; expected 1 or more, or 0 for all ranks "
            "that the other axes leave");
  EXPECT_NE(refusal({.data = 2000000000, .space = 2000000000, .channel = 2000000000}).find(has), std::string::npos);
}

TEST_F(ProcessGridTest, RefusesGridsThatDiffer) {
  KEELSON_NEED_RANKS(2);
  const std::string text = refusal({.ensemble = rank() == 0 ? size() : 1});
  EXPECT_NE(text.find("the ranks have different process grids: ensemble is "), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson::testing
