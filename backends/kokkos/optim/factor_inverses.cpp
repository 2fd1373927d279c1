#include <algorithm>
#include <cmath>

#include "backends/common/symmetric.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/background_matrices.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/kfac.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

#ifndef KEELSON_HAVE_CUDA

double mean_of_diagonal(const float* blocks, const DiagonalBlocks& b) {
  double sum = 0;
  for (Index k = 0; k < b.count; ++k)
    for (Index i = 0; i < b.size; ++i) sum += static_cast<double>(blocks[(k * b.size + i) * b.size + i]);
  return sum / static_cast<double>(b.rows);
}

bool is_zero(const float* m, Index n, Index stride) {
  for (Index i = 0; i < n; ++i)
    if (m[i * stride + i] != 0) return false;
  return true;
}

class LapackFactorInverses : public FactorInverses {
 public:
  explicit LapackFactorInverses(const FactorInversesDesc& d)
      : d_(d),
        shares_(backends::rows_of(d), d.eigen ? lapack::scratch_doubles : lapack::scratch_doubles_of_inverse),
        compute_(d.eigen ? eigenvectors : inverse),
        background_(shares_, compute_) {}

  Layout layout(Verb, Role) const override { return Layout::any(); }
  std::string name(Verb) const override { return d_.eigen ? "dsyevd" : "dpotri"; }
  std::size_t scratch_bytes(Verb) const override { return shares_.scratch_bytes(); }
  Cost cost(Verb) const override { return backends::cost_of(d_); }

  void begin(const std::vector<Tensor>& factors) override {
    if (!d_.matrices.empty()) background_.begin(works_of(factors, factors));
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [factors, inverses, scratch] = args;
    for (const Tensor& t : inverses) std::fill_n(t.data<float>(), t.elements(), 0.0f);
    const auto& works = works_of(factors, inverses);
    if (background_.take(works)) return;
    shares_.run("keelson::factor_inverses", scratch.raw(), [&](std::size_t i, double* memory) {
      if (works[i].matrix.n > 0) compute_(works[i], memory);
    });
  }

 private:
  static void eigenvectors(const MatrixWork& w, double* scratch) { lapack::eigenvectors(w.matrix, scratch); }
  static void inverse(const MatrixWork& w, double* scratch) { lapack::inverse(w.matrix, w.epsilon, scratch); }

  const std::vector<MatrixWork>& works_of(const std::vector<Tensor>& factors, const std::vector<Tensor>& inverses) {
    means_.clear();
    for (std::size_t i = 0; i < factors.size(); ++i)
      means_.push_back(mean_of_diagonal(factors[i].data<float>(), d_.blocks[i]));
    works_.clear();
    for (const auto& m : d_.matrices) works_.push_back(work_of(m, factors, inverses));
    return works_;
  }
  MatrixWork work_of(const FactorInversesDesc::Matrix& m, const std::vector<Tensor>& factors,
                     const std::vector<Tensor>& inverses) const {
    const auto mine = static_cast<std::size_t>(m.factor);
    const Index n = d_.blocks[mine].rows_of(m.block), size = d_.blocks[mine].size;
    const float* const src = factors[mine].data<float>() + m.block * size * size;
    float* const dst = inverses[mine].data<float>() + m.block * size * (size + (d_.eigen ? 1 : 0));
    const double mean = means_[mine], mean_of_other = means_[mine ^ 1];
    const bool is_empty = mean == 0 || mean_of_other == 0 || (d_.damping == 0 && is_zero(src, n, size));
    return {{src, dst, is_empty ? 0 : n, size},
            n + (d_.eigen ? 1 : 0),
            is_empty ? 0 : std::sqrt(static_cast<double>(d_.damping) * mean / mean_of_other)};
  }

  FactorInversesDesc d_;
  MatrixShares shares_;
  BackgroundMatrices::Compute compute_;
  BackgroundMatrices background_;
  std::vector<MatrixWork> works_;  ///< of the current call
  std::vector<double> means_;      ///< of the diagonals of the factors
};

#endif

}  // namespace

Expected<FactorInverses> make(const FactorInversesDesc& d) {
#ifdef KEELSON_HAVE_CUDA
  (void)d;
  return std::string("inverses of factors on GPUs are made by the backend cuda");
#else
  if (!lapack::available())
    return std::string("this build has no LAPACK: install LAPACK, e.g. OpenBLAS, and build again");
  if (auto why = backends::misfit(d); !why.empty()) return why;
  return std::unique_ptr<FactorInverses>(std::make_unique<LapackFactorInverses>(d));
#endif
}

}  // namespace keelson::kokkos
