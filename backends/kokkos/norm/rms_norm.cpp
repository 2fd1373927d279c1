#include "engine/ops/rms_norm.hpp"

#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

template <class T>
KOKKOS_INLINE_FUNCTION float inverse_norm(const T* x, Index features, float epsilon) {
  double sum = 0;
  for (Index f = 0; f < features; ++f) sum += static_cast<double>(value_of(x[f]) * value_of(x[f]));
  return static_cast<float>(1 / Kokkos::sqrt(sum / static_cast<double>(features) + static_cast<double>(epsilon)));
}

template <class T>
void normalize(Index rows, Index features, float epsilon, const T* src, const float* scale, T* dst) {
  launch(
      "keelson::rms_norm::forward", rows, KOKKOS_LAMBDA(Index i) {
        const T* x = src + i * features;
        const float r = inverse_norm(x, features, epsilon);
        for (Index f = 0; f < features; ++f) dst[i * features + f] = stored<T>(value_of(x[f]) * r * scale[f]);
      });
}

template <class T>
void gradient_of_src(Index rows, Index features, float epsilon, const T* diff_dst, const T* src, const float* scale,
                     T* diff_src) {
  launch(
      "keelson::rms_norm::backward_data", rows, KOKKOS_LAMBDA(Index i) {
        const T *x = src + i * features, *g = diff_dst + i * features;
        const float r = inverse_norm(x, features, epsilon);
        double dot = 0;
        for (Index f = 0; f < features; ++f) dot += static_cast<double>(scale[f] * value_of(g[f]) * value_of(x[f]));
        const float slope = r * r * static_cast<float>(dot / static_cast<double>(features));
        for (Index f = 0; f < features; ++f)
          diff_src[i * features + f] = stored<T>(r * (scale[f] * value_of(g[f]) - value_of(x[f]) * slope));
      });
}

/// Slot s adds every slots-th row, and the total adds all slots: a fixed order.
template <class T>
void gradient_of_scale(Index rows, Index features, Index slots, float epsilon, const T* diff_dst, const T* src,
                       double* parts, float* diff_scale) {
  launch(
      "keelson::rms_norm::partial_sums", slots, KOKKOS_LAMBDA(Index s) {
        for (Index f = 0; f < features; ++f) parts[s * features + f] = 0;
        for (Index i = s; i < rows; i += slots) {
          const T *x = src + i * features, *g = diff_dst + i * features;
          const float r = inverse_norm(x, features, epsilon);
          for (Index f = 0; f < features; ++f)
            parts[s * features + f] += static_cast<double>(value_of(g[f]) * value_of(x[f]) * r);
        }
      });
  launch(
      "keelson::rms_norm::total", features, KOKKOS_LAMBDA(Index f) {
        double sum = 0;
        for (Index s = 0; s < slots; ++s) sum += parts[s * features + f];
        diff_scale[f] = static_cast<float>(sum);
      });
}

class KokkosRmsNorm : public RmsNorm {
 public:
  explicit KokkosRmsNorm(const RmsNormDesc& d) : d_(d), rows_(d.src.shape[0]), features_(d.src.shape[1]) {}
  Layout layout(Verb, Role r) const override {
    return r == Role::weights || r == Role::diff_weights ? d_.scale_desc().layout : d_.src.layout;
  }
  std::string name(Verb) const override { return "rows"; }
  Cost cost(Verb) const override {
    return {5.0 * static_cast<double>(d_.src.elements()), 2.0 * static_cast<double>(d_.src.bytes())};
  }
  std::size_t scratch_bytes(Verb v) const override {
    return v == Verb::backward_weights ? static_cast<std::size_t>(slots() * features_) * sizeof(double) : 0;
  }

  void forward(const Forward<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) {
      normalize(rows_, features_, d_.epsilon, args.src.data<T>(), args.scale.data<float>(), args.dst.data<T>());
    });
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) {
      gradient_of_src(rows_, features_, d_.epsilon, args.diff_dst.data<T>(), args.src.data<T>(),
                      args.scale.data<float>(), args.diff_src.data<T>());
    });
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) {
      gradient_of_scale(rows_, features_, slots(), d_.epsilon, args.diff_dst.data<T>(), args.src.data<T>(),
                        static_cast<double*>(args.scratch.raw()), args.diff_scale.data<float>());
    });
  }

 private:
  Index slots() const { return rows_ < 1024 ? rows_ : 1024; }
  RmsNormDesc d_;
  Index rows_, features_;
};

}  // namespace

Expected<RmsNorm> make(const RmsNormDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (d.src.shape.rank() != 2 || !d.src.layout.is_plain(d.src.shape)) return std::string("src is not a plain matrix");
  return std::unique_ptr<RmsNorm>(std::make_unique<KokkosRmsNorm>(d));
}

}  // namespace keelson::kokkos
