#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/process.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/stage/detail/stage_places.hpp"

namespace keelson::detail {
namespace {

namespace fs = std::filesystem;

void make_target(const std::string& target) {
  if (target.empty()) refuse("the folder to stage to has an empty name. Expected a folder on the node's own disk");
  std::error_code error;
  fs::create_directories(target, error);
  if (error || !fs::is_directory(target))
    refuse("{}: cannot be made: {}. Expected a folder on a disk of the node, or on a burst buffer, that can be written",
           target, error ? error.message() : "it is no folder");
}

void write_marker(const std::string& path) {
  if (!std::ofstream(path).flush())
    refuse("{}: cannot be written: {}. Expected a folder to stage to that can be written",
           fs::path(path).parent_path().string(), std::strerror(errno));
}

/// The lowest rank whose marker is in the folder.
int lowest_marker(const std::string& target, const std::string& prefix) {
  int lowest = -1;
  for (const auto& entry : fs::directory_iterator(target)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto rank = parse_number<int>(name.substr(prefix.size()));
    if (rank && (lowest < 0 || *rank < lowest)) lowest = *rank;
  }
  return lowest;
}

/// For each rank, the lowest rank that sees the same folder.
std::vector<int> first_ranks(const std::string& target, Communicator& world) {
  const auto me = static_cast<std::size_t>(world.rank());
  const auto folders =
      world.allgather(std::to_string(world.node()) + " " + fs::weakly_canonical(fs::absolute(target)).string());
  std::vector<std::size_t> speakers;  // for each rank, the lowest one of its node with the same folder
  for (const auto& folder : folders)
    speakers.push_back(static_cast<std::size_t>(std::ranges::find(folders, folder) - folders.begin()));
  const bool speaks = speakers[me] == me;
  // The token keeps the markers of two jobs in one folder apart.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const auto token = world.allgather(world.rank() == 0 ? fmt::format("{}-{}", Process::current().number, now) : "")[0];
  const auto prefix = fmt::format(".keelson-place-{}-", token);
  const auto marker = fmt::format("{}/{}{}", target, prefix, me);
  on_each_rank(&world, [&] {
    if (speaks) write_marker(marker);
  });
  const auto found = world.allgather(speaks ? std::to_string(lowest_marker(target, prefix)) : "");
  if (speaks) fs::remove(marker);
  std::vector<int> firsts;
  for (const auto speaker : speakers) firsts.push_back(parse_number<int>(found[speaker]).value_or(-1));
  KEELSON_EXPECT(std::ranges::min(firsts) >= 0);
  return firsts;
}

}  // namespace

StagePlaces find_stage_places(const std::string& target, Communicator* world) {
  on_each_rank(world, [&] { make_target(target); });
  StagePlaces p;
  if (!world || world->size() == 1) return p;
  const auto firsts = first_ranks(target, *world);
  const auto me = static_cast<std::size_t>(world->rank());
  const std::set<int> leaders(firsts.begin(), firsts.end());
  p.places = static_cast<int>(leaders.size());
  p.place = static_cast<int>(std::distance(leaders.begin(), leaders.find(firsts[me])));
  p.first = firsts[me] == world->rank();
  p.members = world->split(p.place, world->rank());
  std::int64_t lanes = p.members->size();
  world->allreduce(&lanes, 1, Reduction::min);
  p.lanes = static_cast<int>(lanes);
  p.lane = p.members->rank() < p.lanes ? p.members->rank() : -1;
  p.peers = world->split(p.lane, p.place);
  return p;
}

}  // namespace keelson::detail
