#include "backends/onednn/memory.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/onednn/support.hpp"

namespace keelson::onednn {

using dnnl::memory;

namespace {

const BlockedLayout* blocked(const Layout& l) {
  return l.is_opaque() ? dynamic_cast<const BlockedLayout*>(&l.opaque()) : nullptr;
}

/// In a Layout, strides of extents 1 have no meaning, but oneDNN compares them with those of its format tags. So they
/// get the value that fits the order of the other strides, row-major or channels-last.
memory::dims sane_strides(const Shape& shape, const Shape& strides) {
  auto s = to_dims(strides);
  const bool channels_last = shape.rank() > 2 && shape[1] > 1 && strides[1] == 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1) continue;
    std::int64_t below = channels_last && i >= 2 ? shape[1] : 1;
    for (int j = i + 1; j < shape.rank(); ++j) below = std::max(below, s[j] * shape[j]);
    s[i] = below;
  }
  return s;
}

/// Whether a tensor with one block of channels has the same memory layout as channels-last: with 16 channels aBcde16b
/// is acdeb. Other ops then need no reorder.
bool is_channels_last_in_one_block(const memory::desc& md, const Shape& shape) {
  if (md.get_format_kind() != memory::format_kind::blocked || md.get_ndims() != shape.rank() || shape.rank() < 3 ||
      md.get_inner_nblks() != 1 || md.get_inner_idxs()[0] != 1 || md.get_inner_blks()[0] != shape[1] ||
      md.get_padded_dims() != to_dims(shape) || md.get_submemory_offset() != 0)
    return false;
  auto strides = md.get_strides();
  strides[1] = 1;
  return Layout::strided(shape, Shape(std::span<const std::int64_t>(strides))).is_channels_last(shape);
}

}  // namespace

bool BlockedLayout::equals(const OpaqueLayout& other) const {
  auto o = dynamic_cast<const BlockedLayout*>(&other);
  return o && o->desc_ == desc_;
}

std::string BlockedLayout::to_string() const {
  if (desc_.get_format_kind() != memory::format_kind::blocked) return fmt::format("packed {} bytes", bytes());
  const auto strides = desc_.get_strides(), blocks = desc_.get_inner_blks(), block_dims = desc_.get_inner_idxs();
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  std::string tag;
  for (int i : order) {
    const bool split = std::find(block_dims.begin(), block_dims.end(), i) != block_dims.end();
    tag += static_cast<char>((split ? 'A' : 'a') + i);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    tag += fmt::format("{}{}", blocks[i], static_cast<char>('a' + block_dims[i]));
  return tag;
}

memory::dims to_dims(const Shape& s) { return {s.begin(), s.end()}; }

memory::data_type to_data_type(DType t) {
  switch (t) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    case DType::f16:
      return memory::data_type::f16;
    case DType::s32:
      return memory::data_type::s32;
    case DType::u8:
      return memory::data_type::u8;
    case DType::u16:
    case DType::f64:
      break;
  }
  decline("oneDNN has no {} on CPUs", to_string(t));
}

DType to_dtype(memory::data_type t) {
  for (const DType own : {DType::f32, DType::bf16, DType::f16, DType::s32, DType::u8})
    if (to_data_type(own) == t) return own;
  decline("a oneDNN data type that Keelson does not have");
}

memory::desc of_type(const memory::desc& md, memory::data_type type) {
  if (md.get_data_type() == type) return md;
  if (md.get_format_kind() != memory::format_kind::blocked || md.get_inner_nblks() > 0)
    return {md.get_dims(), type, memory::format_tag::any};
  return {md.get_dims(), type, md.get_strides()};
}

memory::desc to_desc(const TensorDesc& d, std::int64_t groups) {
  if (d.shape.empty() || d.shape.elements() == 0)
    decline("a tensor of shape {} has nothing to compute", to_string(d.shape));
  auto dims = to_dims(d.shape);
  const auto type = to_data_type(d.dtype);
  if (d.layout.is_opaque()) {
    auto b = blocked(d.layout);
    if (!b) decline("layout {} belongs to another backend", d.layout.to_string());
    const auto& md = b->desc();
    const bool grouped = md.get_ndims() == d.shape.rank() + 1;
    if (md.get_data_type() != type || (!grouped && md.get_dims() != dims) || (grouped && groups != md.get_dims()[0]))
      decline("layout {} was made for another shape or dtype than {} {}", d.layout.to_string(), to_string(d.shape),
              to_string(d.dtype));
    return md;
  }
  memory::dims strides;
  if (d.layout.is_strided()) strides = sane_strides(d.shape, d.layout.strides());
  if (groups > 1) {
    if (dims[0] % groups) decline("{} filters do not split into {} groups", dims[0], groups);
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
    if (!strides.empty()) strides.insert(strides.begin(), strides[0] * dims[1]);
  }
  if (strides.empty()) return {dims, type, memory::format_tag::any};
  return {dims, type, strides};
}

std::int64_t groups_of(const Layout& layout, const Shape& shape) {
  auto b = blocked(layout);
  return b && b->desc().get_ndims() == shape.rank() + 1 ? b->desc().get_dims()[0] : 1;
}

Layout to_layout(const memory::desc& md, const Shape& shape) {
  const bool strided = md.get_format_kind() == memory::format_kind::blocked && md.get_inner_nblks() == 0 &&
                       md.get_padded_dims() == md.get_dims() && md.get_submemory_offset() == 0;
  if (strided) {
    auto strides = md.get_strides();
    const auto dims = md.get_dims();
    const bool grouped = md.get_ndims() == shape.rank() + 1;
    // Filters are numbered through all groups. With one filter per group, the group's stride is the filter's stride.
    if (grouped && dims[1] == 1) strides[1] = strides[0];
    if (!grouped || strides[0] == strides[1] * dims[1]) {
      if (grouped) strides.erase(strides.begin());
      return Layout::strided(shape, Shape(std::span<const std::int64_t>(strides)));
    }
  }
  if (is_channels_last_in_one_block(md, shape)) return Layout::channels_last(shape);
  return Layout::opaque(std::make_shared<BlockedLayout>(md));
}

}  // namespace keelson::onednn
