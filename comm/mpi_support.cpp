#include <string>

#include "comm/detail/mpi_support.hpp"
#include "comm/detail/ulfm.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
void check(int code, const char* call, std::string_view label) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const std::string about = label.empty() ? "" : fmt::format(" ({})", label);
  if (ulfm::is_loss(code))
    throw RanksLost(
        fmt::format("{}{} failed: {}", call, about, std::string_view(text, static_cast<std::size_t>(length))));
  fail("{}{} failed: {}", call, about, std::string_view(text, static_cast<std::size_t>(length)));
}

bool mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized) MPI_Finalized(&finalized);
  return initialized && !finalized;
}

}  // namespace keelson::comm::detail
