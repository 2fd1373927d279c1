#include "engine/ops/loss.hpp"
#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/loss/loss_lanes.hpp"
#include "backends/kokkos/loss/sample_losses.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// Blocks of rows: each is summed, then the sums are added in order, for any number of threads.
constexpr Index max_blocks = 1024;

Index block_rows(Index rows) { return ceil_div(rows, max_blocks); }

/// `rows`: gets the loss of each row, too; null: not wanted.
void loss_of_blocks(const LossRows& o, double* sums, double* rows) {
  constexpr const char* label = "keelson::loss::rows";
  const Index per_block = block_rows(o.rows);
  launch(
      label, ceil_div(o.rows, per_block), KOKKOS_LAMBDA(Index b) {
        const Index end = (b + 1) * per_block < o.rows ? (b + 1) * per_block : o.rows;
        double sum = 0;
        for (Index r = b * per_block; r < end; ++r) {
          const double loss = o.row(r);
          sum += loss;
          if (rows) rows[r] = loss;
        }
        sums[b] = sum;
      });
}

struct LossOfRow {
  LossRows o;
  double* losses;
  KOKKOS_FUNCTION void operator()(Index r) const { losses[r] = o.row(r); }
};

class KokkosLoss : public Loss {
 public:
  KokkosLoss(const LossDesc& d, Device& device)
      : desc_(d),
        lanes_(loss_lanes(d.params, d.prediction.shape[0], d.prediction.shape[1])),
        memory_(device.allocate(memory_bytes(), "loss")) {}

  Layout layout(Verb, Role) const override { return Layout::plain(desc_.prediction.shape); }
  std::string name(Verb) const override { return std::string(to_string(desc_.params.kind)); }
  Cost cost(Verb) const override {
    return {4.0 * static_cast<double>(desc_.prediction.elements()),
            2.0 * static_cast<double>(desc_.prediction.bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, prediction, target, weight, loss, diff_prediction, loss_scale, class_sums, sample_loss,
                 importance] = args;
    const bool classes = desc_.params.kind == LossKind::cross_entropy;
    const auto rows = desc_.prediction.shape[0], per_sample = desc_.rows_per_sample;
    const LossRows o{desc_.params,
                     static_cast<const StepParams*>(step_params.raw()),
                     static_cast<const LossScale*>(loss_scale.raw()),
                     prediction.data<float>(),
                     classes ? nullptr : target.data<float>(),
                     classes ? target.data<std::int32_t>() : nullptr,
                     weight.data<float>(),
                     importance ? importance.data<float>() : nullptr,
                     diff_prediction ? diff_prediction.data<float>() : nullptr,
                     rows,
                     desc_.prediction.shape[1],
                     per_sample,
                     classes && target.elements() == rows,
                     class_sums ? class_sums.data<float>() : nullptr,
                     desc_.class_part};
    if constexpr (runs_on_host) {
      const Index blocks = ceil_div(rows, block_rows(rows));
      double* const of_rows = sample_loss ? memory<double>() + blocks : nullptr;
      loss_of_blocks(o, memory<double>(), of_rows);
      sum_in_order("keelson::loss::total", memory<double>(), blocks, loss.data<double>());
      if (sample_loss) store_sample_losses(o, of_rows, rows, sample_loss.data<float>());
    } else {
      const Index parts = on_device(o);
      if (sample_loss) store_sample_losses(o, memory<double>(), parts, sample_loss.data<float>());
      parallel_sum("keelson::loss::total", Numbers{memory<double>()}, parts, memory<double>() + parts,
                   loss.data<double>());
    }
  }

 private:
  void store_sample_losses(const LossRows& o, const double* terms, Index count, float* losses) const {
    const Index samples = o.rows / o.rows_per_sample;
    launch("keelson::loss::samples", samples, SampleLosses{o.step_params, o.weight, terms, count / samples, losses});
  }

  /// Computes the parts of the total at the beginning of the memory. Returns their number.
  Index on_device(const LossRows& o) const {
    auto* parts = memory<double>();
    if (lanes_ == 1) {
      launch("keelson::loss::rows", o.rows, LossOfRow{o, parts});
      return o.rows;
    }
    if (o.p.kind != LossKind::cross_entropy) {
      if (o.p.kind == LossKind::gaussian_nll)
        launch("keelson::loss::lanes", o.rows * lanes_, GaussianLane{o, lanes_, parts});
      else
        launch("keelson::loss::lanes", o.rows * lanes_, DifferenceLane{o, lanes_, parts});
      return o.rows * lanes_;
    }
    auto* rows = reinterpret_cast<ClassRow*>(memory<std::byte>() + sums_bytes(o.rows));
    auto* lanes = reinterpret_cast<Exponentials*>(rows + o.rows);
    if (!o.class_sums) launch("keelson::loss::lanes", o.rows * lanes_, ClassLane{o, lanes_, lanes});
    launch("keelson::loss::rows", o.rows, ClassTotal{o, lanes_, lanes, rows, parts});
    if (const Index all = o.rows * o.features; o.diff)
      launch("keelson::loss::gradient", all, ClassGradient{o, rows, Divider(o.features, all)});
    return o.rows;
  }

  static std::size_t sums_bytes(Index parts) {
    return align64(static_cast<std::size_t>(parts + parallel_sum_scratch(parts)) * sizeof(double));
  }
  std::size_t memory_bytes() const {
    const Index rows = desc_.prediction.shape[0];
    if (runs_on_host) return static_cast<std::size_t>(ceil_div(rows, block_rows(rows)) + rows) * sizeof(double);
    if (desc_.params.kind != LossKind::cross_entropy) return sums_bytes(rows * lanes_);
    const auto of_row = sizeof(ClassRow) + static_cast<std::size_t>(lanes_) * sizeof(Exponentials);
    return sums_bytes(rows) + static_cast<std::size_t>(rows) * of_row;
  }
  template <class T>
  T* memory() const {
    return static_cast<T*>(memory_.get());
  }

  LossDesc desc_;
  Index lanes_;
  std::shared_ptr<void> memory_;
};

}  // namespace

Expected<Loss> make(const LossDesc& d, Device& device) {
  if (auto why = not_strided_f32("prediction", d.prediction); !why.empty()) return why;
  const auto& shape = d.prediction.shape;
  const bool classes = d.params.kind == LossKind::cross_entropy;
  if (shape.rank() != 2 || shape[0] < 1 || shape[1] < 1 || d.rows_per_sample < 1 || shape[0] % d.rows_per_sample != 0)
    return fmt::format("prediction {} is not (rows, features) with {} rows per sample", to_string(shape),
                       d.rows_per_sample);
  const auto samples = shape[0] / d.rows_per_sample;
  const auto per_target = d.params.values_per_target();
  if (shape[1] % per_target != 0)
    return fmt::format("prediction {} has no mean and spread for each target", to_string(shape));
  const auto wanted = d.params.kind == LossKind::mean ? d.target.shape  // not read
                      : !classes                      ? Shape{samples, shape[1] / per_target}
                      : d.target.shape.rank() == 2    ? Shape{samples, d.rows_per_sample}
                                                      : Shape{samples};
  if (!(d.target.shape == wanted) || d.target.dtype != (classes ? DType::s32 : DType::f32))
    return fmt::format("target is {} {}, expected {} {}", to_string(d.target.shape), to_string(d.target.dtype),
                       to_string(wanted), classes ? "s32" : "f32");
  const ClassPart& part = d.class_part;
  if (part.all > 0 && (!classes || part.parts < 1 || part.first < 0 || part.first + shape[1] > part.all))
    return fmt::format("{} predictions are not the classes from {} on of {} in {} parts", shape[1], part.first,
                       part.all, part.parts);
  if (!d.prediction.layout.is_any() && !d.prediction.layout.is_plain(shape))
    return std::string("prediction is not plain");
  if (!d.target.layout.is_any() && !d.target.layout.is_plain(wanted)) return std::string("target is not plain");
  return std::unique_ptr<Loss>(std::make_unique<KokkosLoss>(d, device));
}

}  // namespace keelson::kokkos
