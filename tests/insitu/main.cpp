#include <gtest/gtest.h>
#include <mpi.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "backends/registry.hpp"
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

std::string the_folder;

void make_folder() {
  long number = getpid();  // of rank 0
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  the_folder = (std::filesystem::temp_directory_path() / ("keelson-insitu-" + std::to_string(number))).string();
  std::filesystem::create_directories(the_folder);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

std::string keelson::testing::job_folder() { return the_folder; }

/// MPI belongs to the host program, here as in simulations. With --host-kokkos Kokkos does, too.
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
  make_folder();
  std::optional<keelson::backends::Runtime> kokkos;
  if (argc > 1 && std::strcmp(argv[1], "--host-kokkos") == 0) kokkos.emplace();
  int failed = RUN_ALL_TESTS();
  kokkos.reset();  // all sessions are closed
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (keelson::testing::rank_of(MPI_COMM_WORLD) == 0) std::filesystem::remove_all(the_folder);
  MPI_Finalize();
  return failed;
}
