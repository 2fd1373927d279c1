#pragma once

#include <memory>
#include <string>

#include "engine/tensor/layout.hpp"

namespace keelson {

/// A tensor's description, without its data.
struct TensorDesc {
  Shape shape;               ///< logical: (N, C, D, H, W), (N, features), (O, I, kD, kH, kW), ...
  DType dtype = DType::f32;  ///< type of each element
  Layout layout;             ///< `any` in a request

  /// A description with row-major order.
  static TensorDesc plain(const Shape& shape, DType dtype = DType::f32) { return {shape, dtype, Layout::plain(shape)}; }
  /// The same shape and dtype in another layout.
  TensorDesc with(const Layout& l) const { return {shape, dtype, l}; }
  /// The transposed matrix in the same memory. Only for strided matrices.
  TensorDesc transposed() const {
    const Shape turned{shape[1], shape[0]};
    return {turned, dtype, Layout::strided(turned, {layout.strides()[1], layout.strides()[0]})};
  }
  /// Bytes of an allocation, padding included.
  std::size_t bytes() const { return layout.bytes(shape, dtype); }
  /// Bytes of the elements, and of an opaque layout's padding, without gaps between them.
  std::size_t used_bytes() const { return layout.without_gaps(shape).bytes(shape, dtype); }
  /// Logical elements, without padding.
  std::int64_t elements() const { return shape.elements(); }
  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

std::string to_string(const TensorDesc& d);  ///< "2x4x8x8x8 f32 channels-last"

/// A typed array in one context's memory space. Copies share the data. A tensor either shares ownership of its memory
/// or is a view into memory with another owner (a plan's arena).
class Tensor {
 public:
  /// No tensor: false, without data.
  Tensor() = default;
  /// `owner` null: a view of memory that the caller keeps.
  Tensor(TensorDesc desc, void* data, std::shared_ptr<void> owner = nullptr)
      : desc_(std::move(desc)), data_(data), owner_(std::move(owner)) {}

  /// Whether there is data.
  explicit operator bool() const { return data_ != nullptr; }
  /// The description.
  const TensorDesc& desc() const { return desc_; }
  /// Logical extents.
  const Shape& shape() const { return desc_.shape; }
  /// Type of each element.
  DType dtype() const { return desc_.dtype; }
  /// The layout; never `any`.
  const Layout& layout() const { return desc_.layout; }
  /// Bytes of the allocation, padding included.
  std::size_t bytes() const { return desc_.bytes(); }
  /// Logical elements, without padding.
  std::int64_t elements() const { return desc_.elements(); }
  /// Elements of the allocation, padding included, over which an element-wise kernel on a flat array runs.
  std::int64_t stored_elements() const { return static_cast<std::int64_t>(bytes() / size_of(dtype())); }

  /// What keeps the memory; null for a view.
  const std::shared_ptr<void>& owner() const { return owner_; }
  /// The memory, in the address space of the device; null for no tensor.
  void* raw() const { return data_; }
  /// The memory as elements of type T. Throws Error if T is not the dtype.
  template <class T>
  T* data() const {
    KEELSON_EXPECT(dtype_of<T> == dtype());
    return static_cast<T*>(data_);
  }

 private:
  TensorDesc desc_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

}  // namespace keelson
