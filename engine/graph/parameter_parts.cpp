#include "engine/graph/parameter_parts.hpp"

#include <algorithm>
#include <sstream>

namespace keelson {
namespace {

/// Where a part lies in the whole array: `count` blocks of `size` elements, one every `stride`, from `first` on.
struct Blocks {
  std::size_t first, size, stride, count;
  Blocks(const Shape& shape, const Parameter::Part& part) {
    std::int64_t before = 1, behind = 1;
    for (int d = 0; d < part.dim; ++d) before *= shape[d];
    for (int d = part.dim + 1; d < shape.rank(); ++d) behind *= shape[d];
    first = static_cast<std::size_t>(part.first * behind);
    size = static_cast<std::size_t>(part.count * behind);
    stride = static_cast<std::size_t>(shape[part.dim] * behind);
    count = static_cast<std::size_t>(before);
  }
};

}  // namespace

std::vector<float> rows_of(const std::vector<float>& whole, const Shape& shape, const Parameter::Part& part) {
  const Blocks b(shape, part);
  std::vector<float> rows(b.size * b.count);
  for (std::size_t i = 0; i < b.count; ++i)
    std::copy_n(whole.data() + b.first + i * b.stride, b.size, rows.data() + i * b.size);
  return rows;
}

const float* put_rows(const float* rows, const Shape& shape, const Parameter::Part& part, std::vector<float>& whole) {
  const Blocks b(shape, part);
  for (std::size_t i = 0; i < b.count; ++i, rows += b.size)
    std::copy_n(rows, b.size, whole.data() + b.first + i * b.stride);
  return rows;
}

std::vector<Parameter::Part> all_parts(const Parameter& p, Communicator& ranks) {
  const Parameter::Part mine = p.part.value_or(Parameter::Part{0, 0, p.shape[0]});
  std::vector<Parameter::Part> parts;
  for (const std::string& text : ranks.allgather(fmt::format("{} {} {}", mine.dim, mine.first, mine.count))) {
    Parameter::Part part;
    std::istringstream(text) >> part.dim >> part.first >> part.count;
    parts.push_back(part);
  }
  std::vector<Parameter::Part> distinct;
  for (std::size_t r = 0; r < parts.size(); ++r)
    if (is_first_with(parts, static_cast<int>(r))) distinct.push_back(parts[r]);
  std::ranges::sort(distinct, {}, &Parameter::Part::first);
  std::int64_t end = 0;
  for (const auto& part : distinct) {
    if (part.dim != distinct[0].dim || part.first != end)
      fail("{}: the parts of the ranks are not the whole array: row {} along dimension {} is missing, or on two parts",
           p.name, end, distinct[0].dim);
    end += part.count;
  }
  if (distinct.empty() || end != p.shape[distinct[0].dim])
    fail("{}: the parts of the ranks are not the whole array: rows from {} on are missing", p.name, end);
  return parts;
}

bool is_first_with(const std::vector<Parameter::Part>& parts, int rank) {
  const Parameter::Part& part = parts[static_cast<std::size_t>(rank)];
  return part.count > 0 && std::ranges::find(parts, part) == parts.begin() + rank;
}

}  // namespace keelson
