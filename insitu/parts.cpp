#include "insitu/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace keelson::insitu {
namespace {

/// "rank 1 has cells [8:16, 0:8]": for each dimension the first cell, and one past the last.
std::string rank_with_cells(std::size_t rank, const Part& part, int ndims) {
  std::string text;
  for (std::size_t d = axis_of(0, ndims); d < 3; ++d)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", part.offset[d], part.end(d));
  return fmt::format("rank {} has cells [{}]", rank, text);
}

bool overlap(const Part& a, const Part& b) {
  for (std::size_t d = 0; d < 3; ++d)
    if (a.end(d) <= b.offset[d] || b.end(d) <= a.offset[d]) return false;
  return true;
}

bool has_cell(const Part& part, const Triple& cell) { return overlap(part, Part{.offset = cell}); }

/// Two ranks whose parts overlap, if there are any. The parts are sorted along dimension `d`, so that most pairs need
/// not be compared.
std::optional<std::pair<std::size_t, std::size_t>> overlapping(const std::vector<Part>& parts, std::size_t d) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t r) { return parts[r].offset[d]; });
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t k = i + 1; k < order.size() && parts[order[k]].offset[d] < parts[order[i]].end(d); ++k)
      if (overlap(parts[order[i]], parts[order[k]])) return std::minmax(order[i], order[k]);
  return std::nullopt;
}

/// The first cell, in row-major order, that belongs to no part; such a cell must exist. In each dimension it is the
/// first cell of the field, or the first cell after a part.
Triple first_missing(const std::vector<Part>& parts, const Triple& global) {
  std::set<std::int64_t> places[3];
  for (std::size_t d = 0; d < 3; ++d) {
    places[d].insert(0);
    for (const Part& p : parts)
      if (p.end(d) < global[d]) places[d].insert(p.end(d));
  }
  for (const auto z : places[0])
    for (const auto y : places[1])
      for (const auto x : places[2])
        if (const Triple cell{z, y, x}; std::ranges::none_of(parts, [&](const Part& p) { return has_cell(p, cell); }))
          return cell;
  return {};
}

/// Describes the parts of the first ranks.
std::string list_parts(const std::vector<Part>& parts, int ndims) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t r = 0; r < std::min(parts.size(), most); ++r)
    text += (r > 0 ? ", " : "") + rank_with_cells(r, parts[r], ndims);
  return text + (parts.size() > most ? fmt::format(", and {} more ranks have others", parts.size() - most) : "");
}

}  // namespace

std::string problem_of_parts(const std::vector<Part>& parts, const Triple& global, int ndims) {
  std::int64_t cells = 0;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    cells += parts[r].cells();
    for (std::size_t d = 0; d < 3; ++d)
      if (parts[r].offset[d] < 0 || parts[r].end(d) > global[d])
        return rank_with_cells(r, parts[r], ndims) + ", which reach out of the field";
  }
  if (const auto both = overlapping(parts, axis_of(0, ndims)))
    return fmt::format("{} and {}, which overlap", rank_with_cells(both->first, parts[both->first], ndims),
                       rank_with_cells(both->second, parts[both->second], ndims));
  if (cells == global[0] * global[1] * global[2]) return "";  // parts that do not overlap, within the field
  const Triple cell = first_missing(parts, global);
  std::string place;
  for (std::size_t d = axis_of(0, ndims); d < 3; ++d) place += fmt::format("{}{}", place.empty() ? "" : ", ", cell[d]);
  return fmt::format("no rank has the cell ({}): {}", place, list_parts(parts, ndims));
}

}  // namespace keelson::insitu
