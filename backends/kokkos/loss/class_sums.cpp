#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/loss/loss_lanes.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// A work item computes a row.
struct SumsOfRow {
  LossRows o;
  float* sums;
  KOKKOS_FUNCTION void operator()(Index r) const {
    const float* x = o.prediction + r * o.features;
    const float largest = o.maximum(x);
    const bool is_nothing = largest == -Kokkos::Experimental::infinity_v<float>;
    sums[2 * r] = largest;
    sums[2 * r + 1] = is_nothing ? 0.0f : static_cast<float>(o.exponentials<false>(x, largest, nullptr));
  }
};

/// A work item adds up the lanes of a row.
struct SumsOfLanes {
  const Exponentials* parts;
  Index rows, lanes;
  float* sums;
  KOKKOS_FUNCTION void operator()(Index r) const {
    const Exponentials all = of_all_lanes(parts, r, rows, lanes);
    sums[2 * r] = all.largest;
    sums[2 * r + 1] = static_cast<float>(all.sum);
  }
};

class KokkosClassSums : public ClassSums {
 public:
  KokkosClassSums(const ClassSumsDesc& d, Device& device)
      : desc_(d),
        lanes_(runs_on_host ? 1 : loss_lanes({LossKind::cross_entropy}, d.prediction.shape[0], d.prediction.shape[1])),
        memory_(lanes_ == 1
                    ? nullptr
                    : device.allocate(static_cast<std::size_t>(lanes_ * d.prediction.shape[0]) * sizeof(Exponentials),
                                      "sums of classes")) {}

  Layout layout(Verb, Role r) const override {
    return Layout::plain(r == Role::src ? desc_.prediction.shape : desc_.sums_desc().shape);
  }
  std::string name(Verb) const override { return "class_sums"; }
  Cost cost(Verb) const override {
    return {4.0 * static_cast<double>(desc_.prediction.elements()), static_cast<double>(desc_.prediction.bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    LossRows o{};
    o.prediction = args.prediction.data<float>();
    o.rows = desc_.prediction.shape[0];
    o.features = desc_.prediction.shape[1];
    auto* const sums = args.sums.data<float>();
    if (lanes_ == 1) return launch("keelson::class_sums::rows", o.rows, SumsOfRow{o, sums});
    auto* const parts = static_cast<Exponentials*>(memory_.get());
    launch("keelson::class_sums::lanes", o.rows * lanes_, ClassLane{o, lanes_, parts});
    launch("keelson::class_sums::rows", o.rows, SumsOfLanes{parts, o.rows, lanes_, sums});
  }

 private:
  ClassSumsDesc desc_;
  Index lanes_;
  std::shared_ptr<void> memory_;
};

}  // namespace

Expected<ClassSums> make(const ClassSumsDesc& d, Device& device) {
  if (auto why = not_strided_f32("prediction", d.prediction); !why.empty()) return why;
  const Shape& shape = d.prediction.shape;
  if (shape.rank() != 2 || shape[0] < 1 || shape[1] < 1)
    return fmt::format("prediction {} is not (rows, classes)", to_string(shape));
  if (!d.prediction.layout.is_any() && !d.prediction.layout.is_plain(shape))
    return std::string("prediction is not plain");
  return std::unique_ptr<ClassSums>(std::make_unique<KokkosClassSums>(d, device));
}

}  // namespace keelson::kokkos
