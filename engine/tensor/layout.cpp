#include "engine/tensor/layout.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace keelson {

std::string to_string(const Shape& s) {
  if (s.empty()) return "scalar";
  return fmt::format("{}", fmt::join(s.begin(), s.end(), "x"));
}

std::string to_string(const TensorDesc& d) {
  return fmt::format("{} {} {}", to_string(d.shape), to_string(d.dtype), d.layout.describe(d.shape));
}

namespace {

/// Contiguous strides for dimensions visited from the fastest to the slowest.
Shape packed(const Shape& shape, std::initializer_list<int> fastest_first_tail, bool rest_descending) {
  Shape strides = Shape::filled(shape.rank(), 1);
  std::int64_t step = 1;
  std::vector<int> order(fastest_first_tail);
  if (rest_descending)
    for (int i = shape.rank() - 1; i >= 0; --i)
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  for (int i : order) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

}  // namespace

Layout Layout::plain(const Shape& shape) { return strided(shape, packed(shape, {}, true)); }

Layout Layout::channels_last(const Shape& shape) {
  if (shape.rank() < 3) return plain(shape);
  return strided(shape, packed(shape, {1}, true));
}

Layout Layout::strided(const Shape& shape, const Shape& strides) {
  KEELSON_EXPECT(shape.rank() == strides.rank());
  Layout l;
  l.kind_ = Kind::strided;
  l.strides_ = strides;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] == 1) l.strides_[i] = 1;
  return l;
}

Layout Layout::opaque(std::shared_ptr<const OpaqueLayout> layout) {
  KEELSON_EXPECT(layout);
  Layout l;
  l.kind_ = Kind::opaque;
  l.opaque_ = std::move(layout);
  return l;
}

bool Layout::is_dense(const Shape& shape) const {
  if (is_opaque()) return true;
  if (is_any()) return false;
  return bytes(shape, DType::u8) == static_cast<std::size_t>(shape.elements());
}

Layout Layout::without_gaps(const Shape& shape) const {
  if (!is_strided()) return *this;
  std::vector<int> order(static_cast<std::size_t>(shape.rank()));  // the fastest dimension first
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides_[a] < strides_[b]; });
  Shape strides = shape;
  std::int64_t step = 1;
  for (int i : order) {
    strides[i] = step;
    step *= shape[i];
  }
  return strided(shape, strides);
}

const Shape& Layout::strides() const {
  KEELSON_EXPECT(is_strided());
  return strides_;
}

const OpaqueLayout& Layout::opaque() const {
  KEELSON_EXPECT(is_opaque());
  return *opaque_;
}

std::size_t Layout::bytes(const Shape& shape, DType dtype) const {
  KEELSON_EXPECT(!is_any());
  if (is_opaque()) return opaque_->bytes();
  std::int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides_[i];
  }
  return static_cast<std::size_t>(last + 1) * size_of(dtype);
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.is_strided()) return a.strides_ == b.strides_;
  if (a.is_opaque()) return a.opaque_->backend() == b.opaque_->backend() && a.opaque_->equals(*b.opaque_);
  return true;
}

std::string Layout::to_string() const {
  if (is_any()) return "any";
  if (is_opaque()) return fmt::format("{}:{}", opaque_->backend(), opaque_->to_string());
  return fmt::format("strided {}", fmt::join(strides_.begin(), strides_.end(), ","));
}

std::string Layout::describe(const Shape& shape) const {
  if (is_strided() && is_plain(shape)) return "plain";
  if (is_strided() && is_channels_last(shape)) return "channels-last";
  return to_string();
}

}  // namespace keelson
