#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // Open MPI's extensions
#endif

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "comm/detail/transport.hpp"

namespace keelson::comm::detail {
namespace {

namespace otherwise {
/// The answer of an MPI without this extension: where there is one, overload resolution prefers the plain function.
template <class = void>
int MPIX_Query_cuda_support() {
  return 0;
}
}  // namespace otherwise

}  // namespace

bool mpi_knows_cuda() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  // Cray's has it, but only on request.
  if (std::string_view(version.data(), static_cast<std::size_t>(length)).find("CRAY") != std::string_view::npos) {
    const char* enabled = std::getenv("MPICH_GPU_SUPPORT_ENABLED");
    return enabled != nullptr && std::string_view(enabled) == "1";
  }
  using namespace otherwise;
  return MPIX_Query_cuda_support() > 0;
}

}  // namespace keelson::comm::detail
