#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "engine/base/error.hpp"

namespace keelson {

/// The most dimensions that a Shape can have.
inline constexpr int max_rank = 6;

/// Up to six integers: the logical extents of a tensor in the order (N, C, D, H, W), the strides of a layout, a
/// kernel's size.
class Shape {
 public:
  /// Rank 0: a scalar.
  constexpr Shape() = default;
  /// Throws Error for more than max_rank dimensions.
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  /// Throws Error for more than max_rank dimensions.
  explicit Shape(std::span<const std::int64_t> dims) {
    KEELSON_EXPECT(dims.size() <= max_rank);
    for (auto d : dims) dims_[rank_++] = d;
  }
  /// `rank` times the same value.
  static Shape filled(int rank, std::int64_t value) {
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(value);
    return s;
  }

  /// Number of dimensions.
  int rank() const { return rank_; }
  /// Whether the rank is 0.
  bool empty() const { return rank_ == 0; }
  /// Extent of dimension i, which is not checked.
  std::int64_t operator[](int i) const { return dims_[i]; }
  /// Extent of dimension i, which is not checked.
  std::int64_t& operator[](int i) { return dims_[i]; }
  /// Appends a dimension. Throws Error beyond max_rank.
  void push_back(std::int64_t d) {
    KEELSON_EXPECT(rank_ < max_rank);
    dims_[rank_++] = d;
  }
  /// The first extent.
  const std::int64_t* begin() const { return dims_.data(); }
  /// Past the last extent.
  const std::int64_t* end() const { return dims_.data() + rank_; }

  /// Product of the extents; 1 for a scalar (rank 0).
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (auto d : *this) n *= d;
    return n;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// "2x4x128x128x128"; "scalar" for rank 0.
std::string to_string(const Shape& s);

}  // namespace keelson
