#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/update.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr float least_scale = 1, greatest_scale = 16777216;  // 2^24

/// One work item, since the few numbers must stay on the device.
struct Check {
  CheckGradientsDesc d;
  const double* sums;
  Index count;
  LossScale* scale;

  KOKKOS_FUNCTION void operator()(Index) const {
    double total = 0;
    for (Index i = 0; i < count; ++i) total += sums[i];
    const bool finite = total - total == 0;  // infinity and NaN give NaN
    LossScale s = *scale;
    s.unscale = 1 / s.scale;
    s.skip = finite ? 0 : 1;
    s.skipped += s.skip;
    if (d.dynamic) move(s);
    *scale = s;
  }

  /// Raises the scale after enough good steps in a row, and lowers it at once after a bad step.
  KOKKOS_FUNCTION void move(LossScale& s) const {
    s.good_steps = s.skip ? 0 : s.good_steps + 1;
    if (!s.skip && s.good_steps < d.interval) return;
    const float moved = s.scale * (s.skip ? d.backoff : d.growth);
    s.scale = moved < least_scale ? least_scale : moved > greatest_scale ? greatest_scale : moved;
    s.good_steps = 0;
  }
};

class KokkosCheckGradients : public CheckGradients {
 public:
  explicit KokkosCheckGradients(const CheckGradientsDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return Layout::plain({1}); }
  std::string name(Verb) const override { return desc_.dynamic ? "dynamic scale" : "fixed scale"; }
  Cost cost(Verb) const override { return {1, sizeof(LossScale)}; }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [sums, scale] = args;
    launch("keelson::check_gradients::forward", 1,
           Check{desc_, sums.data<double>(), sums.elements(), static_cast<LossScale*>(scale.raw())});
  }

 private:
  CheckGradientsDesc desc_;
};

}  // namespace

Expected<CheckGradients> make(const CheckGradientsDesc& d) {
  if (!(d.growth >= 1) || !(d.backoff > 0 && d.backoff <= 1) || d.interval < 1)
    return fmt::format("growth {}, backoff {} and interval {}: expected at least 1, above 0 and up to 1, at least 1",
                       d.growth, d.backoff, d.interval);
  return std::unique_ptr<CheckGradients>(std::make_unique<KokkosCheckGradients>(d));
}

}  // namespace keelson::kokkos
