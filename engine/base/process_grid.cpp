#include "engine/base/process_grid.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {

using Axis = ProcessGrid::Axis;

namespace {

std::string describe_extents(const std::array<int, ProcessGrid::axes.size()>& extents, int columns = 1) {
  std::string text = fmt::format("data {}", extents[static_cast<std::size_t>(Axis::data)]);
  for (const Axis axis : {Axis::space, Axis::channel, Axis::stage, Axis::ensemble})
    if (const int n = extents[static_cast<std::size_t>(axis)]; n != 1)
      text += axis == Axis::space && columns != 1 ? fmt::format(" x space {}x{}", n / columns, columns)
                                                  : fmt::format(" x {} {}", ProcessGrid::name(axis), n);
  return text;
}

}  // namespace

const char* ProcessGrid::name(Axis axis) {
  constexpr std::array names{"channel", "space", "data", "stage", "ensemble"};
  return names[index(axis)];
}

std::string ProcessGrid::to_string(Axes of) {
  std::string text;
  for (const Axis axis : {Axis::data, Axis::space, Axis::channel, Axis::stage, Axis::ensemble})
    if (of.contains(axis)) text += (text.empty() ? "" : " and ") + std::string(name(axis));
  return text;
}

ProcessGrid::ProcessGrid(Communicator& world, const Extents& extents)
    : world_(&world),
      columns_(extents.columns),
      extents_{extents.channel, extents.space, extents.data, extents.stage, extents.ensemble} {
  // First, so that all ranks throw if a rank has another grid.
  std::map<std::string, std::string> values;
  for (const Axis axis : axes) values[name(axis)] = std::to_string(extent(axis));
  values["columns"] = std::to_string(columns_);
  compare_values(world, values, "process grids");

  const std::int64_t others = other_extents(true);
  int& data = extents_[index(Axis::data)];
  if (data == 0 && world.size() % others == 0) data = static_cast<int>(world.size() / others);
  if (data == 0 || others * data != world.size())
    refuse("process grid {}: the job has {}, but the grid needs {}{}; start as many ranks, or change the grid",
           describe_extents(extents_), counted(world.size(), "rank"), data == 0 ? "a multiple of " : "",
           others * (data == 0 ? 1 : data));
  place(world.rank());
  for (const Axis axis : axes) along(axis);
}

ProcessGrid::ProcessGrid(const Extents& extents, int rank)
    : columns_(extents.columns),
      extents_{extents.channel, extents.space, extents.data, extents.stage, extents.ensemble} {
  const std::int64_t ranks = other_extents(false) * extents.data;
  if (rank < 0 || rank >= ranks || ranks > INT32_MAX)
    refuse("process grid {}: there is no rank {}; give a rank from 0 to {}, and a grid of at most {} ranks",
           describe_extents(extents_), rank, ranks - 1, INT32_MAX);
  place(rank);
}

std::int64_t ProcessGrid::other_extents(bool may_leave_data_out) const {
  constexpr std::int64_t most = std::int64_t{1} << 31;  // more than any job has; times another extent no overflow
  std::int64_t others = 1;
  for (const Axis axis : axes) {
    const int n = extents_[index(axis)];
    if (axis == Axis::data && n == 0 && may_leave_data_out) continue;
    if (n < 1)
      refuse("process grid: {} ranks along the axis {}; expected 1 or more{}", n, name(axis),
             axis == Axis::data && may_leave_data_out ? ", or 0 for all ranks that the other axes leave" : "");
    if (axis != Axis::data) others = std::min(others * n, most);
  }
  if (const int space = extents_[index(Axis::space)]; columns_ < 1 || space % columns_ != 0)
    refuse("process grid: {} parts of a sample in {} columns; expected a number of columns that divides the parts",
           space, columns_);
  return others;
}

void ProcessGrid::place(int rank) {
  for (const Axis axis : axes) {
    coordinates_[index(axis)] = rank % extents_[index(axis)];
    rank /= extents_[index(axis)];
  }
}

int ProcessGrid::extent(Axes of) const {
  int ranks = 1;
  for (const Axis axis : axes)
    if (of.contains(axis)) ranks *= extents_[index(axis)];
  return ranks;
}

int ProcessGrid::number(Axes of) const {
  int number = 0, stride = 1;
  for (const Axis axis : axes) {
    if (!of.contains(axis)) continue;
    number += coordinate(axis) * stride;
    stride *= extents_[index(axis)];
  }
  return number;
}

int ProcessGrid::first_of(Axes of) const {
  int first = world().rank(), stride = 1;
  for (const Axis axis : axes) {
    if (of.contains(axis)) first -= coordinate(axis) * stride;
    stride *= extents_[index(axis)];
  }
  return first;
}

Communicator& ProcessGrid::world() const {
  if (!world_) fail("process grid {}: it was made without a communicator, for plans alone", describe());
  return *world_;
}

Communicator* ProcessGrid::along(Axes of, int size) const {
  if (size < 0) fail("groups of {} ranks along {}: expected 0 or more", size, to_string(of));
  if (extent(of) == 1) return nullptr;
  Axes several{}, faster{};  // of more than one rank; the same without the last axis
  for (const Axis axis : axes) {
    if (!of.contains(axis) || extent(axis) == 1) continue;
    several.add(axis);
    if (axis != of.last()) faster.add(axis);
  }
  if (size >= extent(of.last())) size = 0;
  if (size == 1) return along(faster);
  if (size == 0 && extent(several) == world().size()) return &world();
  auto found = groups_.find({several, size});
  if (found == groups_.end()) {
    auto group = size > 0 ? along(several)->split(coordinate(several.last()) / size, number(several))
                          : world().split(first_of(several), number(several));
    found = groups_.emplace(std::pair(several, size), std::move(group)).first;
  }
  return found->second->size() > 1 ? found->second.get() : nullptr;
}

int ProcessGrid::neighbor(Axis axis, int distance, bool periodic) const {
  const std::int64_t n = extent(axis), at = std::int64_t{coordinate(axis)} + distance;
  if (periodic) return static_cast<int>((at % n + n) % n);
  return at < 0 || at >= n ? -1 : static_cast<int>(at);
}

ProcessGrid::Extents ProcessGrid::parse_blocks(const std::string& text) {
  const auto by = text.find('x');
  const auto rows = parse_number<int>(text.substr(0, by));
  const auto columns = by == std::string::npos ? std::optional(1) : parse_number<int>(text.substr(by + 1));
  constexpr int most = 1 << 15;
  const bool valid = rows && columns && *rows >= 1 && *columns >= 1 && *rows <= most && *columns <= most;
  if (!valid || (*rows == 1 && *columns > 1))
    refuse(
        "{} parts of a sample (--spatial): expected a number of parts along the first spatial dimension, such as 4, or "
        "along the "
        "first two, such as 4x2, with at least 2 along the first",
        text.empty() ? "no number of" : text);
  return {.space = *rows * *columns, .columns = *columns};
}

ProcessGrid::Extents ProcessGrid::parse(const std::string& text) {
  const auto refuse_text = [&](const std::string& found) {
    refuse(
        "the process grid \"{}\": {}. Expected axes (data, space, channel, stage, ensemble) with their ranks, such as "
        "\"data 4 x space 2\"",
        text, found);
  };
  Extents e;
  const std::map<std::string, int*> places{
      {"data", &e.data}, {"space", &e.space}, {"channel", &e.channel}, {"stage", &e.stage}, {"ensemble", &e.ensemble}};
  std::set<std::string> found;
  std::istringstream words(text);
  std::string axis, count, by;  // "data", "4", "x"
  while (words >> axis) {
    const auto place = places.find(axis);
    if (place == places.end()) refuse_text(fmt::format("{} is no axis", axis));
    if (!found.insert(axis).second) refuse_text(fmt::format("{} stands there twice", axis));
    std::optional<int> n = words >> count ? parse_number<int>(count) : std::nullopt;
    if (axis == "space" && !n && words) {
      const auto blocks = parse_blocks(count);
      n = blocks.space, e.columns = blocks.columns;
    }
    if (!n || *n < 1) refuse_text(fmt::format("the ranks along {} are missing or not 1 or more", axis));
    *place->second = *n;
    if (!(words >> by)) break;
    if (by != "x") refuse_text(fmt::format("{} stands where an x should", by));
    if ((words >> std::ws).eof()) refuse_text("it ends behind an x");
  }
  if (found.empty()) refuse_text("there is no axis");
  return e;
}

std::string ProcessGrid::describe() const { return describe_extents(extents_, columns_); }

}  // namespace keelson
