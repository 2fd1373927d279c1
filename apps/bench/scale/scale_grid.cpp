#include "apps/bench/scale/scale_grid.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>
#include <string_view>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson::bench {
namespace {

constexpr int most_along_an_axis = 1 << 20;  // products of three axes fit into 64 bits

/// The texts between separators.
std::vector<std::string> split_text(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
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

std::vector<int> parse_parts(const std::string& option, const std::string& text) {
  std::vector<int> parts;
  for (const auto& number : split_text(text, "x")) {
    const auto n = parse_number<int>(number);
    if (!n || *n < 1 || *n > most_along_an_axis || parts.size() == 2)
      refuse("{} {}: expected a number of parts along the first spatial dimension (4), or along the first two (4x2)",
             option, text);
    parts.push_back(*n);
  }
  return parts;
}

ScaleGrid parse_grid(const std::string& text) {
  ScaleGrid grid;
  if (text == "data") return grid;
  auto axes = split_text(text, " x ");
  constexpr std::string_view space = "space ";
  for (auto& axis : axes) {  // blocks are the simulator's alone
    if (!axis.starts_with(space)) continue;
    grid.space = parse_parts("--parallel: space", axis.substr(space.size()));
    axis = std::string(space) + std::to_string(grid.parts());
  }
  const auto extents = ProcessGrid::parse(fmt::format("{}", fmt::join(axes, " x ")));
  if (extents.channel > 1 || extents.ensemble > 1)
    refuse("--parallel {}: expected the axes data, space and stage, which the simulation has; leave others out", text);
  grid.data = extents.data;
  grid.stages = extents.stage;
  return grid;
}

}  // namespace keelson::bench
