#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::testing {

/// All ranks of this program: test_mpi runs at 1, 2 and 4 ranks, every test on all of them. Ends with the program.
Communicator& world();

/// Fixture of the tests in this folder. Every test is a collective call: use EXPECT_ rather than ASSERT_ where a
/// failing rank would leave the others waiting.
class MpiTest : public ::testing::Test {
 protected:
  void TearDown() override { world().barrier(); }
  int rank() const { return world().rank(); }
  int size() const { return world().size(); }
  /// The numbers of ranks that replicas can have, from two on.
  std::vector<int> spaces() const {
    std::vector<int> all;
    for (const int space : {2, 4})
      if (space <= size()) all.push_back(space);
    return all;
  }
};

}  // namespace keelson::testing

/// First line of a test that makes sense from `ranks` ranks on.
#define KEELSON_NEED_RANKS(ranks) \
  if (::keelson::testing::world().size() < (ranks)) GTEST_SKIP() << "needs " << (ranks) << " ranks"
