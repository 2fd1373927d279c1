#include <algorithm>
#include <cmath>

#include "backends/common/symmetric.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/background_matrices.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/shampoo.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

#ifndef KEELSON_HAVE_CUDA

class LapackInverseRoots : public InverseRoots {
 public:
  explicit LapackInverseRoots(const InverseRootsDesc& d)
      : d_(d), shares_(backends::rows_of(d)), background_(shares_, compute) {}

  Layout layout(Verb, Role) const override { return Layout::any(); }
  std::string name(Verb) const override { return "dsyevd"; }
  std::size_t scratch_bytes(Verb) const override { return shares_.scratch_bytes(); }
  Cost cost(Verb) const override { return backends::cost_of(d_); }

  void begin(const Tensor& step_params, const std::vector<Tensor>& srcs) override {
    if (!d_.matrices.empty()) background_.begin(works_of(srcs, srcs, scale_of(step_params, 0)));
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, srcs, dsts, scratch] = args;
    for (const Tensor& dst : dsts) std::fill_n(dst.data<float>(), dst.elements(), 0.0f);
    const auto& works = works_of(srcs, dsts, scale_of(step_params, d_.delay));
    if (background_.take(works)) return;
    shares_.run("keelson::inverse_roots", scratch.raw(),
                [&](std::size_t i, double* memory) { compute(works[i], memory); });
  }

 private:
  static void compute(const MatrixWork& w, double* scratch) {
    lapack::inverse_root(w.matrix, w.scale, w.epsilon, w.root, scratch);
  }
  const std::vector<MatrixWork>& works_of(const std::vector<Tensor>& srcs, const std::vector<Tensor>& dsts,
                                          double scale) {
    works_.clear();
    for (const auto& m : d_.matrices) {
      const auto array = static_cast<std::size_t>(m.array);
      const std::int64_t stride = d_.srcs[array].shape[2], at = m.index * stride * stride;
      works_.push_back({{srcs[array].data<float>() + at, dsts[array].data<float>() + at, m.size, stride},
                        m.size,
                        static_cast<double>(d_.epsilon),
                        scale,
                        m.root});
    }
    return works_;
  }
  /// 1 / correction, for matrices of `delay` steps ago.
  double scale_of(const Tensor& step_params, std::int64_t delay) const {
    const auto step = static_cast<std::int64_t>(static_cast<const StepParams*>(step_params.raw())->step);
    const auto t = static_cast<double>(step + 1 - delay);
    return d_.decay < 1 ? 1 / (1 - std::pow(static_cast<double>(d_.decay), t)) : 1;
  }

  InverseRootsDesc d_;
  MatrixShares shares_;
  BackgroundMatrices background_;
  std::vector<MatrixWork> works_;  ///< of the current call
};

#endif

}  // namespace

Expected<InverseRoots> make(const InverseRootsDesc& d) {
#ifdef KEELSON_HAVE_CUDA
  (void)d;
  return std::string("roots of matrices on GPUs are made by the backend cuda");
#else
  if (!lapack::available())
    return std::string("this build has no LAPACK: install LAPACK, e.g. OpenBLAS, and build again");
  if (auto why = backends::misfit(d); !why.empty()) return why;
  return std::unique_ptr<InverseRoots>(std::make_unique<LapackInverseRoots>(d));
#endif
}

}  // namespace keelson::kokkos
