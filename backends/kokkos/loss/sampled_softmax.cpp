#include "engine/ops/sampled_softmax.hpp"

#include <cmath>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/philox.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The log-uniform distribution of `classes` classes.
struct LogUniform {
  double log_range;  ///< log(classes + 1)
  Index classes;

  /// The class of a number u of [0, 1).
  KOKKOS_FUNCTION std::int32_t draw(double u) const {
    const auto c = static_cast<Index>(Kokkos::exp(u * log_range)) - 1;
    return static_cast<std::int32_t>(c < classes ? c : classes - 1);  // exp rounds
  }
  KOKKOS_FUNCTION double probability(std::int32_t c) const {
    return Kokkos::log1p(1 / (static_cast<double>(c) + 1)) / log_range;
  }
};

/// A work item makes a candidate.
struct MakeCandidates {
  LogUniform distribution;
  const StepParams* step_params;
  std::uint32_t stream;
  Index samples;
  const std::int32_t* target;
  std::int32_t *ids, *places;
  float* shift;

  KOKKOS_FUNCTION void operator()(Index i) const {
    if (i < samples) {
      const philox::Key key{step_params->seed, stream, step_params->step};
      ids[i] = distribution.draw(philox::uniform_double(key, static_cast<std::uint64_t>(i)));
      shift[i] = static_cast<float>(-Kokkos::log(static_cast<double>(samples) * distribution.probability(ids[i])));
    } else {
      const std::int32_t c = target[i - samples];
      ids[i] = c == -1 ? 0 : c;
      places[i - samples] = c == -1 ? -1 : static_cast<std::int32_t>(i);
    }
  }
};

/// A work item computes some neighbouring logits of a row.
struct ShiftLogits {
  static constexpr Index width = 256;
  Index samples, candidates;
  Divider by_blocks;  ///< of a row
  const std::int32_t* ids;
  const float* shift;
  float* logits;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index row = item;
    const Index begin = by_blocks.split(row) * width, end = begin + width < candidates ? begin + width : candidates;
    const std::int32_t own = ids[samples + row];
    const float nothing = -Kokkos::Experimental::infinity_v<float>;
    float* x = logits + row * candidates;
    const Index of_samples = end < samples ? end : samples;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index j = begin; j < of_samples; ++j) x[j] = ids[j] == own ? nothing : x[j] + shift[j];
    for (Index j = begin < samples ? samples : begin; j < end; ++j)
      if (j != samples + row) x[j] = nothing;
  }
};

class KokkosSampleClasses : public SampleClasses {
 public:
  explicit KokkosSampleClasses(const SampleClassesDesc& d) : d_(d) {}
  Layout layout(Verb, Role r) const override {
    return Layout::plain(r == Role::target || r == Role::rows ? d_.target.shape : Shape{d_.candidates()});
  }
  std::string name(Verb) const override { return "log_uniform"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(2 * d_.ids_desc().bytes() + 2 * d_.target.bytes())}; }
  void forward(const Forward<ops::Tensors>& args) override {
    const LogUniform distribution{std::log(static_cast<double>(d_.classes) + 1), d_.classes};
    launch("keelson::sample_classes", d_.candidates(),
           MakeCandidates{distribution, static_cast<const StepParams*>(args.step_params.raw()), d_.stream, d_.samples,
                          args.target.data<std::int32_t>(), args.ids.data<std::int32_t>(),
                          args.places.data<std::int32_t>(), args.shift.data<float>()});
  }

 private:
  SampleClassesDesc d_;
};

class KokkosSampledLogits : public SampledLogits {
 public:
  explicit KokkosSampledLogits(const SampledLogitsDesc& d) : d_(d) {}
  Layout layout(Verb, Role r) const override {
    return Layout::plain(r == Role::dst ? d_.logits.shape : Shape{d_.logits.shape[1]});
  }
  std::string name(Verb) const override { return "shift"; }
  Cost cost(Verb) const override {
    return {static_cast<double>(d_.logits.elements()), 2.0 * static_cast<double>(d_.logits.bytes())};
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const Index rows = d_.logits.shape[0], candidates = d_.logits.shape[1];
    const Index items = rows * ceil_div(candidates, ShiftLogits::width);
    launch("keelson::sampled_logits", items,
           ShiftLogits{d_.samples(), candidates, Divider(items / rows, items), args.ids.data<std::int32_t>(),
                       args.shift.data<float>(), args.logits.data<float>()});
  }

 private:
  SampledLogitsDesc d_;
};

}  // namespace

Expected<SampleClasses> make(const SampleClassesDesc& d) {
  if (d.target.dtype != DType::s32 || !d.target.layout.is_plain(d.target.shape))
    return fmt::format("target {} is not plain s32", to_string(d.target));
  if (d.classes < 1 || d.samples < 1)
    return fmt::format("{} samples of {} classes: expected at least 1 of each", d.samples, d.classes);
  return std::unique_ptr<SampleClasses>(std::make_unique<KokkosSampleClasses>(d));
}

Expected<SampledLogits> make(const SampledLogitsDesc& d) {
  if (auto why = not_strided_f32("logits", d.logits); !why.empty()) return why;
  if (d.logits.shape.rank() != 2 || d.samples() < 1 || !d.logits.layout.is_plain(d.logits.shape))
    return fmt::format("logits {} are not plain (rows, samples + rows)", to_string(d.logits));
  return std::unique_ptr<SampledLogits>(std::make_unique<KokkosSampledLogits>(d));
}

}  // namespace keelson::kokkos
