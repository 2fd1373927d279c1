#include "backends/kokkos/matmul/skinny_gemm.hpp"

#include <algorithm>

#include "backends/kokkos/common/caches.hpp"
#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/elementwise/strided_copy.hpp"
#include "engine/base/memory_parts.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr Index most_rows = 128;

/// The depth of a block of a wide tile: its weights stay in the second cache level until all rows have used them.
constexpr Index depth_of_block = 256;

/// How many floats of src tall tiles use at once, so that they stay in first-level caches of 32 KiB and more.
constexpr Index floats_of_src = 5120;

/// How far the first rows prefetch: caches of 32 KiB and more keep so much until it is used.
constexpr Index floats_ahead = vector_width == 16 ? 1024 : 2048;

/// The rows of a tile that is one vector wide. AVX-512's multiply-adds read a float and broadcast it in one operation,
/// so that a vector of weights can be used by as many rows as there are registers, and weights are read once.
constexpr int tall_rows = vector_width == 16 ? 24 : tile_rows;
constexpr Index most_rows_of_tall_tiles = 40;

/// How many groups of panels fill the second cache level.
constexpr Index parts_of_cache = 4;

constexpr int lanes_of_tile(Index rows) { return rows > tile_rows ? vector_width : max_lanes; }

/// The sums that are in registers at once, and the steps of the reduction that they take before the next sums do.
struct Tiling {
  Index rows, lanes, depth;

  Tiling(Index all_rows, Index all_steps) {
    const Index most = all_rows > most_rows_of_tall_tiles ? tile_rows : tall_rows;
    rows = ceil_div(all_rows, ceil_div(all_rows, most));
    lanes = lanes_of_tile(rows);
    const Index depth_of_src = floats_of_src / all_rows / 16 * 16;
    depth = rows == all_rows && rows <= tile_rows ? all_steps : rows > tile_rows ? depth_of_src : depth_of_block;
  }
};

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

/// Computes panels of `lanes` columns; sums of `rows` rows are in registers at once.
template <int rows, int lanes>
struct SkinnyGemmKernel {
  using Sums = Lanes<lanes>[rows];
  const float* a;  ///< the result of PackRows
  Index row_count;
  const float* panels;  ///< (panel, depth, lane)
  Index depth, depth_at_once, columns;
  float* c;
  Index c_row;
  Index panels_at_once;  ///< whose weights stay in the second cache level until the next call
  bool backwards;        ///< begins with the last of these groups of panels

  /// The weights that were read last are read first in the next call, which goes the other way.
  KOKKOS_FUNCTION void operator()(Index first_panel, Index end_panel) const {
    const Index groups = ceil_div(end_panel - first_panel, panels_at_once);
    for (Index i = 0; i < groups; ++i) {
      const Index first = first_panel + (backwards ? groups - 1 - i : i) * panels_at_once;
      group(first, first + panels_at_once < end_panel ? first + panels_at_once : end_panel);
    }
  }

  KOKKOS_FUNCTION void group(Index first_panel, Index end_panel) const {
    for (Index begin = 0; begin < depth; begin += depth_at_once) {
      const Index count = begin + depth_at_once < depth ? depth_at_once : depth - begin;
      for (Index panel = first_panel; panel < end_panel; ++panel) {
        const Index next = panel + 1 < end_panel ? panels_at(panel + 1, begin) : panels_at(first_panel, begin + count);
        for (Index first = 0; first < row_count; first += rows)
          if (first == 0)
            part<true>(panel, begin, count, first, next);
          else
            part<false>(panel, begin, count, first, next);
      }
    }
  }

  KOKKOS_FUNCTION Index panels_at(Index panel, Index step) const { return (panel * depth + step) * lanes; }

  /// The weights at `next` are read after those of this part.
  template <bool prefetches>
  KOKKOS_FUNCTION void part(Index panel, Index begin, Index count, Index first, Index next) const {
    constexpr Index steps_ahead = floats_ahead / lanes;
    const Index left = columns - panel * lanes, used = left < lanes ? left : lanes;
    float* const to = c + first * c_row + panel * lanes;
    Sums sums;
    KEELSON_UNROLL_ROWS
    for (int r = 0; r < rows; ++r) sums[r] = sum_so_far(begin > 0 && first + r < row_count, to + r * c_row, used);
    const float* const src = a + first * depth + begin * rows;
    const float* const weights = panels + panels_at(panel, begin);
    const Index here = prefetches && count > steps_ahead ? count - steps_ahead : 0;
    add<prefetches>(sums, src, weights, weights + floats_ahead, here);
    add<prefetches>(sums, src + here * rows, weights + here * lanes, panels + next, count - here);
    for (int r = 0; r < rows; ++r)
      if (first + r < row_count) store(sums[r], to + r * c_row, used);
  }

  template <bool prefetches>
  KOKKOS_FORCEINLINE_FUNCTION static void add(Sums& sums, const float* src, const float* weights, const float* ahead,
                                              Index count) {
    constexpr Index steps_at_once = 2;
    const auto add_step = [&](Index k) {
      if constexpr (prefetches) {
        KEELSON_UNROLL
        for (int l = 0; l < lanes; l += floats_of_line) prefetch<true>(ahead + k * lanes + l);
      }
      Lanes<lanes> x;
      x.load(weights + k * lanes);
      KEELSON_UNROLL_ROWS
      for (int r = 0; r < rows; ++r) sums[r].add_scaled(src[k * rows + r], x);
    };
    // All pointers move: with an index in each address, the compiler computes addresses in operations of their own.
    for (Index left = count / steps_at_once; left > 0; --left) {
      KEELSON_UNROLL
      for (Index i = 0; i < steps_at_once; ++i) add_step(i);
      src = in_register(src + steps_at_once * rows);
      weights = in_register(weights + steps_at_once * lanes);
      if constexpr (prefetches) ahead = in_register(ahead + steps_at_once * lanes);
    }
    if (count % steps_at_once) add_step(0);
  }

  KOKKOS_FUNCTION static Lanes<lanes> sum_so_far(bool any, const float* from, Index count) {
    Lanes<lanes> sum;
    float x[lanes] = {};
    if (any && count == lanes) {
      sum.load(from);
      return sum;
    }
    if (any)
      for (Index l = 0; l < count; ++l) x[l] = from[l];
    sum.load(x);
    return sum;
  }
  KOKKOS_FUNCTION static void store(const Lanes<lanes>& sum, float* to, Index count) {
    if (count == lanes) return sum.store(to);
    float x[lanes];
    sum.store(x);
    for (Index l = 0; l < count; ++l) to[l] = x[l];
  }
};

/// Packs all whole panels of weights whose columns are contiguous. An item packs a run of depth, so that it reads whole
/// rows: neighbouring panels have the same pages and lines.
struct PackPanels {
  static constexpr Index run = 16;
  const float* b;
  Index row, depth, lanes, panels;
  float* packed;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index begin = item * run, end = begin + run < depth ? begin + run : depth;
    for (Index panel = 0; panel < panels; ++panel)
      for (Index k = begin; k < end; ++k)
        for (Index l = 0; l < lanes; l += vector_width) {
          Lanes<vector_width> x;
          x.load(b + k * row + panel * lanes + l);
          x.store(packed + (panel * depth + k) * lanes + l);
        }
  }
};

/// Packs the last panel, with zeros after the last column.
struct FillLastPanel {
  const float* b;
  Index row, column, columns, lanes;
  float* panel;
  KOKKOS_FUNCTION void operator()(Index k) const {
    for (Index l = 0; l < lanes; ++l) panel[k * lanes + l] = l < columns ? b[k * row + l * column] : 0.0f;
  }
};

class SkinnyGemm final : public MatMul {
 public:
  explicit SkinnyGemm(const MatMulDesc& d)
      : desc_(d),
        rows_(d.src.shape[0]),
        depth_(d.src.shape[1]),
        columns_(d.weights.shape[1]),
        tiling_(rows_, depth_),
        whole_(columns_ / tiling_.lanes),
        panels_(ceil_div(columns_, tiling_.lanes)),
        panels_at_once_(std::max<Index>(1, second_cache_bytes() / parts_of_cache / panel_bytes())) {
    if (whole_ == 0) return;
    const auto& s = d.weights.layout.strides();
    const Shape shape{whole_, depth_, tiling_.lanes};
    copy_ = plan_copy(shape, Layout::strided(shape, {s[1] * tiling_.lanes, s[0], s[1]}), Layout::plain(shape));
  }

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return fmt::format("skinny_gemm:{}x{}", tiling_.rows, tiling_.lanes); }
  std::size_t scratch_bytes(Verb) const override {
    return align64(static_cast<std::size_t>(blocks() * tiling_.rows * depth_) * sizeof(float));
  }
  Cost cost(Verb) const override {
    const auto elements = desc_.src.elements() + desc_.weights.elements() + desc_.dst.elements();
    return {matmul_flops(desc_), static_cast<double>(elements) * sizeof(float)};
  }
  std::size_t packed_bytes() const override {
    return align64(static_cast<std::size_t>(panels_ * depth_ * tiling_.lanes) * sizeof(float));
  }
  void pack(const Tensor& weights, void* packed) override {
    constexpr const char *label = "keelson::skinny_gemm::pack", *last_label = "keelson::skinny_gemm::pack_last";
    const auto* const b = weights.data<float>();
    auto* const to = static_cast<float*>(packed);
    const auto& s = desc_.weights.layout.strides();
    const Index lanes = tiling_.lanes;
    if (whole_ > 0 && s[1] == 1)
      launch(label, ceil_div(depth_, PackPanels::run), PackPanels{b, s[0], depth_, lanes, whole_, to});
    else if (whole_ > 0)
      copy_strided(label, copy_, b, to);
    if (panels_ > whole_)
      launch(last_label, depth_,
             FillLastPanel{b + whole_ * lanes * s[1], s[0], s[1], columns_ - whole_ * lanes, lanes,
                           to + whole_ * depth_ * lanes});
  }
  void forward(const Tensor& src, const Tensor&, const void* packed, const Tensor& dst, void* scratch) override {
    constexpr const char* label = "keelson::skinny_gemm::pack_rows";
    const auto& s = desc_.src.layout.strides();
    auto* const rows = static_cast<float*>(scratch);
    launch(label, blocks() * ceil_div(depth_, PackRows::run),
           PackRows{src.data<float>(), s[0], s[1], rows_, depth_, tiling_.rows, rows});
    run<tall_rows>(rows, static_cast<const float*>(packed), dst.data<float>());
    backwards_ = !backwards_;
  }

 private:
  Index blocks() const { return ceil_div(rows_, tiling_.rows); }
  Index panel_bytes() const { return depth_ * tiling_.lanes * static_cast<Index>(sizeof(float)); }
  template <int rows>
  void run(const float* a, const float* packed, float* c) const {
    constexpr const char* label = "keelson::skinny_gemm";
    if constexpr (rows > 1)
      if (tiling_.rows < rows) return run<rows - 1>(a, packed, c);
    const Index c_row = desc_.dst.layout.strides()[0];
    for_each_block(label, panels_,
                   SkinnyGemmKernel<rows, lanes_of_tile(rows)>{a, rows_, packed, depth_, tiling_.depth, columns_, c,
                                                               c_row, panels_at_once_, backwards_},
                   ceil_div(panels_, current_instance().concurrency()));
  }

  MatMulDesc desc_;
  Index rows_, depth_, columns_;
  Tiling tiling_;
  Index whole_, panels_, panels_at_once_;
  bool backwards_ = false;  ///< the direction of the next call, on which no result depends
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
