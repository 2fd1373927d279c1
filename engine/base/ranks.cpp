#include "engine/base/ranks.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {

std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), most);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", ranks[i], hosts.at(static_cast<std::size_t>(ranks[i])));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

void compare_hash(Communicator& communicator, std::uint64_t hash, std::string_view what, std::string_view advice) {
  if (communicator.size() == 1) return;
  // All are equal exactly if the largest is the smallest; ~ turns the order round.
  std::int64_t range[2] = {static_cast<std::int64_t>(hash), ~static_cast<std::int64_t>(hash)};
  communicator.allreduce(range, 2, Reduction::max);
  if (range[0] == ~range[1]) return;

  const auto told = communicator.allgather(fmt::format("{:016x}{}", hash, communicator.host()));
  std::vector<std::string> hosts;
  std::vector<int> different;
  for (std::size_t r = 0; r < told.size(); ++r) {
    hosts.push_back(told[r].substr(16));
    if (told[r].compare(0, 16, told[0], 0, 16) != 0) different.push_back(static_cast<int>(r));
  }
  refuse("the ranks have different {}: {} {} from {}; {}", what, name_ranks(different, hosts),
         different.size() == 1 ? "differs" : "differ", name_ranks({0}, hosts), advice);
}

}  // namespace keelson
