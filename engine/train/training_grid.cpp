#include "engine/train/training_grid.hpp"

#include <fmt/ranges.h>

#include <vector>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson {

std::string options_of(const ProcessGrid::Extents& replica) {
  std::vector<std::string> options;
  if (replica.columns > 1)
    options.push_back(fmt::format("--spatial {}x{}", replica.space / replica.columns, replica.columns));
  else if (replica.space > 1)
    options.push_back(fmt::format("--spatial {}", replica.space));
  if (replica.channel > 1) options.push_back(fmt::format("--channel-parallel {}", replica.channel));
  if (replica.stage > 1) options.push_back(fmt::format("--stages {}", replica.stage));
  return fmt::format("{}", fmt::join(options, ", "));
}

ProcessGrid::Extents training_extents(int ranks, const ProcessGrid::Extents& replica) {
  if (replica.ensemble != 1)
    refuse("a grid with {} along ensemble: training and evaluation have one network. Leave this axis out",
           counted(replica.ensemble, "rank"));
  if (replica.space < 1 || replica.channel < 1 || replica.stage < 1)
    refuse("a replica with {} parts of samples, {} parts of channels and {} stages: expected 1 or more of each",
           replica.space, replica.channel, replica.stage);
  if (const int size = ranks_of(replica); ranks % size != 0)
    refuse("{}, but a replica has {} ({}): start a multiple of {} ranks, or change the replica", counted(ranks, "rank"),
           size, options_of(replica), size);
  ProcessGrid::Extents extents = replica;
  extents.data = ranks / ranks_of(replica);
  return extents;
}

ProcessGrid training_grid(const Communicator* ranks, const ProcessGrid::Extents& replica) {
  return {training_extents(ranks ? ranks->size() : 1, replica), ranks ? ranks->rank() : 0};
}

}  // namespace keelson
