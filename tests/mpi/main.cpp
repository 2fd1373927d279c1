#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "backends/registry.hpp"
#include "comm/communicators.hpp"
#include "tests/mpi/long_tests.hpp"
#include "tests/mpi/small_app.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

std::unique_ptr<Communicator> the_world;

/// What ranks above 0 say: failures only.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << the_world->rank() << ": " << (result.file_name() ? result.file_name() : "?") << ":"
              << result.line_number() << ": " << result.message() << std::endl;
  }
};

int run_tests() {
  const comm::MpiSession session;
  the_world = comm::make_world();
  if (the_world->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new LongTests(the_world->rank()));
  std::int64_t failed = 0;
  {
    const backends::Runtime runtime;
    failed = RUN_ALL_TESTS();
    release_contexts();
  }
  the_world->allreduce(&failed, 1, Reduction::max);
  the_world.reset();
  return static_cast<int>(failed);
}

}  // namespace

Communicator& world() { return *the_world; }

}  // namespace keelson::testing

/// `test_mpi --app ARGUMENTS` is a small program for tests/cli, which look at whole jobs and how they end.
int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--app") return keelson::testing::small_app(argc - 1, argv + 1);
  // A test that fails on one rank may leave the others waiting: not for ever.
  setenv("KEELSON_WATCHDOG", "30", 0);
  setenv("KEELSON_WATCHDOG_ABORT", "90", 0);
  unsetenv("KEELSON_COLLECTIVES");
  unsetenv("KEELSON_ALLREDUCE");
  setenv("KEELSON_TUNE", "off", 1);  // the same order of summation in all communicators
  ::testing::InitGoogleTest(&argc, argv);
  return keelson::testing::run_tests();
}
