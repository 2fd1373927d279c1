#include "engine/ops/dropout.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/values.hpp"
#include "engine/base/philox.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Philox blocks that a work item takes at once: on a CPU as many as vector lanes.
constexpr int lanes = runs_on_host ? 16 : 1;

/// philox::block() of `lanes` neighbouring counters from `first` on, each operation for all of them, so that it
/// vectorises: in 64-bit lanes, of which the products need all. Word w of counter first + l is words[4 l + w].
KOKKOS_FUNCTION inline void blocks(std::uint64_t key, std::uint64_t counter_high, std::uint64_t first,
                                   std::uint32_t (&words)[4 * lanes]) {
  constexpr std::uint64_t low = 0xffffffffu;
  std::uint64_t a[lanes], b[lanes], c[lanes], d[lanes];
  for (int l = 0; l < lanes; ++l) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(l);
    a[l] = counter & low, b[l] = counter >> 32;
    c[l] = counter_high & low, d[l] = counter_high >> 32;
  }
  std::uint64_t k0 = key & low, k1 = key >> 32;
  for (int i = 0; i < 10; ++i) {
    KEELSON_KEEP_LOOP
    for (int l = 0; l < lanes; ++l) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * a[l], p1 = std::uint64_t{0xCD9E8D57u} * c[l];
      a[l] = (p1 >> 32) ^ b[l] ^ k0;
      c[l] = (p0 >> 32) ^ d[l] ^ k1;
      b[l] = p1 & low, d[l] = p0 & low;
    }
    k0 = (k0 + 0x9E3779B9u) & low, k1 = (k1 + 0xBB67AE85u) & low;
  }
  for (int l = 0; l < lanes; ++l) {
    words[4 * l] = static_cast<std::uint32_t>(a[l]), words[4 * l + 1] = static_cast<std::uint32_t>(b[l]);
    words[4 * l + 2] = static_cast<std::uint32_t>(c[l]), words[4 * l + 3] = static_cast<std::uint32_t>(d[l]);
  }
}

/// Element l of this rank (plain order) is element base + l of the global batch, base = sample_offset * rows_per_sample
/// * row_elements. One Philox block serves the four global elements that share it, so that work item i takes `lanes`
/// blocks from base / 4 + lanes * i on.
template <class T>
struct Mask {
  DropoutParams p;
  const StepParams* step_params;
  Index elements, elements_per_sample;
  Strided at;
  bool plain;
  const T* src;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index base = step_params->sample_offset * elements_per_sample;
    const Index block = base / 4 + item * lanes;
    // The 32 bits of element e are word e % 4 of its block: philox::bits({seed, stream, step}, e).
    std::uint32_t words[4 * lanes];
    blocks(step_params->seed ^ (std::uint64_t{p.stream} << 32), step_params->step, static_cast<std::uint64_t>(block),
           words);
    const float rate = p.rate, scale = rate < 1 ? 1 / (1 - rate) : 0.0f;
    const Index first = block * 4 - base;
    const auto keep = [&](int i) {
      return static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) >= rate * 16777216.0f;
    };
    if (plain && first >= 0 && first + 4 * lanes <= elements) {
      const T* from = src + first;
      T* to = dst + first;
      KEELSON_INDEPENDENT_ITERATIONS
      for (int i = 0; i < 4 * lanes; ++i) to[i] = stored<T>(keep(i) ? value_of(from[i]) * scale : 0.0f);
      return;
    }
    for (int i = 0; i < 4 * lanes; ++i) {
      const Index l = first + i;
      if (l < 0 || l >= elements) continue;
      const Index o = plain ? l : at.offset(l);
      dst[o] = stored<T>(keep(i) ? value_of(src[o]) * scale : 0.0f);
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

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, src, dst] = args;
    constexpr const char* label = "keelson::dropout::forward";
    run(label, step_params, src, dst);
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [step_params, diff_dst, diff_src] = args;
    constexpr const char* label = "keelson::dropout::backward";
    run(label, step_params, diff_dst, diff_src);
  }

 private:
  void run(const char* label, const Tensor& step_params, const Tensor& src, const Tensor& dst) const {
    const auto& shape = desc_.src.shape;
    const Index elements = shape.elements();
    if (elements == 0) return;
    const Index per_sample = elements / shape[0] * desc_.rows_per_sample;
    with_type(desc_.src.dtype, [&](auto type) {
      using T = decltype(type);
      launch(label, elements / (4 * lanes) + 2,
             Mask<T>{desc_.params, static_cast<const StepParams*>(step_params.raw()), elements, per_sample,
                     Strided(src), plain_, src.data<T>(), dst.data<T>()});
    });
  }

  DropoutDesc desc_;
  bool plain_;  ///< known once: comparing layouts allocates
};

}  // namespace

Expected<Dropout> make(const DropoutDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  if (d.src.layout.is_any()) return std::string("src has no layout yet; dropout adopts its producer's");
  if (d.src.shape.rank() < 1) return std::string("src has no batch dim");
  return std::unique_ptr<Dropout>(std::make_unique<KokkosDropout>(d));
}

}  // namespace keelson::kokkos
