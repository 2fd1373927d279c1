#include <gtest/gtest.h>

#include "backends/registry.hpp"
#include "tests/support/contexts.hpp"

/// One runtime for the whole program; contexts end before the runtime. Programs that need MPI have their own main().
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const keelson::backends::Runtime runtime;
  const int failed = RUN_ALL_TESTS();
  keelson::testing::release_contexts();
  return failed;
}
