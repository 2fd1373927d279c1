#include <algorithm>
#include <numeric>
#include <string>

#include "comm/mpi/support.hpp"
#include "comm/mpi/ulfm.hpp"
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

std::vector<int> translate_ranks(MPI_Comm from, MPI_Comm to) {
  int size = 0;
  MPI_Comm_size(from, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size)), translated(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group a = MPI_GROUP_NULL, b = MPI_GROUP_NULL;
  MPI_Comm_group(from, &a);
  MPI_Comm_group(to, &b);
  MPI_Group_translate_ranks(a, size, ranks.data(), b, translated.data());
  MPI_Group_free(&a);
  MPI_Group_free(&b);
  return translated;
}

int highest_tag(MPI_Comm comm) {
  int* most = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&most), &found), "MPI_Comm_get_attr", "MPI_TAG_UB");
  return found ? *most : 32767;
}

std::vector<std::string> names_of(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const auto& [number, host] : members) names.push_back(fmt::format("{} ({})", number, host));
  return names;
}

}  // namespace keelson::comm::detail
