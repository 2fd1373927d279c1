#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "engine/tensor/tensor.hpp"

/// Conversion of Keelson's shapes and layouts to oneDNN's memory descriptors, and back.
namespace keelson::onednn {

inline constexpr std::string_view backend_name = "onednn";

/// A blocked or padded layout, given by its descriptor. Descriptors of grouped weights have rank + 1 dims: (G, O/G,
/// I/G, k...).
class BlockedLayout final : public OpaqueLayout {
 public:
  explicit BlockedLayout(dnnl::memory::desc desc) : desc_(std::move(desc)) {}
  std::string_view backend() const override { return backend_name; }
  std::size_t bytes() const override { return desc_.get_size(); }
  bool equals(const OpaqueLayout& other) const override;
  std::string to_string() const override;
  const dnnl::memory::desc& desc() const { return desc_; }

 private:
  dnnl::memory::desc desc_;
};

dnnl::memory::dims to_dims(const Shape& s);
dnnl::memory::data_type to_data_type(DType t);
DType to_dtype(dnnl::memory::data_type t);
/// The descriptor with another data type: in the same layout if the layout is strided, else with layout `any`.
dnnl::memory::desc of_type(const dnnl::memory::desc& md, dnnl::memory::data_type type);

/// Descriptor of a tensor; `any` stays `any`. With groups > 1 the tensor is the weights of a convolution, whose filters
/// are divided into groups. Throws Unsupported (support.hpp) for layouts of other backends, empty tensors and dtypes
/// that oneDNN does not have.
dnnl::memory::desc to_desc(const TensorDesc& d, std::int64_t groups = 1);

/// The number of groups of the weights with this layout: 1 unless the layout is opaque with rank + 1 dims.
std::int64_t groups_of(const Layout& layout, const Shape& shape);

/// Strided if the descriptor is plain, without inner blocks, padding or offset; else opaque.
Layout to_layout(const dnnl::memory::desc& md, const Shape& shape);

}  // namespace keelson::onednn
