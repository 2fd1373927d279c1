#include "engine/train/run_times.hpp"

#include <algorithm>
#include <numeric>

namespace keelson {

std::string_view to_string(TimePart part) {
  constexpr std::array<std::string_view, time_parts> names{"compute",
                                                           "exposed communication",
                                                           "waiting for slower ranks",
                                                           "input: reading",
                                                           "input: decoding",
                                                           "input: from other ranks",
                                                           "copy",
                                                           "validation",
                                                           "checkpoints",
                                                           "changes of the network",
                                                           "other"};
  return names[static_cast<std::size_t>(part)];
}

RunTimes gather_run_times(std::array<double, time_parts> mine, double wall, Communicator& ranks) {
  double& other = mine[static_cast<std::size_t>(TimePart::other)];
  other = 0;
  other = std::max(0.0, wall - std::accumulate(mine.begin(), mine.end(), 0.0));
  const auto all = ranks.gather({mine.begin(), mine.end()}, 0);
  const auto numbers = ranks.gather({static_cast<float>(ranks.number())}, 0);
  const auto hosts = ranks.allgather(ranks.host());
  RunTimes times;
  times.ranks = ranks.size();
  if (ranks.rank() != 0) return times;
  for (std::size_t p = 0; p < time_parts; ++p) {
    RunTimes::Spread& s = times.parts[p];
    s.least = s.most = all[p];
    for (int r = 0; r < ranks.size(); ++r) {
      const double seconds = all[static_cast<std::size_t>(r) * time_parts + p];
      s.mean += seconds / ranks.size();
      if (seconds < s.least) s.least = seconds, s.least_rank = r;
      if (seconds > s.most) s.most = seconds, s.most_rank = r;
    }
    s.most_host = hosts[static_cast<std::size_t>(s.most_rank)];
    for (int* rank : {&s.least_rank, &s.most_rank}) *rank = static_cast<int>(numbers[static_cast<std::size_t>(*rank)]);
    times.seconds += s.mean;
  }
  return times;
}

double WaitSplit::communication(Communicator& ranks) const {
  std::vector<double> least(waits_.begin(), waits_.end());
  ranks.allreduce(least.data(), least.size(), Reduction::min);
  return std::accumulate(least.begin(), least.end(), 0.0);
}

}  // namespace keelson
