#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <iostream>

#include "tests/insitu/simulation.hpp"

namespace {

/// What ranks above 0 say: failures only.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << keelson::testing::rank_of(MPI_COMM_WORLD) << ": "
              << (result.file_name() ? result.file_name() : "?") << ":" << result.line_number() << ": "
              << result.message() << std::endl;
  }
};

}  // namespace

/// MPI belongs to the host program, here as in simulations.
int main(int argc, char** argv) {
  setenv("KEELSON_WATCHDOG", "30", 0);
  setenv("KEELSON_TUNE", "off", 1);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  if (keelson::testing::rank_of(MPI_COMM_WORLD) != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
