#pragma once

#include <memory>
#include <string>

#include "engine/tensor/layout.hpp"

namespace keelson {

/// What a tensor is, without its data.
struct TensorDesc {
  Shape shape;  ///< logical: (N, C, D, H, W), (N, features), (O, I, kD, kH, kW), ...
  DType dtype = DType::f32;
  Layout layout;  ///< `any` in a request

  static TensorDesc plain(const Shape& shape, DType dtype = DType::f32) { return {shape, dtype, Layout::plain(shape)}; }
  TensorDesc with(const Layout& l) const { return {shape, dtype, l}; }
  /// Rows and columns exchanged, in the same memory: of strided matrices.
  TensorDesc transposed() const {
    const Shape turned{shape[1], shape[0]};
    return {turned, dtype, Layout::strided(turned, {layout.strides()[1], layout.strides()[0]})};
  }
  std::size_t bytes() const { return layout.bytes(shape, dtype); }
  std::int64_t elements() const { return shape.elements(); }
  friend bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

std::string to_string(const TensorDesc& d);  ///< "2x4x8x8x8 f32 channels-last"

/// A typed array in one context's memory space. Copies share the data. A tensor either shares ownership of its memory
/// or is a view into memory that somebody else keeps (a plan's arena).
class Tensor {
 public:
  Tensor() = default;
  Tensor(TensorDesc desc, void* data, std::shared_ptr<void> owner = nullptr)
      : desc_(std::move(desc)), data_(data), owner_(std::move(owner)) {}

  explicit operator bool() const { return data_ != nullptr; }
  const TensorDesc& desc() const { return desc_; }
  const Shape& shape() const { return desc_.shape; }
  DType dtype() const { return desc_.dtype; }
  const Layout& layout() const { return desc_.layout; }
  std::size_t bytes() const { return desc_.bytes(); }
  std::int64_t elements() const { return desc_.elements(); }
  /// Elements of the allocation, padding included: what an element-wise kernel on a flat array runs over.
  std::int64_t stored_elements() const { return static_cast<std::int64_t>(bytes() / size_of(dtype())); }

  void* raw() const { return data_; }
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
