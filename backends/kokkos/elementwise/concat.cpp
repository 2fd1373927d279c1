#include "backends/kokkos/elementwise/strided_copy.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosConcat : public Concat {
 public:
  explicit KokkosConcat(const ConcatDesc& d) : desc_(d) {
    Index at = 0;
    for (const auto& src : d.srcs) {
      const auto slice = Layout::strided(src.shape, d.dst.layout.strides());
      slices_.push_back({plan_copy(src.shape, src.layout, slice), at * d.dst.layout.strides()[d.axis]});
      at += src.shape[d.axis];
    }
  }

  Layout layout(Verb, Role r) const override { return r == Role::dst ? desc_.dst.layout : desc_.srcs[0].layout; }
  std::string name(Verb) const override { return "copies"; }
  Cost cost(Verb) const override { return {0, 2 * static_cast<double>(desc_.dst.bytes())}; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [srcs, dst] = args;
    with_type(desc_.dst.dtype, [&](auto type) {
      using T = decltype(type);
      for (std::size_t i = 0; i < slices_.size(); ++i)
        copy_strided("keelson::concat::forward", slices_[i].copy, srcs[i].data<T>(), dst.data<T>() + slices_[i].offset);
    });
  }

 private:
  struct Slice {
    CopyPlan copy;
    Index offset;  ///< of the input in dst, in elements
  };
  ConcatDesc desc_;
  std::vector<Slice> slices_;
};

}  // namespace

Expected<Concat> make(const ConcatDesc& desc) {
  ConcatDesc d = desc;
  if (d.srcs.empty()) return std::string("concat needs at least one input");
  for (const auto& src : d.srcs) {
    if (auto why = not_strided_values("an input", src); !why.empty()) return why;
    if (src.layout.is_any()) return std::string("an input has no layout yet; concat takes its producers' layout");
    if (src.dtype != d.dst.dtype)
      return fmt::format("an input is {}, dst {}", to_string(src.dtype), to_string(d.dst.dtype));
  }
  if (auto why = not_strided_values("dst", d.dst); !why.empty()) return why;
  std::vector<Shape> shapes;
  for (const auto& src : d.srcs) shapes.push_back(src.shape);
  try {
    if (!(concat_dst_shape(shapes, d.axis) == d.dst.shape)) return "dst has shape " + to_string(d.dst.shape);
  } catch (const InputError& e) {
    return std::string(e.what());
  }
  const auto& first = d.srcs[0];
  d.dst.layout = chosen(
      d.dst, first.layout.is_plain(first.shape) ? Layout::plain(d.dst.shape) : Layout::channels_last(d.dst.shape));
  return std::unique_ptr<Concat>(std::make_unique<KokkosConcat>(d));
}

}  // namespace keelson::kokkos
