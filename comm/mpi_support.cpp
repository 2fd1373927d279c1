#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "comm/detail/mpi_support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {
std::atomic<bool> unfinished{false};
}

void check(int code, const char* call, std::string_view label) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const std::string about = label.empty() ? "" : fmt::format(" ({})", label);
  fail("{}{} failed: {}", call, about, std::string_view(text, static_cast<std::size_t>(length)));
}

bool mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized) MPI_Finalized(&finalized);
  return initialized && !finalized;
}

void end_job(int exit_code) {
  std::fflush(nullptr);
  // Open MPI's mpirun ends the others when one process leaves with an error, and says less about it than MPI_Abort. Not
  // so in its fault-tolerant mode, nor other launchers.
  const bool mpirun =
      std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr && std::getenv("OMPI_MCA_mpi_ft_enable") == nullptr;
  if (mpi_running() && (!mpirun || exit_code == 0)) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

void leave_unfinished() { unfinished = true; }
bool left_unfinished() { return unfinished; }

}  // namespace keelson::comm::detail
