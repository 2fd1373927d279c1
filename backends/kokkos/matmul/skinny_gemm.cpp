#include "backends/kokkos/matmul/skinny_gemm.hpp"

#include <algorithm>

#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/elementwise/strided_copy.hpp"
#include "engine/base/memory_parts.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr Index most_rows = 128;
/// The depth of a block of a panel: the block stays in the second cache level until all rows have used it.
constexpr Index depth_of_block = 512;

/// How far the first rows prefetch: caches of 32 KiB and more keep so much until it is used.
constexpr Index floats_ahead = 2048;
constexpr int floats_of_line = 16;

/// Packs src for SkinnyGemmKernel: (block of rows, depth, row), with the last row repeated. An item packs a run of
/// depth.
struct PackRows {
  static constexpr Index run = 64;
  const float* a;
  Index a_row, a_step, row_count, depth, at_once;
  float* packed;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index runs = ceil_div(depth, run), begin = item % runs * run, first = item / runs * at_once;
    const Index end = begin + run < depth ? begin + run : depth;
    float* const to = packed + first * depth;
    for (Index r = 0; r < at_once; ++r) {
      const float* const from = a + (first + r < row_count ? first + r : row_count - 1) * a_row;
      for (Index k = begin; k < end; ++k) to[k * at_once + r] = from[k * a_step];
    }
  }
};

/// An item computes a panel of `max_lanes` columns; sums of `rows` rows are in registers at once.
template <int rows>
struct SkinnyGemmKernel {
  const float* a;  ///< the result of PackRows
  Index row_count;
  const float* panels;  ///< (panel, depth, lane)
  Index depth, columns;
  float* c;
  Index c_row;

  KOKKOS_FUNCTION void operator()(Index panel) const {
    const float* const b = panels + panel * depth * max_lanes;
    const Index first_column = panel * max_lanes;
    const Index left = columns - first_column, count = left < max_lanes ? left : max_lanes;
    for (Index begin = 0; begin < depth; begin += depth_of_block) {
      const Index end = begin + depth_of_block < depth ? begin + depth_of_block : depth;
      for (Index first = 0; first < row_count; first += rows)
        if (first == 0)
          part<true>(b, begin, end, first, first_column, count);
        else
          part<false>(b, begin, end, first, first_column, count);
    }
  }

  template <bool prefetches>
  KOKKOS_FUNCTION void part(const float* b, Index begin, Index end, Index first, Index first_column,
                            Index count) const {
    float* const to = c + first * c_row + first_column;
    Lanes<max_lanes> acc[rows];
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) acc[r] = sum_so_far(begin > 0 && first + r < row_count, to + r * c_row, count);
    const float* const block = a + first * depth;
    for (Index k = begin; k < end; ++k) {
      const float* const bk = b + k * max_lanes;
      if constexpr (prefetches) {
        KEELSON_UNROLL
        for (int l = 0; l < max_lanes; l += floats_of_line) prefetch<true>(bk + floats_ahead + l);
      }
      Lanes<max_lanes> x;
      x.load(bk);
      KEELSON_UNROLL
      for (int r = 0; r < rows; ++r) acc[r].add_scaled(block[k * rows + r], x);
    }
    for (int r = 0; r < rows; ++r)
      if (first + r < row_count) store(acc[r], to + r * c_row, count);
  }

  KOKKOS_FUNCTION static Lanes<max_lanes> sum_so_far(bool any, const float* from, Index count) {
    Lanes<max_lanes> sum;
    float x[max_lanes] = {};
    if (any && count == max_lanes) {
      sum.load(from);
      return sum;
    }
    if (any)
      for (Index l = 0; l < count; ++l) x[l] = from[l];
    sum.load(x);
    return sum;
  }
  KOKKOS_FUNCTION static void store(const Lanes<max_lanes>& sum, float* to, Index count) {
    if (count == max_lanes) return sum.store(to);
    float x[max_lanes];
    sum.store(x);
    for (Index l = 0; l < count; ++l) to[l] = x[l];
  }
};

/// Packs the last panel, with zeros after the last column.
struct FillLastPanel {
  const float* b;
  Index row, column, columns;
  float* panel;
  KOKKOS_FUNCTION void operator()(Index k) const {
    for (Index l = 0; l < max_lanes; ++l) panel[k * max_lanes + l] = l < columns ? b[k * row + l * column] : 0.0f;
  }
};

class SkinnyGemm final : public MatMul {
 public:
  explicit SkinnyGemm(const MatMulDesc& d)
      : desc_(d),
        rows_(d.src.shape[0]),
        depth_(d.src.shape[1]),
        columns_(d.weights.shape[1]),
        whole_(columns_ / max_lanes),
        panels_(ceil_div(columns_, max_lanes)),
        at_once_(ceil_div(rows_, ceil_div(rows_, tile_rows))) {
    if (whole_ == 0) return;
    const auto& s = d.weights.layout.strides();
    const Shape shape{whole_, depth_, max_lanes};
    copy_ = plan_copy(shape, Layout::strided(shape, {s[1] * max_lanes, s[0], s[1]}), Layout::plain(shape));
  }

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return fmt::format("skinny_gemm:{}x{}", at_once_, max_lanes); }
  std::size_t scratch_bytes(Verb) const override {
    return align64(static_cast<std::size_t>(blocks() * at_once_ * depth_) * sizeof(float));
  }
  Cost cost(Verb) const override {
    const auto elements = desc_.src.elements() + desc_.weights.elements() + desc_.dst.elements();
    return {matmul_flops(desc_), static_cast<double>(elements) * sizeof(float)};
  }
  std::size_t packed_bytes() const override {
    return align64(static_cast<std::size_t>(panels_ * depth_ * max_lanes) * sizeof(float));
  }
  void pack(const Tensor& weights, void* packed) override {
    constexpr const char *label = "keelson::skinny_gemm::pack", *last_label = "keelson::skinny_gemm::pack_last";
    const auto* const b = weights.data<float>();
    auto* const to = static_cast<float*>(packed);
    const auto& s = desc_.weights.layout.strides();
    if (whole_ > 0) copy_strided(label, copy_, b, to);
    if (panels_ > whole_)
      launch(last_label, depth_,
             FillLastPanel{b + whole_ * max_lanes * s[1], s[0], s[1], columns_ - whole_ * max_lanes,
                           to + whole_ * depth_ * max_lanes});
  }
  void forward(const Tensor& src, const Tensor&, const void* packed, const Tensor& dst, void* scratch) override {
    constexpr const char* label = "keelson::skinny_gemm::pack_rows";
    const auto& s = desc_.src.layout.strides();
    auto* const rows = static_cast<float*>(scratch);
    launch(label, blocks() * ceil_div(depth_, PackRows::run),
           PackRows{src.data<float>(), s[0], s[1], rows_, depth_, at_once_, rows});
    run<tile_rows>(rows, static_cast<const float*>(packed), dst.data<float>());
  }

 private:
  Index blocks() const { return ceil_div(rows_, at_once_); }
  template <int rows>
  void run(const float* a, const float* packed, float* c) const {
    constexpr const char* label = "keelson::skinny_gemm";
    if constexpr (rows > 1)
      if (at_once_ < rows) return run<rows - 1>(a, packed, c);
    launch(label, panels_,
           SkinnyGemmKernel<rows>{a, rows_, packed, depth_, columns_, c, desc_.dst.layout.strides()[0]});
  }

  MatMulDesc desc_;
  Index rows_, depth_, columns_, whole_, panels_, at_once_;
  CopyPlan copy_;
};

}  // namespace

Expected<MatMul> make_skinny_gemm(const MatMulDesc& desc) {
  if (!runs_on_host) return std::string("the kernel is for the caches of CPUs");
  MatMulDesc d = desc;
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
    t->layout = chosen(*t, Layout::plain(t->shape));
  }
  if (d.compute != DType::f32) return fmt::format("multiplies f32 only, not {}", to_string(d.compute));
  if (d.uses < 2) return std::string("the weights are used once");
  if (d.src.shape[0] < 1 || d.src.shape[0] > most_rows || d.src.shape[1] < 1 || d.weights.shape[1] < 1)
    return fmt::format("1 to {} rows are needed", most_rows);
  if (d.dst.layout.strides()[1] != 1) return std::string("the columns of dst are not contiguous");
  return std::unique_ptr<MatMul>(std::make_unique<SkinnyGemm>(d));
}

}  // namespace keelson::kokkos
