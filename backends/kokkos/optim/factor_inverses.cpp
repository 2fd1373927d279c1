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
        shares_(rows_of(d), d.eigen ? lapack::scratch_doubles : lapack::scratch_doubles_of_inverse),
        works_(d.matrices.size()),
        damping_(d.matrices.size()) {}

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
    means_.clear();
    for (std::size_t i = 0; i < factors.size(); ++i)
      means_.push_back(mean_of_diagonal(factors[i].data<float>(), d_.blocks[i]));
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
    for (const auto& m : d.matrices) rows.push_back(d.blocks[static_cast<std::size_t>(m.factor)].rows_of(m.block));
    return rows;
  }

  /// A matrix of no rows has nothing to be done.
  void prepare(std::size_t i, const std::vector<Tensor>& factors, const std::vector<Tensor>& inverses) {
    const auto mine = static_cast<std::size_t>(d_.matrices[i].factor);
    const Index block = d_.matrices[i].block, n = d_.blocks[mine].rows_of(block), size = d_.blocks[mine].size;
    const float* const src = factors[mine].data<float>() + block * size * size;
    float* const dst = inverses[mine].data<float>() + block * size * (size + (d_.eigen ? 1 : 0));
    const double mean = means_[mine], mean_of_other = means_[mine ^ 1];
    const bool is_empty = mean == 0 || mean_of_other == 0 || (d_.damping == 0 && is_zero(src, n, size));
    works_[i] = {src, dst, is_empty ? 0 : n, size};
    damping_[i] = std::sqrt(static_cast<double>(d_.damping) * mean / mean_of_other);
  }

  FactorInversesDesc d_;
  MatrixShares shares_;
  std::vector<lapack::Matrix> works_;
  std::vector<double> means_, damping_;  ///< means_: of the diagonals of the factors
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
  if (d.blocks.size() % 2 != 0) return fmt::format("{} factors, expected two for each layer", d.blocks.size());
  for (const auto& m : d.matrices) {
    if (m.factor < 0 || m.factor >= std::ssize(d.blocks)) return fmt::format("there is no factor {}", m.factor);
    if (m.block < 0 || m.block >= d.blocks[static_cast<std::size_t>(m.factor)].count)
      return fmt::format("factor {} has no block {}", m.factor, m.block);
  }
  return std::unique_ptr<FactorInverses>(std::make_unique<LapackFactorInverses>(d));
#endif
}

}  // namespace keelson::kokkos
