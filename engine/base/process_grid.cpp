#include "engine/base/process_grid.hpp"

#include <map>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {

using Axis = ProcessGrid::Axis;

namespace {

std::string describe_extents(const std::array<int, ProcessGrid::axes.size()>& extents) {
  std::string text = fmt::format("data {}", extents[static_cast<std::size_t>(Axis::data)]);
  for (const Axis axis : {Axis::space, Axis::channel, Axis::stage, Axis::ensemble})
    if (const int n = extents[static_cast<std::size_t>(axis)]; n != 1)
      text += fmt::format(" x {} {}", ProcessGrid::name(axis), n);
  return text;
}

}  // namespace

const char* ProcessGrid::name(Axis axis) {
  constexpr std::array names{"channel", "space", "data", "stage", "ensemble"};
  return names[index(axis)];
}

ProcessGrid::ProcessGrid(Communicator& world, const Extents& extents)
    : world_(&world), extents_{extents.channel, extents.space, extents.data, extents.stage, extents.ensemble} {
  // First, so that all ranks throw if a rank has another grid.
  std::map<std::string, std::string> values;
  for (const Axis axis : axes) values[name(axis)] = std::to_string(extent(axis));
  compare_values(world, values, "process grids");

  int& data = extents_[index(Axis::data)];
  std::int64_t others = 1;
  for (const Axis axis : axes) {
    if (axis == Axis::data && data == 0) continue;
    if (extent(axis) < 1)
      refuse("process grid: {} ranks along the axis {}; expected 1 or more{}", extent(axis), name(axis),
             axis == Axis::data ? ", or 0 for all ranks that the other axes leave" : "");
    if (axis != Axis::data && others <= INT32_MAX) others *= extent(axis);
  }
  if (data == 0 && world.size() % others == 0) data = static_cast<int>(world.size() / others);
  if (data == 0 || others * data != world.size())
    refuse("process grid {}: the job has {}, but the grid needs {}{}; start as many ranks, or change the grid",
           describe_extents(extents_), counted(world.size(), "rank"), data == 0 ? "a multiple of " : "",
           others * (data == 0 ? 1 : data));

  int stride = 1;  // distance between neighbouring ranks along the axis
  for (const Axis axis : axes) {
    const std::size_t a = index(axis);
    coordinates_[a] = world.rank() / stride % extents_[a];
    if (extents_[a] == world.size() && extents_[a] > 1) {
      groups_[a] = &world;
    } else if (extents_[a] > 1) {
      owned_[a] = world.split(world.rank() - coordinates_[a] * stride, coordinates_[a]);
      groups_[a] = owned_[a].get();
    }
    stride *= extents_[a];
  }
}

Communicator* ProcessGrid::along(Axis axis, int size) const {
  if (size < 0) fail("groups of {} ranks along the axis {}: expected 0 or more", size, name(axis));
  Communicator* all = along(axis);
  if (size == 0 || size >= extent(axis)) return all;
  if (size == 1) return nullptr;
  auto [entry, fresh] = neighbors_.try_emplace({axis, size});
  if (fresh) entry->second = all->split(coordinate(axis) / size, coordinate(axis));
  return entry->second->size() > 1 ? entry->second.get() : nullptr;
}

int ProcessGrid::neighbor(Axis axis, int distance, bool periodic) const {
  const std::int64_t n = extent(axis), at = std::int64_t{coordinate(axis)} + distance;
  if (periodic) return static_cast<int>((at % n + n) % n);
  return at < 0 || at >= n ? -1 : static_cast<int>(at);
}

std::string ProcessGrid::describe() const { return describe_extents(extents_); }

}  // namespace keelson
