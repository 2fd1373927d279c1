#include "backends/onednn/max_pool.hpp"

#include <algorithm>

namespace keelson::backends::onednn {
namespace {

using ops::Role;
using ops::Verb;

constexpr int lanes = 16;  ///< channels handled together: one AVX-512 register, or what narrower machines make of it

/// A tensor of (N, C, D, H, W), missing spatial dims being 1, as blocks of `width` contiguous channels. Strides in elements.
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
      decline("oneDNN's max pooling hides NaN, and channels are not contiguous for the loops that take its place");
    }
    const auto spatial = dims.size() - 2;
    for (std::size_t i = 0; i < spatial; ++i) {
      extent[3 - spatial + i] = dims[2 + i];
      stride[3 - spatial + i] = strides[2 + i];
    }
  }
  std::int64_t offset(std::int64_t n, std::int64_t b, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return n * batch_stride + b * block_stride + z * stride[0] + y * stride[1] + x * stride[2];
  }
};

struct Range {
  std::int64_t begin, end;
};

/// Windows along each of three dims.
struct Windows {
  std::array<std::int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0};

  explicit Windows(const ops::PoolParams& p) {
    const int spatial = p.kernel.rank(), first = 3 - spatial;
    for (int i = 0; i < spatial; ++i) {
      if (p.pad_begin[i] >= p.kernel[i] || p.pad_end[i] >= p.kernel[i]) decline("a window may lie in padding only");
      kernel[first + i] = p.kernel[i];
      stride[first + i] = p.stride[i];
      pad[first + i] = p.pad_begin[i];
    }
    if (p.kernel.elements() > 256) decline("more than 256 elements in a window");
  }
  /// Taps of window `o` that lie inside an input of `extent`.
  Range taps(int dim, std::int64_t o, std::int64_t extent) const {
    const auto start = o * stride[dim] - pad[dim];
    return {std::max<std::int64_t>(0, -start), std::min(kernel[dim], extent - start)};
  }
  /// Windows among `count` that contain input `i`.
  Range windows(int dim, std::int64_t i, std::int64_t count) const {
    const auto at = i + pad[dim];
    const auto past = at - kernel[dim] + 1;  // the first window starts here or later
    return {past <= 0 ? 0 : (past + stride[dim] - 1) / stride[dim], std::min(count, at / stride[dim] + 1)};
  }
};

class MaxPool final : public ops::Pool {
 public:
  MaxPool(const ops::PoolDesc& d, const dnnl::memory::desc& src, const dnnl::memory::desc& dst)
      : src_(d.src.with(to_layout(src, d.src.shape))),
        dst_(d.dst.with(to_layout(dst, d.dst.shape))),
        training_(d.training),
        in_(src),
        out_(dst),
        windows_(d.params) {
    if (in_.width != out_.width || in_.blocks != out_.blocks) decline("src and dst arrange channels differently");
  }

  Layout layout(Verb, Role role) const override {
    return role == Role::src || role == Role::diff_src ? src_.layout : dst_.layout;
  }
  std::string name(Verb) const override { return "channel loops"; }
  std::size_t workspace_bytes() const override { return training_ ? dst_.bytes() / sizeof(float) : 0; }
  ops::Cost cost(Verb) const override {
    const auto& k = windows_.kernel;
    return {static_cast<double>(dst_.elements() * k[0] * k[1] * k[2]),
            static_cast<double>(src_.bytes() + dst_.bytes() + workspace_bytes())};
  }

  void forward(const Tensor& src, const Tensor& dst, const Tensor& workspace) override;
  void backward(const Tensor& diff_dst, const Tensor& workspace, const Tensor& diff_src, const Tensor& scratch) override;

 private:
  template <int Count>
  void pool(const float* src, float* dst, std::uint8_t* winner, Range z, Range y, Range x, int count) const;
  template <int Count>
  void gather(const float* diff_dst, const std::uint8_t* winner, float* diff_src, std::int64_t n, std::int64_t b,
              const std::array<std::int64_t, 3>& at, std::int64_t channel, int count) const;
  std::int32_t tap(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<std::int32_t>((z * windows_.kernel[1] + y) * windows_.kernel[2] + x);
  }

  TensorDesc src_, dst_;
  bool training_;
  Blocks in_, out_;
  Windows windows_;
};

/// One window of `count` channels (Count where that is known): `src` points at the window's first element, inside the input or not.
template <int Count>
void MaxPool::pool(const float* src, float* dst, std::uint8_t* winner, Range z, Range y, Range x, int count) const {
  if constexpr (Count > 0) count = Count;
  float best[lanes];
  std::int32_t which[lanes];
  bool first = true;
  for (auto kz = z.begin; kz < z.end; ++kz)
    for (auto ky = y.begin; ky < y.end; ++ky)
      for (auto kx = x.begin; kx < x.end; ++kx) {
        const float* s = src + kz * in_.stride[0] + ky * in_.stride[1] + kx * in_.stride[2];
        const auto t = tap(kz, ky, kx);
        if (first) {
          for (int c = 0; c < count; ++c) best[c] = s[c], which[c] = t;
          first = false;
          continue;
        }
        // The first largest wins; a NaN beats everything but an earlier NaN.
        for (int c = 0; c < count; ++c) {
          const bool take = (s[c] > best[c]) | ((s[c] != s[c]) & (best[c] == best[c]));
          best[c] = take ? s[c] : best[c];
          which[c] = take ? t : which[c];
        }
      }
  for (int c = 0; c < count; ++c) dst[c] = best[c];
  if (winner)
    for (int c = 0; c < count; ++c) winner[c] = static_cast<std::uint8_t>(which[c]);
}

// Traffic: src read once, dst and one byte per dst element written.
void MaxPool::forward(const Tensor& src, const Tensor& dst, const Tensor& workspace) {
  KEELSON_EXPECT(src.desc() == src_ && dst.desc() == dst_);
  KEELSON_EXPECT(!training_ || (workspace && workspace.bytes() >= workspace_bytes()));
  const auto* from = src.data<float>();
  auto* to = dst.data<float>();
  auto* winner = training_ ? workspace.data<std::uint8_t>() : nullptr;
#pragma omp parallel for collapse(4) schedule(static)
  for (std::int64_t n = 0; n < out_.batch; ++n)
    for (std::int64_t b = 0; b < out_.blocks; ++b)
      for (std::int64_t oz = 0; oz < out_.extent[0]; ++oz)
        for (std::int64_t oy = 0; oy < out_.extent[1]; ++oy)
          for (std::int64_t ox = 0; ox < out_.extent[2]; ++ox) {
            const auto z = windows_.taps(0, oz, in_.extent[0]), y = windows_.taps(1, oy, in_.extent[1]),
                       x = windows_.taps(2, ox, in_.extent[2]);
            const auto& w = windows_;
            const auto in = in_.offset(n, b, oz * w.stride[0] - w.pad[0], oy * w.stride[1] - w.pad[1],
                                       ox * w.stride[2] - w.pad[2]);
            const auto out = out_.offset(n, b, oz, oy, ox);
            std::int64_t c = 0;
            for (; c + lanes <= out_.width; c += lanes)
              pool<lanes>(from + (in + c), to + out + c, winner ? winner + out + c : nullptr, z, y, x, lanes);
            if (c < out_.width)
              pool<0>(from + (in + c), to + out + c, winner ? winner + out + c : nullptr, z, y, x,
                      static_cast<int>(out_.width - c));
          }
}

/// diff_src of `count` channels at one input element: the sum over the windows that chose it, in their order.
template <int Count>
void MaxPool::gather(const float* diff_dst, const std::uint8_t* winner, float* diff_src, std::int64_t n, std::int64_t b,
                     const std::array<std::int64_t, 3>& at, std::int64_t channel, int count) const {
  if constexpr (Count > 0) count = Count;
  std::array<Range, 3> o;
  for (int i = 0; i < 3; ++i) o[i] = windows_.windows(i, at[i], out_.extent[i]);
  const auto& w = windows_;
  float sum[lanes] = {};
  for (auto oz = o[0].begin; oz < o[0].end; ++oz)
    for (auto oy = o[1].begin; oy < o[1].end; ++oy)
      for (auto ox = o[2].begin; ox < o[2].end; ++ox) {
        const auto t = tap(at[0] + w.pad[0] - oz * w.stride[0], at[1] + w.pad[1] - oy * w.stride[1],
                           at[2] + w.pad[2] - ox * w.stride[2]);
        const auto offset = out_.offset(n, b, oz, oy, ox) + channel;
        for (int c = 0; c < count; ++c) {
          const float g = diff_dst[offset + c];
          sum[c] += winner[offset + c] == t ? g : 0.0f;
        }
      }
  for (int c = 0; c < count; ++c) diff_src[c] = sum[c];
}

// Each thread writes its own part of diff_src whole and reads the few windows around it, so nothing is zeroed first and no sum depends
// on the number of threads.
void MaxPool::backward(const Tensor& diff_dst, const Tensor& workspace, const Tensor& diff_src, const Tensor&) {
  KEELSON_EXPECT(training_ && diff_src.desc() == src_ && diff_dst.desc() == dst_);
  KEELSON_EXPECT(workspace && workspace.bytes() >= workspace_bytes());
  const auto* from = diff_dst.data<float>();
  const auto* winner = workspace.data<std::uint8_t>();
  auto* to = diff_src.data<float>();
#pragma omp parallel for collapse(4) schedule(static)
  for (std::int64_t n = 0; n < in_.batch; ++n)
    for (std::int64_t b = 0; b < in_.blocks; ++b)
      for (std::int64_t z = 0; z < in_.extent[0]; ++z)
        for (std::int64_t y = 0; y < in_.extent[1]; ++y)
          for (std::int64_t x = 0; x < in_.extent[2]; ++x) {
            const auto out = in_.offset(n, b, z, y, x);
            std::int64_t c = 0;
            for (; c + lanes <= in_.width; c += lanes)
              gather<lanes>(from, winner, to + out + c, n, b, {z, y, x}, c, lanes);
            if (c < in_.width)
              gather<0>(from, winner, to + out + c, n, b, {z, y, x}, c, static_cast<int>(in_.width - c));
          }
}

}  // namespace

std::unique_ptr<ops::Pool> make_max_pool(const ops::PoolDesc& d, const dnnl::memory::desc& src,
                                         const dnnl::memory::desc& dst) {
  return std::make_unique<MaxPool>(d, src, dst);
}

}  // namespace keelson::backends::onednn
