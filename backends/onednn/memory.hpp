#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "engine/tensor/tensor.hpp"

/// Keelson's shapes and layouts to and from oneDNN's memory descriptors.
namespace keelson::onednn {

inline constexpr std::string_view backend_name = "onednn";

/// A blocked or padded arrangement, known by its descriptor. Descriptors of grouped weights have rank + 1 dims: (G,
/// O/G, I/G, k...).
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
/// The descriptor with another data type: in the same layout where that is strided, else in any.
dnnl::memory::desc of_type(const dnnl::memory::desc& md, dnnl::memory::data_type type);

/// Descriptor of a tensor; `any` stays any. With groups > 1 the tensor is convolution weights, whose filters are split
/// into groups. Throws Unsupported (support.hpp) for layouts of other backends, empty tensors and dtypes that oneDNN
/// lacks.
dnnl::memory::desc to_desc(const TensorDesc& d, std::int64_t groups = 1);

/// Groups of the weights that `layout` describes: 1 unless it is opaque with a descriptor of rank + 1 dims.
std::int64_t groups_of(const Layout& layout, const Shape& shape);

/// A plain blocked descriptor without inner blocks, padding or offset is strided, everything else opaque.
Layout to_layout(const dnnl::memory::desc& md, const Shape& shape);

}  // namespace keelson::onednn
