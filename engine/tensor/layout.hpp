#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/tensor/dtype.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson {

/// A backend's own arrangement of elements (blocked, padded). Only that backend knows where an element lies; other code
/// may treat the bytes as a flat array of elements whose padding is zero.
class OpaqueLayout {
 public:
  virtual ~OpaqueLayout() = default;
  /// Name of the backend.
  virtual std::string_view backend() const = 0;
  /// Bytes of an allocation, padding included.
  virtual std::size_t bytes() const = 0;
  virtual bool equals(const OpaqueLayout& other) const = 0;  ///< called only for layouts of the same backend
  virtual std::string to_string() const = 0;                 ///< e.g. "aBcde16b"
};

/// How a tensor's logical elements lie in memory: `any` (a request: the primitive chooses), strided, or opaque.
/// Dimensions are always logical.
class Layout {
 public:
  Layout() = default;  ///< any
  /// A request: the primitive chooses.
  static Layout any() { return {}; }
  /// Row-major in logical order: NCDHW, OIDHW, (out, in).
  static Layout plain(const Shape& shape);
  /// N, spatial..., C with C fastest; equals plain for tensors of rank < 3.
  static Layout channels_last(const Shape& shape);
  /// A layout with these element strides, one per dimension of `shape`. Strides of dimensions of extent 1 have no
  /// meaning and are normalised, so that equal layouts compare equal.
  static Layout strided(const Shape& shape, const Shape& strides);
  /// A backend's layout.
  static Layout opaque(std::shared_ptr<const OpaqueLayout> layout);

  /// Whether this is a request.
  bool is_any() const { return kind_ == Kind::any; }
  /// Whether strides() describes the layout.
  bool is_strided() const { return kind_ == Kind::strided; }
  /// Whether opaque() describes the layout.
  bool is_opaque() const { return kind_ == Kind::opaque; }
  /// Whether a tensor of this shape is row-major.
  bool is_plain(const Shape& shape) const { return *this == plain(shape); }
  /// Whether the channels of a tensor of this shape are contiguous (channels-last).
  bool is_channels_last(const Shape& shape) const { return *this == channels_last(shape); }
  /// True if every element of the allocation belongs to exactly one logical element, or is padding that stays zero.
  /// Element-wise work may then run over the bytes as a flat array.
  bool is_dense(const Shape& shape) const;

  /// A dense layout with the elements of a tensor of this shape in the same order, e.g. for the copy of a slice.
  /// Layouts that are not strided are returned unchanged.
  Layout without_gaps(const Shape& shape) const;

  /// The strides, in elements. Throws Error if the layout is not strided.
  const Shape& strides() const;
  /// The backend's layout. Throws Error if the layout is not opaque.
  const OpaqueLayout& opaque() const;

  /// Bytes of an allocation for `shape` in this layout. Throws Error for `any`.
  std::size_t bytes(const Shape& shape, DType dtype) const;

  friend bool operator==(const Layout& a, const Layout& b);

  /// "any", "strided 8,1,4,2" or "onednn:aBcde16b"; describe() also knows "plain" and "channels-last".
  std::string to_string() const;
  /// For messages: also "plain" and "channels-last", which depend on the shape.
  std::string describe(const Shape& shape) const;

 private:
  enum class Kind { any, strided, opaque };
  Kind kind_ = Kind::any;
  Shape strides_;
  std::shared_ptr<const OpaqueLayout> opaque_;
};

}  // namespace keelson
