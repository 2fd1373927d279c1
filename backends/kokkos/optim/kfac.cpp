#include "engine/ops/kfac.hpp"

#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// factor = keep factor + share sums; nothing changes if share is 0.
struct FactorWeights {
  float keep_a, share_a, keep_g, share_g;
};

/// DiagonalBlocks in device code.
struct BlockSizes {
  Index count, size, last;  ///< last: rows of the last block

  explicit BlockSizes(const DiagonalBlocks& b) : count(b.count), size(b.size), last(b.rows_of(b.count - 1)) {}
  KOKKOS_FUNCTION Index rows(Index block) const { return block + 1 < count ? size : last; }
};

/// One item: finds the weights, before the factors change.
struct FindFactorWeights {
  const StepParams* step_params;
  const LossScale* loss_scale;
  const float *a_sums, *a, *g;
  Index last;  ///< element of a_sums
  BlockSizes a_blocks, g_blocks;
  float positions, chosen, decay;
  FactorWeights* weights;

  KOKKOS_FUNCTION void operator()(Index) const {
    FactorWeights w{1, 0, 1, 0};
    const float count = a_sums[last];
    if (!skips(loss_scale) && count != 0) {
      const float unscale = (loss_scale ? loss_scale->unscale : 1.0f) / step_params->inverse_samples;
      w.keep_a = trace(a, a_blocks) == 0 ? 0 : decay;
      w.keep_g = trace(g, g_blocks) == 0 ? 0 : decay;
      w.share_a = (1 - w.keep_a) * positions / count;
      w.share_g = (1 - w.keep_g) * unscale * unscale * chosen / (count * positions);
    }
    *weights = w;
  }
  KOKKOS_FUNCTION static float trace(const float* m, const BlockSizes& b) {
    float sum = 0;
    for (Index k = 0; k < b.count; ++k)
      for (Index i = 0; i < b.size; ++i) sum += m[(k * b.size + i) * b.size + i];
    return sum;
  }
};

/// An item updates an element of the upper triangle of a block, and the one across the diagonal, on a GPU. On a CPU it
/// updates two bands of rows, the one at the top as long as the other is short, tile by tile: elements across the
/// diagonal are in as many places of the memory as a tile has rows.
struct UpdateFactor {
  static constexpr Index tile = 32;

  const FactorWeights* weights;
  bool is_a;
  const float* sums;
  Index last_sum_rows;  ///< of the packed triangle of the last block
  BlockSizes blocks;
  float* factor;

  Index bands() const { return (blocks.size + tile - 1) / tile; }
  Index items() const { return blocks.count * (runs_on_host ? (bands() + 1) / 2 : blocks.size * blocks.size); }

  KOKKOS_FUNCTION void operator()(Index item) const {
    if constexpr (runs_on_host) {
      const Index bands = (blocks.size + tile - 1) / tile, pairs = (bands + 1) / 2;
      const Index block = item / pairs, band = item % pairs, other = bands - 1 - band;
      update_band(block, band * tile);
      if (other != band) update_band(block, other * tile);
    } else {
      const Index elements = blocks.size * blocks.size, block = item / elements, n = blocks.rows(block);
      const Index row = item % elements / blocks.size, column = item % blocks.size;
      if (column < row || column >= n) return;
      update(block, row, column, column + 1);
      mirror(block, row, column, column + 1);
    }
  }
  KOKKOS_FUNCTION void update_band(Index block, Index first) const {
    const Index n = blocks.rows(block), end = first + tile < n ? first + tile : n;
    for (Index column = first; column < n; column += tile) {
      const Index column_end = column + tile < n ? column + tile : n;
      for (Index row = first; row < end; ++row) update(block, row, row > column ? row : column, column_end);
      for (Index row = first; row < end; ++row) mirror(block, row, row > column ? row : column, column_end);
    }
  }
  KOKKOS_FUNCTION float* elements(Index block) const { return factor + block * blocks.size * blocks.size; }
  KOKKOS_FUNCTION void update(Index block, Index row, Index begin, Index end) const {
    const float keep = is_a ? weights->keep_a : weights->keep_g, share = is_a ? weights->share_a : weights->share_g;
    if (share == 0) return;  // the sums may be infinite
    const Index sum_rows = block + 1 < blocks.count ? blocks.size : last_sum_rows;
    const float* const from = sums + block * triangle_size(blocks.size) + triangle_row(sum_rows, row) - row;
    float* const to = elements(block) + row * blocks.size;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; ++i) to[i] = keep * to[i] + share * from[i];
  }
  KOKKOS_FUNCTION void mirror(Index block, Index row, Index begin, Index end) const {
    float* const m = elements(block);
    for (Index i = begin; i < end; ++i) m[i * blocks.size + row] = m[row * blocks.size + i];
  }
};

/// An item divides a row on a CPU, an element on a GPU.
struct DivideByEigenvalues {
  float* values;
  const float *of_rows, *of_columns;
  BlockSizes rows;
  Index columns;
  float damping;

  KOKKOS_FUNCTION void operator()(Index item) const {
    if constexpr (runs_on_host)
      divide(item, 0, columns);
    else
      divide(item / columns, item % columns, item % columns + 1);
  }
  KOKKOS_FUNCTION void divide(Index row, Index begin, Index end) const {
    const Index block = row / rows.size;
    const float v = of_rows[(block * (rows.size + 1) + rows.rows(block)) * rows.size + row % rows.size];
    float* const to = values + row * columns;
    for (Index i = begin; i < end; ++i) {
      const float divisor = v * of_columns[i] + damping;
      to[i] = divisor == 0 ? 0 : to[i] / divisor;
    }
  }
};

/// On a CPU blocks of a fixed size are summed, so that the result does not depend on the number of threads.
constexpr Index product_block = 8192;

struct ProductTerm {
  const float *a, *b;
  double factor;
  KOKKOS_FUNCTION double operator()(Index i) const {
    return factor * static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
};

/// A template, since nvcc warns of functions that nobody calls on a GPU.
template <class Term>
struct ProductBlocks {
  Term term;
  Index elements;
  double* sums;

  KOKKOS_FUNCTION void operator()(Index b) const {
    constexpr int lanes = 16;
    double lane[lanes] = {};
    const Index begin = b * product_block, end = begin + product_block < elements ? begin + product_block : elements;
    Index i = begin;
    for (; i + lanes <= end; i += lanes)
      for (int l = 0; l < lanes; ++l) lane[l] += term(i + l);
    double sum = 0;
    for (; i < end; ++i) sum += term(i);
    for (int l = 0; l < lanes; ++l) sum += lane[l];
    sums[b] = sum;
  }
};

struct KlClipBody {
  const StepParams* step_params;
  const LossScale* loss_scale;
  const double *products, *global_norm;
  Index count, index;
  int global_norms;
  float clip, clip_norm;
  const float *direction, *gradient;
  Index columns, stride;  ///< stride: from row to row of direction and gradient
  float* dst;

  KOKKOS_FUNCTION float nu() const {
    if (clip <= 0) return 1;
    double sum = 0;
    for (Index i = 0; i < count; ++i) sum += products[i];
    const double rate = static_cast<double>(step_params->learning_rate) *
                        gradient_factor(loss_scale, clip_norm, global_norm, global_norms);
    sum *= rate * rate;
    return sum > static_cast<double>(clip) ? static_cast<float>(Kokkos::sqrt(static_cast<double>(clip) / sum)) : 1.0f;
  }

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    const Index by = next_element(apart);
    const bool has_direction = products[index] != 0;
    const float* from = has_direction ? direction : gradient;
    const float factor = has_direction ? nu() : 1.0f;
    float* to = dst;
    if constexpr (!runs_on_host) {
      for (Index i = begin; i < end; i += by) to[i] = factor * from[i / columns * stride + i % columns];
    } else {
      while (begin < end) {  // row by row
        const Index row = begin / columns, next = (row + 1) * columns < end ? (row + 1) * columns : end;
        const float* const source = from + row * (stride - columns);
        KEELSON_INDEPENDENT_ITERATIONS
        for (Index i = begin; i < next; ++i) to[i] = factor * source[i];
        begin = next;
      }
    }
  }
};

class KokkosRunningFactors : public RunningFactors {
 public:
  explicit KokkosRunningFactors(const RunningFactorsDesc& d) : desc_(d) {}
  Layout layout(Verb, Role r) const override {
    switch (r) {
      case Role::sums:
        return desc_.a_sums().layout;
      case Role::diff_sums:
        return desc_.g_sums().layout;
      default:
        return (r == Role::moment1 ? desc_.a() : desc_.g()).layout;
    }
  }
  std::string name(Verb) const override { return "rows"; }
  std::size_t scratch_bytes(Verb) const override { return sizeof(FactorWeights); }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.a().elements() + desc_.g().elements());
    return {elements * 1.5, elements * 2.5 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, a_sums, g_sums, a, g, loss_scale, scratch] = args;
    auto* const weights = static_cast<FactorWeights*>(scratch.raw());
    const BlockSizes of_a(desc_.a_blocks), of_g(desc_.g_blocks);
    launch("keelson::kfac::factor_weights", 1,
           FindFactorWeights{static_cast<const StepParams*>(step_params.raw()),
                             static_cast<const LossScale*>(loss_scale.raw()), a_sums.data<float>(), a.data<float>(),
                             g.data<float>(), a_sums.elements() - 1, of_a, of_g, static_cast<float>(desc_.positions),
                             static_cast<float>(desc_.chosen), desc_.decay, weights});
    const auto update = [&](const UpdateFactor& body) { launch("keelson::kfac::factor", body.items(), body); };
    update({weights, true, a_sums.data<float>(), of_a.last + (desc_.bias ? 0 : 1), of_a, a.data<float>()});
    update({weights, false, g_sums.data<float>(), of_g.last, of_g, g.data<float>()});
  }

 private:
  RunningFactorsDesc desc_;
};

class KokkosEigenQuotient : public EigenQuotient {
 public:
  explicit KokkosEigenQuotient(const EigenQuotientDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return Layout::plain({desc_.rows.rows, desc_.columns}); }
  std::string name(Verb) const override { return "rows"; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.rows.rows * desc_.columns);
    return {elements * 3, elements * 2 * sizeof(float)};
  }

  void divide(const Tensor& values, const Tensor& of_rows, const Tensor& of_columns) override {
    const Index rows = desc_.rows.rows, columns = desc_.columns;
    launch("keelson::kfac::quotient", runs_on_host ? rows : rows * columns,
           DivideByEigenvalues{values.data<float>(), of_rows.data<float>(), of_columns.data<float>(),
                               BlockSizes(desc_.rows), columns, desc_.damping});
  }

 private:
  EigenQuotientDesc desc_;
};

class KokkosInnerProduct : public InnerProduct {
 public:
  explicit KokkosInnerProduct(const InnerProductDesc& d)
      : desc_(d), elements_(static_cast<Index>(d.src.bytes() / sizeof(float))) {}
  Layout layout(Verb, Role) const override { return desc_.src.layout; }
  std::string name(Verb) const override { return "blocked"; }
  std::size_t scratch_bytes(Verb) const override {
    const Index sums = runs_on_host ? ceil_div(elements_, product_block) : parallel_sum_scratch(elements_);
    return static_cast<std::size_t>(sums) * sizeof(double);
  }
  Cost cost(Verb) const override {
    return {2.0 * static_cast<double>(elements_), 2.0 * static_cast<double>(elements_) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [a, b, sums, scratch] = args;
    auto* const parts = static_cast<double*>(scratch.raw());
    double* const result = sums.data<double>() + desc_.index;
    const ProductTerm term{a.data<float>(), b.data<float>(), desc_.factor};
    if constexpr (runs_on_host) {
      const Index blocks = ceil_div(elements_, product_block);
      launch("keelson::kfac::product_blocks", blocks, ProductBlocks<ProductTerm>{term, elements_, parts});
      sum_in_order("keelson::kfac::product", parts, blocks, result);
    } else {
      parallel_sum("keelson::kfac::product", term, elements_, parts, result);
    }
  }

 private:
  InnerProductDesc desc_;
  Index elements_;
};

class KokkosKlClip : public KlClip {
 public:
  explicit KokkosKlClip(const KlClipDesc& d) : desc_(d) {}
  Layout layout(Verb, Role r) const override { return (r == Role::dst ? desc_.dst() : desc_.direction).layout; }
  std::string name(Verb) const override { return "flat"; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.direction.elements());
    return {elements, elements * 2 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, direction, gradient, products, global_norm, dst, loss_scale] = args;
    KEELSON_EXPECT(desc_.clip_norm <= 0 || global_norm);
    for_flat_elements(
        "keelson::kfac::kl_clip", dst.stored_elements(),
        KlClipBody{static_cast<const StepParams*>(step_params.raw()), static_cast<const LossScale*>(loss_scale.raw()),
                   products.data<double>(), static_cast<const double*>(global_norm.raw()), products.elements(),
                   desc_.index, global_norm ? static_cast<int>(global_norm.elements()) : 0, desc_.clip, desc_.clip_norm,
                   direction.data<float>(), gradient.data<float>(), desc_.direction.shape[1],
                   desc_.direction.layout.strides()[0], dst.data<float>()});
  }

 private:
  KlClipDesc desc_;
};

std::string not_dense_f32(const char* name, const TensorDesc& d) {
  if (d.dtype != DType::f32) return fmt::format("{} is {}, not f32", name, to_string(d.dtype));
  if (!d.layout.is_dense(d.shape)) return fmt::format("{} needs a dense layout: {}", name, d.layout.to_string());
  return "";
}

}  // namespace

Expected<RunningFactors> make(const RunningFactorsDesc& d) {
  if (d.chosen < 1 || d.positions < d.chosen) return fmt::format("{} of {} positions", d.chosen, d.positions);
  return std::unique_ptr<RunningFactors>(std::make_unique<KokkosRunningFactors>(d));
}

Expected<EigenQuotient> make(const EigenQuotientDesc& d) {
  if (d.damping < 0) return fmt::format("damping is {}, expected 0 or more", d.damping);
  return std::unique_ptr<EigenQuotient>(std::make_unique<KokkosEigenQuotient>(d));
}

Expected<InnerProduct> make(const InnerProductDesc& d) {
  if (const auto why = not_dense_f32("src", d.src); !why.empty()) return why;
  return std::unique_ptr<InnerProduct>(std::make_unique<KokkosInnerProduct>(d));
}

Expected<KlClip> make(const KlClipDesc& d) {
  const TensorDesc& t = d.direction;
  if (t.dtype != DType::f32 || t.shape.rank() != 2 || !t.layout.is_strided() || t.layout.strides()[1] != 1)
    return fmt::format("direction is {}, expected a matrix of f32 whose elements of a row are neighbours",
                       to_string(t));
  return std::unique_ptr<KlClip>(std::make_unique<KokkosKlClip>(d));
}

}  // namespace keelson::kokkos
