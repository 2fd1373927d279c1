#include "backends/common/symmetric.hpp"

#include <fmt/format.h>

namespace keelson::backends {

using namespace ops;

std::string misfit(const InverseRootsDesc& d) {
  if (!(d.epsilon > 0)) return fmt::format("epsilon is {}, expected a number above 0", d.epsilon);
  if (d.delay < 0) return fmt::format("delay is {}, expected 0 or more", d.delay);
  for (const TensorDesc& s : d.srcs)
    if (s.dtype != DType::f32 || s.shape.rank() != 3 || s.shape[1] != s.shape[2] || !s.layout.is_plain(s.shape))
      return fmt::format("src is {}, expected plain f32 matrices (count, n, n)", to_string(s));
  for (const auto& m : d.matrices)
    if (m.array < 0 || m.array >= std::ssize(d.srcs) || m.index < 0 || m.size < 1 || m.root < 1 ||
        m.index >= d.srcs[static_cast<std::size_t>(m.array)].shape[0] ||
        m.size > d.srcs[static_cast<std::size_t>(m.array)].shape[1])
      return fmt::format("matrix {} of array {}, {} rows, root {}: there is no such matrix", m.index, m.array, m.size,
                         m.root);
  return "";
}

std::string misfit(const FactorInversesDesc& d) {
  if (!(d.damping >= 0)) return fmt::format("damping is {}, expected 0 or more", d.damping);
  if (d.blocks.size() % 2 != 0) return fmt::format("{} factors, expected two for each layer", d.blocks.size());
  for (const auto& m : d.matrices) {
    if (m.factor < 0 || m.factor >= std::ssize(d.blocks)) return fmt::format("there is no factor {}", m.factor);
    if (m.block < 0 || m.block >= d.blocks[static_cast<std::size_t>(m.factor)].count)
      return fmt::format("factor {} has no block {}", m.factor, m.block);
  }
  return "";
}

std::vector<std::int64_t> rows_of(const InverseRootsDesc& d) {
  std::vector<std::int64_t> rows;
  for (const auto& m : d.matrices) rows.push_back(m.size);
  return rows;
}

std::vector<std::int64_t> rows_of(const FactorInversesDesc& d) {
  std::vector<std::int64_t> rows;
  for (const auto& m : d.matrices) rows.push_back(d.blocks[static_cast<std::size_t>(m.factor)].rows_of(m.block));
  return rows;
}

/// Eigenvectors and a product for each matrix.
Cost cost_of(const InverseRootsDesc& d) {
  Cost cost;
  for (const std::int64_t n : rows_of(d)) cost.flops += 10.0 * static_cast<double>(n) * static_cast<double>(n * n);
  for (const TensorDesc& s : d.srcs) cost.bytes += 2 * static_cast<double>(s.bytes());
  return cost;
}

Cost cost_of(const FactorInversesDesc& d) {
  Cost cost;
  for (const std::int64_t n : rows_of(d)) {
    cost.flops += (d.eigen ? 9.0 : 1.0) * static_cast<double>(n) * static_cast<double>(n * n);
    cost.bytes += 2 * static_cast<double>(n * n) * sizeof(float);
  }
  return cost;
}

}  // namespace keelson::backends
