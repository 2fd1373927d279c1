#include <algorithm>
#include <cmath>

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/matrix_shares.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/kfac.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

#ifndef KEELSON_HAVE_CUDA

double inverse_flops(std::int64_t n, bool eigen) {
  return (eigen ? 9.0 : 1.0) * static_cast<double>(n) * static_cast<double>(n * n);
}

double mean_of_diagonal(const float* m, Index n) {
  double sum = 0;
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(m[i * (n + 1)]);
  return sum / static_cast<double>(n);
}

class LapackFactorInverses : public FactorInverses {
 public:
  explicit LapackFactorInverses(const FactorInversesDesc& d)
      : d_(d), shares_(rows_of(d)), works_(d.matrices.size()), damping_(d.matrices.size()) {}

  Layout layout(Verb, Role) const override { return Layout::any(); }
  std::string name(Verb) const override { return d_.eigen ? "dsyevd" : "dpotri"; }
  std::size_t scratch_bytes(Verb) const override { return shares_.scratch_bytes(); }
  Cost cost(Verb) const override {
    Cost cost;
    for (const std::int64_t n : rows_of(d_)) {
      cost.flops += inverse_flops(n, d_.eigen);
      cost.bytes += 2 * static_cast<double>(n * n) * sizeof(float);
    }
    return cost;
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [factors, inverses, scratch] = args;
    for (const Tensor& t : inverses) std::fill_n(t.data<float>(), t.elements(), 0.0f);
    for (std::size_t i = 0; i < works_.size(); ++i) prepare(i, factors, inverses);
    shares_.run("keelson::factor_inverses", scratch.raw(), [this](std::size_t i, double* memory) {
      if (works_[i].n == 0) return;
      if (d_.eigen)
        lapack::eigenvectors(works_[i], memory);
      else
        lapack::inverse(works_[i], damping_[i], memory);
    });
  }

 private:
  static std::vector<std::int64_t> rows_of(const FactorInversesDesc& d) {
    std::vector<std::int64_t> rows;
    for (const auto m : d.matrices) rows.push_back(d.factors[static_cast<std::size_t>(m)].shape[0]);
    return rows;
  }

  /// A matrix of no rows has nothing to be done.
  void prepare(std::size_t i, const std::vector<Tensor>& factors, const std::vector<Tensor>& inverses) {
    const auto mine = static_cast<std::size_t>(d_.matrices[i]);
    const Tensor &own = factors[mine], &other = factors[mine ^ 1];
    const std::int64_t n = own.shape()[0];
    const double mean = mean_of_diagonal(own.data<float>(), n),
                 mean_of_other = mean_of_diagonal(other.data<float>(), other.shape()[0]);
    const bool is_empty = mean == 0 || mean_of_other == 0;
    works_[i] = {own.data<float>(), inverses[mine].data<float>(), is_empty ? 0 : n, n};
    damping_[i] = std::sqrt(static_cast<double>(d_.damping) * mean / mean_of_other);
  }

  FactorInversesDesc d_;
  MatrixShares shares_;
  std::vector<lapack::Matrix> works_;
  std::vector<double> damping_;
};

#endif

}  // namespace

Expected<FactorInverses> make(const FactorInversesDesc& d) {
#ifdef KEELSON_HAVE_CUDA
  (void)d;
  return std::string("inverses of factors are computed on CPUs alone so far: train on CPUs, or with another optimizer");
#else
  if (!lapack::available())
    return std::string("this build has no LAPACK: install LAPACK, e.g. OpenBLAS, and build again");
  if (!(d.damping >= 0)) return fmt::format("damping is {}, expected 0 or more", d.damping);
  if (d.factors.size() % 2 != 0) return fmt::format("{} factors, expected two for each layer", d.factors.size());
  for (const TensorDesc& f : d.factors)
    if (f.dtype != DType::f32 || f.shape.rank() != 2 || f.shape[0] != f.shape[1] || !f.layout.is_plain(f.shape))
      return fmt::format("a factor is {}, expected a plain square matrix of f32", to_string(f));
  for (const auto m : d.matrices)
    if (m < 0 || m >= std::ssize(d.factors)) return fmt::format("there is no factor {}", m);
  return std::unique_ptr<FactorInverses>(std::make_unique<LapackFactorInverses>(d));
#endif
}

}  // namespace keelson::kokkos
