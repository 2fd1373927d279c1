#include <algorithm>
#include <string>

#include "comm/detail/mpi_support.hpp"
#include "comm/detail/ulfm.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"

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

std::vector<Member> gather_members(MPI_Comm comm, int number) {
  struct Sent {
    int number;
    char host[60];
  } mine{number, ""};
  const std::string host = host_name();
  std::copy_n(host.data(), std::min(host.size(), sizeof mine.host - 1), mine.host);
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<Sent> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm), "MPI_Allgather",
        "names of ranks");
  std::vector<Member> members;
  for (const Sent& sent : all) members.push_back({sent.number, sent.host});
  return members;
}

std::vector<std::string> names_of(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const auto& [number, host] : members) names.push_back(fmt::format("{} ({})", number, host));
  return names;
}

}  // namespace keelson::comm::detail
