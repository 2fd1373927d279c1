#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/philox.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Element l of this rank (plain order) is element base + l of the global batch, base = sample_offset * rows_per_sample
/// * row_elements. One Philox block serves the four global elements that share it, so that work item i takes block base
/// / 4 + i.
struct Mask {
  DropoutParams p;
  const StepState* state;
  Index elements, elements_per_sample;
  Strided at;
  bool plain;
  const float* src;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index base = state->sample_offset * elements_per_sample;
    const Index block = base / 4 + item;
    const philox::Key key{state->seed, p.stream, state->step};
    // The 32 bits of element e are word e % 4 of its block: philox::bits(key, e).
    const auto words =
        philox::block(key.seed ^ (std::uint64_t{key.stream} << 32), key.step, static_cast<std::uint64_t>(block));
    const float scale = p.rate < 1 ? 1 / (1 - p.rate) : 0.0f;
    for (int i = 0; i < 4; ++i) {
      const Index l = block * 4 + i - base;
      if (l < 0 || l >= elements) continue;
      const float u = static_cast<float>(words[i] >> 8) * (1.0f / 16777216.0f);
      const Index o = plain ? l : at.offset(l);
      dst[o] = u >= p.rate ? src[o] * scale : 0.0f;
    }
  }
};

class KokkosDropout : public Dropout {
 public:
  explicit KokkosDropout(const DropoutDesc& d) : desc_(d), plain_(d.src.layout.is_plain(d.src.shape)) {}
  Layout layout(Verb, Role) const override { return desc_.src.layout; }
  std::string name(Verb) const override { return "philox"; }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.src.elements()), 2 * static_cast<double>(desc_.src.bytes())};
  }

  void forward(const Tensor& state, const Tensor& src, const Tensor& dst) override {
    constexpr const char* label = "keelson::dropout::forward";
    run(label, state, src, dst);
  }
  void backward(const Tensor& state, const Tensor& diff_dst, const Tensor& diff_src) override {
    constexpr const char* label = "keelson::dropout::backward";
    run(label, state, diff_dst, diff_src);
  }

 private:
  void run(const char* label, const Tensor& state, const Tensor& src, const Tensor& dst) const {
    const auto& shape = desc_.src.shape;
    const Index elements = shape.elements();
    if (elements == 0) return;
    const Index per_sample = elements / shape[0] * desc_.rows_per_sample;
    launch(label, elements / 4 + 2,
           Mask{desc_.params, static_cast<const StepState*>(state.raw()), elements, per_sample, Strided(src), plain_,
                src.data<float>(), dst.data<float>()});
  }

  DropoutDesc desc_;
  bool plain_;  ///< known once: comparing layouts allocates
};

}  // namespace

Made<Dropout> make_dropout(const DropoutDesc& d) {
  if (auto why = not_strided_f32("src", d.src); !why.empty()) return why;
  if (d.src.layout.is_any()) return std::string("src has no layout yet; dropout adopts its producer's");
  if (d.src.shape.rank() < 1) return std::string("src has no batch dim");
  return std::unique_ptr<Dropout>(std::make_unique<KokkosDropout>(d));
}

}  // namespace keelson::kokkos
