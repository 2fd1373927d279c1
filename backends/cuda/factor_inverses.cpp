#include <algorithm>
#include <memory>
#include <vector>

#include "backends/common/symmetric.hpp"
#include "backends/cuda/cusolver.hpp"
#include "backends/cuda/makers.hpp"
#include "engine/base/align.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

class CudaFactorInverses : public FactorInverses {
 public:
  CudaFactorInverses(const LibraryPtr& library, const FactorInversesDesc& d)
      : library_(library), d_(d), solver_(library, backends::rows_of(d), !d.eigen), states_(d.matrices.size()) {
    for (const DiagonalBlocks& b : d_.blocks) sum_scratch_ = std::max(sum_scratch_, diagonal_sum_scratch(b));
  }

  Layout layout(Verb, Role) const override { return Layout::any(); }
  std::string name(Verb) const override { return d_.eigen ? "cusolver:syevd" : "cusolver:potri"; }
  std::size_t scratch_bytes(Verb) const override { return sums_bytes() + solver_.scratch_bytes(); }
  bool can_be_captured(Verb) const override { return false; }
  Cost cost(Verb) const override { return backends::cost_of(d_); }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [factors, inverses, scratch] = args;
    for (const Tensor& t : inverses) library_->device.zero(t.raw(), t.desc().bytes());
    if (d_.matrices.empty()) return;
    // The sums of the factors' diagonals, then the memory that making them takes.
    auto* const sums = static_cast<double*>(scratch.raw());
    for (std::size_t i = 0; i < factors.size(); ++i)
      diagonal_sum(factors[i].data<float>(), d_.blocks[i], sums + d_.blocks.size(), sums + i);
    const auto memory = solver_.memory(static_cast<char*>(scratch.raw()) + sums_bytes());
    for (std::size_t i = 0; i < d_.matrices.size(); ++i) {
      const auto m = matrix(i, factors, inverses);
      const auto mine = static_cast<std::size_t>(d_.matrices[i].factor), other = mine ^ 1;
      prepare_inverse(memory.states + i,
                      {d_.damping, d_.eigen, sums + mine, sums + other, d_.blocks[mine].rows, d_.blocks[other].rows},
                      m);
      if (d_.eigen)
        solver_.eigenvectors(m, memory.states + i, memory);
      else
        solver_.inverse(m, memory.states + i, memory);
    }
    if (!d_.eigen) invert_the_others(memory, factors, inverses);
  }

 private:
  std::size_t sums_bytes() const {
    return align64((d_.blocks.size() + static_cast<std::size_t>(sum_scratch_)) * sizeof(double));
  }

  /// Those without a Cholesky decomposition. The host waits for the states, once for all matrices.
  void invert_the_others(const SymmetricSolver::Memory& memory, const std::vector<Tensor>& factors,
                         const std::vector<Tensor>& inverses) {
    library_->device.copy_to_host(states_.data(), memory.states, states_.size() * sizeof(MatrixState));
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].has_no_inverse()) solver_.inverse_root(matrix(i, factors, inverses), 1, memory.states + i, memory);
  }

  SymmetricMatrix matrix(std::size_t i, const std::vector<Tensor>& factors, const std::vector<Tensor>& inverses) const {
    const auto factor = static_cast<std::size_t>(d_.matrices[i].factor);
    const DiagonalBlocks& b = d_.blocks[factor];
    const std::int64_t block = d_.matrices[i].block;
    return {factors[factor].data<float>() + block * b.size * b.size,
            inverses[factor].data<float>() + block * b.size * (b.size + (d_.eigen ? 1 : 0)), b.rows_of(block), b.size};
  }

  LibraryPtr library_;
  FactorInversesDesc d_;
  SymmetricSolver solver_;
  std::vector<MatrixState> states_;  ///< on the host
  std::int64_t sum_scratch_ = 0;
};

}  // namespace

Expected<FactorInverses> make_factor_inverses(const LibraryPtr& library, const FactorInversesDesc& d) {
  if (auto why = backends::misfit(d); !why.empty()) return why;
  try {
    return std::unique_ptr<FactorInverses>(std::make_unique<CudaFactorInverses>(library, d));
  } catch (const backends::Unsupported& why) {
    return std::string(why.what());
  }
}

}  // namespace keelson::cuda
