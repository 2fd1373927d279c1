#include "backends/onednn/max_pool.hpp"

#include <algorithm>

#include "engine/ops/pool.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;

/// N neighbouring channels: 16 are one AVX-512 register, or several narrower registers. By reference everywhere:
/// without AVX-512, how a function takes or returns such a vector depends on the compiler's version.
template <int N>
struct Vectors {
  using Floats [[gnu::vector_size(N * 4), gnu::aligned(4), gnu::may_alias]] = float;
  using Bytes [[gnu::vector_size(N), gnu::aligned(1), gnu::may_alias]] = std::uint8_t;
  using Integers [[gnu::vector_size(N * 4)]] = std::int32_t;

  static const Floats& at(const float* from) { return *reinterpret_cast<const Floats*>(from); }
  static Floats& at(float* to) { return *reinterpret_cast<Floats*>(to); }
  static void load(const std::uint8_t* from, Integers& to) {
    to = __builtin_convertvector(*reinterpret_cast<const Bytes*>(from), Integers);
  }
  static void store(const Integers& from, std::uint8_t* to) {
    *reinterpret_cast<Bytes*>(to) = __builtin_convertvector(from, Bytes);
  }
};

/// Calls use(integral_constant<int, N>, first channel), until all channels are processed.
template <class Use>
void for_channels(std::int64_t channels, const Use& use) {
  std::int64_t c = 0;
  for (; c + 16 <= channels; c += 16) use(std::integral_constant<int, 16>{}, c);
  for (; c + 4 <= channels; c += 4) use(std::integral_constant<int, 4>{}, c);
  for (; c < channels; ++c) use(std::integral_constant<int, 1>{}, c);
}

/// A tensor of (N, C, D, H, W) as blocks of `width` contiguous channels. Missing spatial dims are 1. Strides in
/// elements.
struct Blocks {
  std::int64_t batch = 0, blocks = 0, width = 0;
  std::int64_t batch_stride = 0, block_stride = 0;
  std::array<std::int64_t, 3> extent{1, 1, 1}, stride{0, 0, 0};

  explicit Blocks(const dnnl::memory::desc& md) {
    const auto dims = md.get_padded_dims(), strides = md.get_strides();
    const auto inner = md.get_inner_blks(), inner_dims = md.get_inner_idxs();
    batch = dims[0];
    batch_stride = strides[0];
    if (inner.empty() && (strides[1] == 1 || dims[1] == 1)) {
      blocks = 1;
      width = dims[1];
    } else if (inner.size() == 1 && inner_dims[0] == 1) {
      width = inner[0];
      blocks = dims[1] / width;
      block_stride = strides[1];
    } else {
      decline("oneDNN's max pooling loses NaN, and the loops of our own need contiguous channels");
    }
    const auto spatial = dims.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      extent[3 - spatial + i] = dims[2 + i];
      stride[3 - spatial + i] = strides[2 + i];
    }
  }
  /// Whether the elements of a row are contiguous: the channels of one element behind those of the element before.
  bool has_dense_rows() const { return stride[2] == width; }
  /// A row becomes one element with the channels of all its elements.
  void join_row() {
    width *= extent[2];
    stride[2] = width;
    extent[2] = 1;
  }
  std::int64_t offset(std::int64_t n, std::int64_t b, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return n * batch_stride + b * block_stride + z * stride[0] + y * stride[1] + x * stride[2];
  }
};

struct Range {
  std::int64_t begin, end;
};

/// The relation of windows and elements along one dim, in tables, so that the loops do not divide.
struct Axis {
  std::int64_t kernel = 1, stride = 1, pad = 0;
  std::vector<Range> taps;     ///< for each window: the taps inside the input
  std::vector<Range> windows;  ///< for each element: the windows that contain it
  /// The windows have no gap or overlap. A cell has the elements of a window; the last cell also has the remaining
  /// elements, which belong to no window.
  bool side_by_side = false;
  std::vector<Range> cells;

  bool is_whole(Range taps) const { return taps.end - taps.begin == kernel; }  ///< a window without padding
  void tabulate(std::int64_t extent, std::int64_t count) {
    for (std::int64_t o = 0; o < count; ++o) {
      const auto start = o * stride - pad;
      taps.push_back({std::max<std::int64_t>(0, -start), std::min(kernel, extent - start)});
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      const auto past = i + pad - kernel + 1;  // the first window begins here or later
      windows.push_back({past <= 0 ? 0 : (past + stride - 1) / stride, std::min(count, (i + pad) / stride + 1)});
    }
    side_by_side = stride == kernel && pad == 0;
    for (std::int64_t o = 0; o < count; ++o) cells.push_back({o * stride, o + 1 == count ? extent : (o + 1) * stride});
  }
};

/// Where windows have one element along a row, their neighbours pool as further channels would: long loops also for few
/// channels.
void join_rows(const ops::PoolParams& p, Blocks& in, Blocks& out) {
  const int row = p.kernel.rank() - 1;
  if (p.kernel[row] != 1 || p.stride[row] != 1 || in.extent[2] != out.extent[2] || in.width != out.width) return;
  if (!in.has_dense_rows() || !out.has_dense_rows()) return;
  in.join_row();
  out.join_row();
}

std::array<Axis, 3> make_axes(const ops::PoolParams& p, const Blocks& in, const Blocks& out) {
  if (p.kernel.elements() > 256) decline("more than 256 elements in a window");
  std::array<Axis, 3> axes;
  const int spatial = p.kernel.rank(), first = 3 - spatial;
  for (int i = 0; i < spatial; ++i) {
    if (p.pad_begin[i] >= p.kernel[i] || p.pad_end[i] >= p.kernel[i]) decline("a window may have only padding");
    axes[first + i].kernel = p.kernel[i];
    axes[first + i].stride = p.stride[i];
    axes[first + i].pad = p.pad_begin[i];
  }
  for (int i = 0; i < 3; ++i) axes[i].tabulate(in.extent[i], out.extent[i]);
  return axes;
}

class MaxPool final : public ops::Pool {
 public:
  MaxPool(const ops::PoolDesc& d, const dnnl::memory::desc& src, const dnnl::memory::desc& dst)
      : src_(d.src.with(to_layout(src, d.src.shape))),
        dst_(d.dst.with(to_layout(dst, d.dst.shape))),
        training_(d.training),
        in_(src),
        out_(dst) {
    join_rows(d.params, in_, out_);
    axes_ = make_axes(d.params, in_, out_);
    for (std::int64_t z = 0; z < axes_[0].kernel; ++z)
      for (std::int64_t y = 0; y < axes_[1].kernel; ++y)
        for (std::int64_t x = 0; x < axes_[2].kernel; ++x)
          offsets_.push_back(z * in_.stride[0] + y * in_.stride[1] + x * in_.stride[2]);
    if (in_.width != out_.width || in_.blocks != out_.blocks) decline("src and dst arrange channels differently");
  }

  Layout layout(Verb, Role role) const override {
    return role == Role::src || role == Role::diff_src ? src_.layout : dst_.layout;
  }
  std::string name(Verb) const override { return "channel loops"; }
  std::size_t workspace_bytes() const override { return training_ ? dst_.bytes() / sizeof(float) : 0; }
  ops::Cost cost(Verb) const override {
    return {static_cast<double>(dst_.elements() * axes_[0].kernel * axes_[1].kernel * axes_[2].kernel),
            static_cast<double>(src_.bytes() + dst_.bytes() + workspace_bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override;
  void backward_data(const BackwardData<ops::Tensors>& args) override;

 private:
  template <int N>
  void pool(const float* src, std::int64_t origin, float* dst, std::uint8_t* argmax, Range z, Range y, Range x) const;
  template <int N>
  void pool_whole(const float* src, float* dst, std::uint8_t* argmax) const;
  template <int N>
  void gather(const float* diff_dst, const std::uint8_t* argmax, float* diff_src, const std::array<std::int64_t, 3>& at,
              Range z, Range y, Range x) const;
  template <int N>
  void spread(const float* diff_dst, const std::uint8_t* argmax, float* diff_src, Range z, Range y, Range x) const;
  template <int N>
  void spread_whole(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const;
  void backward_by_window(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const;
  void backward_by_element(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const;
  std::int32_t tap(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<std::int32_t>((z * axes_[1].kernel + y) * axes_[2].kernel + x);
  }

  TensorDesc src_, dst_;
  bool training_;
  Blocks in_, out_;
  std::array<Axis, 3> axes_;
  std::vector<std::int64_t> offsets_;  ///< of a window's elements from its first one
};

/// Best values, and the taps that have them. The first largest value is taken; a NaN is taken unless there was an
/// earlier NaN.
template <int N>
struct Best {
  typename Vectors<N>::Floats value;
  typename Vectors<N>::Integers which;

  void take(const typename Vectors<N>::Floats& other, std::int32_t tap) {
    const typename Vectors<N>::Integers wins = (other > value) | ((other != other) & (value == value));
    value = wins ? other : value;
    which = wins ? tap - typename Vectors<N>::Integers{} : which;
  }
  void store(float* dst, std::uint8_t* argmax) const {
    Vectors<N>::at(dst) = value;
    if (argmax) Vectors<N>::store(which, argmax);
  }
};

/// Pools N channels of a window. `origin` is the offset of the window's first element, which may be padding.
template <int N>
void MaxPool::pool(const float* src, std::int64_t origin, float* dst, std::uint8_t* argmax, Range z, Range y,
                   Range x) const {
  const auto offset = [&](std::int64_t kz, std::int64_t ky, std::int64_t kx) {
    return origin + kz * in_.stride[0] + ky * in_.stride[1] + kx * in_.stride[2];
  };
  Best<N> best{Vectors<N>::at(src + offset(z.begin, y.begin, x.begin)),
               tap(z.begin, y.begin, x.begin) - typename Vectors<N>::Integers{}};
  for (auto kz = z.begin; kz < z.end; ++kz)
    for (auto ky = y.begin; ky < y.end; ++ky)
      for (auto kx = x.begin; kx < x.end; ++kx) best.take(Vectors<N>::at(src + offset(kz, ky, kx)), tap(kz, ky, kx));
  best.store(dst, argmax);
}

/// The same for a window without padding, whose first element is at `src`.
template <int N>
void MaxPool::pool_whole(const float* src, float* dst, std::uint8_t* argmax) const {
  Best<N> best{Vectors<N>::at(src), {}};
  for (std::size_t t = 1; t < offsets_.size(); ++t)
    best.take(Vectors<N>::at(src + offsets_[t]), static_cast<std::int32_t>(t));
  best.store(dst, argmax);
}

// Traffic: src read once, dst and one byte per dst element written.
void MaxPool::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, dst, workspace] = args;
  KEELSON_EXPECT(src.desc() == src_ && dst.desc() == dst_);
  KEELSON_EXPECT(!training_ || (workspace && workspace.bytes() >= workspace_bytes()));
  const auto* from = src.data<float>();
  auto* to = dst.data<float>();
  auto* argmax = training_ ? workspace.data<std::uint8_t>() : nullptr;
#pragma omp parallel for collapse(4) schedule(static)
  for (std::int64_t n = 0; n < out_.batch; ++n)
    for (std::int64_t b = 0; b < out_.blocks; ++b)
      for (std::int64_t oz = 0; oz < out_.extent[0]; ++oz)
        for (std::int64_t oy = 0; oy < out_.extent[1]; ++oy) {
          const auto z = axes_[0].taps[oz], y = axes_[1].taps[oy];
          const auto row =
              in_.offset(n, b, oz * axes_[0].stride - axes_[0].pad, oy * axes_[1].stride - axes_[1].pad, 0);
          for (std::int64_t ox = 0; ox < out_.extent[2]; ++ox) {
            const auto x = axes_[2].taps[ox];
            const auto in = row + (ox * axes_[2].stride - axes_[2].pad) * in_.stride[2];
            const auto out = out_.offset(n, b, oz, oy, ox);
            auto* const chosen = argmax ? argmax + out : nullptr;
            const bool whole = axes_[0].is_whole(z) && axes_[1].is_whole(y) && axes_[2].is_whole(x);
            for_channels(out_.width, [&](auto n, std::int64_t c) {
              constexpr int N = decltype(n)::value;
              if (whole)
                pool_whole<N>(from + in + c, to + out + c, chosen ? chosen + c : nullptr);
              else
                pool<N>(from, in + c, to + out + c, chosen ? chosen + c : nullptr, z, y, x);
            });
          }
        }
}

/// diff_src of N channels at one input element: the sum over the windows whose maximum is this element, in their order.
/// diff_dst and argmax point to the channels of dst's first element.
template <int N>
void MaxPool::gather(const float* diff_dst, const std::uint8_t* argmax, float* diff_src,
                     const std::array<std::int64_t, 3>& at, Range z, Range y, Range x) const {
  typename Vectors<N>::Floats sum{};
  for (auto oz = z.begin; oz < z.end; ++oz)
    for (auto oy = y.begin; oy < y.end; ++oy)
      for (auto ox = x.begin; ox < x.end; ++ox) {
        const auto t = tap(at[0] + axes_[0].pad - oz * axes_[0].stride, at[1] + axes_[1].pad - oy * axes_[1].stride,
                           at[2] + axes_[2].pad - ox * axes_[2].stride);
        const auto offset = oz * out_.stride[0] + oy * out_.stride[1] + ox * out_.stride[2];
        typename Vectors<N>::Integers which;
        Vectors<N>::load(argmax + offset, which);
        sum += which == t ? Vectors<N>::at(diff_dst + offset) : typename Vectors<N>::Floats{};
      }
  Vectors<N>::at(diff_src) = sum;
}

/// diff_src of N channels in the cell z, y, x of one window: zero except for the maximum.
template <int N>
void MaxPool::spread(const float* diff_dst, const std::uint8_t* argmax, float* diff_src, Range z, Range y,
                     Range x) const {
  const auto g = Vectors<N>::at(diff_dst);
  typename Vectors<N>::Integers which;
  Vectors<N>::load(argmax, which);
  for (auto iz = z.begin; iz < z.end; ++iz)
    for (auto iy = y.begin; iy < y.end; ++iy)
      for (auto ix = x.begin; ix < x.end; ++ix) {
        const auto kz = iz - z.begin, ky = iy - y.begin, kx = ix - x.begin;
        const bool inside = kz < axes_[0].kernel && ky < axes_[1].kernel && kx < axes_[2].kernel;
        const auto t = inside ? tap(kz, ky, kx) : -1;
        Vectors<N>::at(diff_src + iz * in_.stride[0] + iy * in_.stride[1] + ix * in_.stride[2]) =
            which == t ? g : typename Vectors<N>::Floats{};
      }
}

/// The same where the cell has the elements of the window alone. `diff_src`: its first element.
template <int N>
void MaxPool::spread_whole(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const {
  const auto g = Vectors<N>::at(diff_dst);
  typename Vectors<N>::Integers which;
  Vectors<N>::load(argmax, which);
  for (std::size_t t = 0; t < offsets_.size(); ++t)
    Vectors<N>::at(diff_src + offsets_[t]) = which == static_cast<std::int32_t>(t) ? g : typename Vectors<N>::Floats{};
}

void MaxPool::backward_by_window(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const {
#pragma omp parallel for collapse(4) schedule(static)
  for (std::int64_t n = 0; n < out_.batch; ++n)
    for (std::int64_t b = 0; b < out_.blocks; ++b)
      for (std::int64_t oz = 0; oz < out_.extent[0]; ++oz)
        for (std::int64_t oy = 0; oy < out_.extent[1]; ++oy) {
          const auto z = axes_[0].cells[oz], y = axes_[1].cells[oy];
          auto* to = diff_src + in_.offset(n, b, 0, 0, 0);
          for (std::int64_t ox = 0; ox < out_.extent[2]; ++ox) {
            const auto x = axes_[2].cells[ox];
            const auto out = out_.offset(n, b, oz, oy, ox);
            const bool whole = axes_[0].is_whole(z) && axes_[1].is_whole(y) && axes_[2].is_whole(x);
            float* const first = to + in_.offset(0, 0, z.begin, y.begin, x.begin);
            for_channels(out_.width, [&](auto n, std::int64_t c) {
              constexpr int N = decltype(n)::value;
              if (whole)
                spread_whole<N>(diff_dst + out + c, argmax + out + c, first + c);
              else
                spread<N>(diff_dst + out + c, argmax + out + c, to + c, z, y, x);
            });
          }
        }
}

void MaxPool::backward_by_element(const float* diff_dst, const std::uint8_t* argmax, float* diff_src) const {
#pragma omp parallel for collapse(4) schedule(static)
  for (std::int64_t n = 0; n < in_.batch; ++n)
    for (std::int64_t b = 0; b < in_.blocks; ++b)
      for (std::int64_t iz = 0; iz < in_.extent[0]; ++iz)
        for (std::int64_t iy = 0; iy < in_.extent[1]; ++iy) {
          const auto z = axes_[0].windows[iz], y = axes_[1].windows[iy];
          const auto plane = out_.offset(n, b, 0, 0, 0);
          for (std::int64_t ix = 0; ix < in_.extent[2]; ++ix) {
            const auto x = axes_[2].windows[ix];
            const auto in = in_.offset(n, b, iz, iy, ix);
            for_channels(in_.width, [&](auto n, std::int64_t c) {
              gather<decltype(n)::value>(diff_dst + plane + c, argmax + plane + c, diff_src + in + c, {iz, iy, ix}, z,
                                         y, x);
            });
          }
        }
}

// Each thread writes a part of diff_src completely, so that nothing must be zeroed first and no sum depends on the
// number of threads. Traffic: diff_dst and the argmax indices read once, diff_src written once.
void MaxPool::backward_data(const BackwardData<ops::Tensors>& args) {
  const auto& [diff_dst, workspace, diff_src, scratch] = args;
  KEELSON_EXPECT(training_ && diff_src.desc() == src_ && diff_dst.desc() == dst_);
  KEELSON_EXPECT(workspace && workspace.bytes() >= workspace_bytes());
  if (std::all_of(axes_.begin(), axes_.end(), [](const Axis& axis) { return axis.side_by_side; }))
    backward_by_window(diff_dst.data<float>(), workspace.data<std::uint8_t>(), diff_src.data<float>());
  else
    backward_by_element(diff_dst.data<float>(), workspace.data<std::uint8_t>(), diff_src.data<float>());
}

}  // namespace

std::unique_ptr<ops::Pool> make_max_pool(const ops::PoolDesc& d, const dnnl::memory::desc& src,
                                         const dnnl::memory::desc& dst) {
  return std::make_unique<MaxPool>(d, src, dst);
}

}  // namespace keelson::onednn
