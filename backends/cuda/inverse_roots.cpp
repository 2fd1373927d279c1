#include <memory>

#include "backends/common/symmetric.hpp"
#include "backends/cuda/cusolver.hpp"
#include "backends/cuda/makers.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

class CudaInverseRoots : public InverseRoots {
 public:
  CudaInverseRoots(const LibraryPtr& library, const InverseRootsDesc& d)
      : library_(library), d_(d), solver_(library, backends::rows_of(d), false) {}

  Layout layout(Verb, Role) const override { return Layout::any(); }
  std::string name(Verb) const override { return "cusolver:syevd"; }
  std::size_t scratch_bytes(Verb) const override { return solver_.scratch_bytes(); }
  bool can_be_captured(Verb) const override { return false; }
  Cost cost(Verb) const override { return backends::cost_of(d_); }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, srcs, dsts, scratch] = args;
    for (const Tensor& dst : dsts) library_->device.zero(dst.raw(), dst.desc().bytes());
    if (d_.matrices.empty()) return;
    const auto memory = solver_.memory(scratch.raw());
    prepare_roots(memory.states, d_, static_cast<const StepParams*>(step_params.raw()));
    for (std::size_t i = 0; i < d_.matrices.size(); ++i) {
      const auto& m = d_.matrices[i];
      const auto array = static_cast<std::size_t>(m.array);
      const std::int64_t stride = d_.srcs[array].shape[2], at = m.index * stride * stride;
      solver_.inverse_root({srcs[array].data<float>() + at, dsts[array].data<float>() + at, m.size, stride}, m.root,
                           memory.states + i, memory);
    }
  }

 private:
  LibraryPtr library_;
  InverseRootsDesc d_;
  SymmetricSolver solver_;
};

}  // namespace

Expected<InverseRoots> make_inverse_roots(const LibraryPtr& library, const InverseRootsDesc& d) {
  if (auto why = backends::misfit(d); !why.empty()) return why;
  try {
    return std::unique_ptr<InverseRoots>(std::make_unique<CudaInverseRoots>(library, d));
  } catch (const backends::Unsupported& why) {
    return std::string(why.what());
  }
}

}  // namespace keelson::cuda
