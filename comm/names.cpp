#include "comm/detail/names.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace keelson::comm::detail {

std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), most);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", ranks[i], hosts.at(static_cast<std::size_t>(ranks[i])));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown host";
  return name;
}

}  // namespace keelson::comm::detail
