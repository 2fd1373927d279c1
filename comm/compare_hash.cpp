#include "comm/communicators.hpp"
#include "comm/detail/names.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm {

void compare_hash(Communicator& communicator, std::uint64_t hash, std::string_view what) {
  if (communicator.size() == 1) return;
  // The common case costs one small reduction: all hashes are equal exactly if the smallest equals the largest.
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
  refuse(
      "the ranks have different {}: {} from rank 0 ({}); start all ranks with the same program, options, environment "
      "and input",
      what, detail::name_ranks(different, hosts) + (different.size() == 1 ? " differs" : " differ"), hosts[0]);
}

}  // namespace keelson::comm
