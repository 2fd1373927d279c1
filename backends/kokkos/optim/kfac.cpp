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

/// One item: finds the weights, before the factors change.
struct FindFactorWeights {
  const StepParams* step_params;
  const LossScale* loss_scale;
  const float *a_sums, *a, *g;
  Index last, a_rows, g_rows;  ///< last: element of a_sums
  float positions, chosen, decay;
  FactorWeights* weights;

  KOKKOS_FUNCTION void operator()(Index) const {
    FactorWeights w{1, 0, 1, 0};
    const float count = a_sums[last];
    if (!skips(loss_scale) && count != 0) {
      const float unscale = (loss_scale ? loss_scale->unscale : 1.0f) / step_params->inverse_samples;
      w.keep_a = trace(a, a_rows) == 0 ? 0 : decay;
      w.keep_g = trace(g, g_rows) == 0 ? 0 : decay;
      w.share_a = (1 - w.keep_a) * positions / count;
      w.share_g = (1 - w.keep_g) * unscale * unscale * chosen / (count * positions);
    }
    *weights = w;
  }
  KOKKOS_FUNCTION static float trace(const float* m, Index n) {
    float sum = 0;
    for (Index i = 0; i < n; ++i) sum += m[i * (n + 1)];
    return sum;
  }
};

/// An item updates a row of the upper triangle, and the column of the lower one, on a CPU; an element on a GPU.
struct UpdateFactor {
  const FactorWeights* weights;
  bool is_a;
  const float* sums;
  Index sum_rows, rows;  ///< of the packed triangle; of the factor
  float* factor;

  KOKKOS_FUNCTION void operator()(Index item) const {
    if constexpr (runs_on_host)
      update(item, item, rows);
    else if (item % rows >= item / rows)
      update(item / rows, item % rows, item % rows + 1);
  }
  KOKKOS_FUNCTION void update(Index row, Index begin, Index end) const {
    const float keep = is_a ? weights->keep_a : weights->keep_g, share = is_a ? weights->share_a : weights->share_g;
    if (share == 0) return;  // the sums may be infinite
    const float* const from = sums + triangle_row(sum_rows, row) - row;
    for (Index i = begin; i < end; ++i)
      factor[row * rows + i] = factor[i * rows + row] = keep * factor[row * rows + i] + share * from[i];
  }
};

struct DivideByEigenvalues {
  float* values;
  const float *of_rows, *of_columns;
  Index columns;
  float damping;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) values[i] /= of_rows[i / columns] * of_columns[i % columns] + damping;
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

struct ProductBlocks {
  ProductTerm term;
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
    for (Index i = begin; i < end; i += by) to[i] = factor * from[i];
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
    const Index a_rows = desc_.a_rows(), g_rows = desc_.outputs;
    launch("keelson::kfac::factor_weights", 1,
           FindFactorWeights{
               static_cast<const StepParams*>(step_params.raw()), static_cast<const LossScale*>(loss_scale.raw()),
               a_sums.data<float>(), a.data<float>(), g.data<float>(), a_sums.elements() - 1, a_rows, g_rows,
               static_cast<float>(desc_.positions), static_cast<float>(desc_.chosen), desc_.decay, weights});
    const auto update = [&](bool is_a, const Tensor& sums, Index sum_rows, Index rows, const Tensor& factor) {
      launch("keelson::kfac::factor", runs_on_host ? rows : rows * rows,
             UpdateFactor{weights, is_a, sums.data<float>(), sum_rows, rows, factor.data<float>()});
    };
    update(true, a_sums, desc_.inputs + 1, a_rows, a);
    update(false, g_sums, g_rows, g_rows, g);
  }

 private:
  RunningFactorsDesc desc_;
};

class KokkosEigenQuotient : public EigenQuotient {
 public:
  explicit KokkosEigenQuotient(const EigenQuotientDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return Layout::plain({desc_.rows, desc_.columns}); }
  std::string name(Verb) const override { return "flat"; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.rows * desc_.columns);
    return {elements * 3, elements * 2 * sizeof(float)};
  }

  void divide(const Tensor& values, const Tensor& of_rows, const Tensor& of_columns) override {
    const Index rows = desc_.rows, columns = desc_.columns;
    for_each_block("keelson::kfac::quotient", rows * columns,
                   DivideByEigenvalues{values.data<float>(), of_rows.data<float>() + rows * rows,
                                       of_columns.data<float>() + columns * columns, columns, desc_.damping});
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
      launch("keelson::kfac::product_blocks", blocks, ProductBlocks{term, elements_, parts});
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
  Layout layout(Verb, Role) const override { return desc_.direction.layout; }
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
                   direction.data<float>(), gradient.data<float>(), dst.data<float>()});
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
  if (d.inputs < 1 || d.outputs < 1 || d.chosen < 1 || d.positions < d.chosen)
    return fmt::format("factors of {} inputs and {} outputs, {} of {} positions", d.inputs, d.outputs, d.chosen,
                       d.positions);
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
  if (const auto why = not_dense_f32("direction", d.direction); !why.empty()) return why;
  return std::unique_ptr<KlClip>(std::make_unique<KokkosKlClip>(d));
}

}  // namespace keelson::kokkos
