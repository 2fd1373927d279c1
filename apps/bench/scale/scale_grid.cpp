#include "apps/bench/scale/scale_grid.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson::bench {
namespace {

constexpr int most_along_an_axis = 1 << 20;  // products of three axes fit into 64 bits

/// Parts along the first spatial dimension, or along the first two.
std::vector<int> parts_of(const ProcessGrid::Extents& e) {
  if (e.columns == 1) return {e.space};
  return {e.space / e.columns, e.columns};
}

}  // namespace

int ScaleGrid::parts() const { return std::accumulate(space.begin(), space.end(), 1, std::multiplies<>()); }

ScaleGrid ScaleGrid::for_ranks(int ranks) const {
  const int taken = replica();
  if (ranks % taken != 0)
    refuse("{}, but {} takes multiples of {}: give --ranks {}", counted(ranks, "rank"),
           fmt::format("space {} x stage {}", fmt::join(space.empty() ? std::vector{1} : space, "x"), stages), taken,
           (ranks / taken + 1) * taken);
  if (data > 0 && ranks != this->ranks())
    refuse("--ranks {}: the grid {} has {}; leave --ranks out, or \"data {}\"", ranks, describe(), this->ranks(), data);
  ScaleGrid grid = *this;
  grid.data = ranks / taken;
  return grid;
}

std::string ScaleGrid::describe() const {
  std::string text = fmt::format("data {}", data);
  if (parts() > 1) text += fmt::format(" x space {}", fmt::join(space, "x"));
  if (stages > 1) text += fmt::format(" x stage {}", stages);
  return text;
}

std::vector<int> parse_parts(const std::string& text) { return parts_of(ProcessGrid::parse_blocks(text)); }

ScaleGrid parse_grid(const std::string& text) {
  ScaleGrid grid;
  if (text == "data") return grid;
  const auto extents = ProcessGrid::parse(text);
  for (const int n : {extents.data, extents.space, extents.stage})
    if (n > most_along_an_axis)
      refuse("--parallel {}: expected at most {} ranks along an axis", text, most_along_an_axis);
  grid.space = parts_of(extents);
  if (extents.channel > 1 || extents.ensemble > 1)
    refuse("--parallel {}: expected the axes data, space and stage, which the simulation has; leave others out", text);
  grid.data = extents.data;
  grid.stages = extents.stage;
  return grid;
}

}  // namespace keelson::bench
