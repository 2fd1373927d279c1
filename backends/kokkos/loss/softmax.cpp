#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/common/vector_math.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// A work item computes one line along the axis. The operands share one layout.
struct Lines {
  Strided start;  ///< gives the start of line i: the tensor with extent 1 along the axis
  Index count, length, step;

  Lines(const TensorDesc& d, int axis)
      : start(d), length(d.shape[axis]), step(d.shape[axis] == 1 ? 1 : d.layout.strides()[axis]) {
    start.extents[axis] = 1;
    count = length > 0 ? d.elements() / length : 0;
  }
};

void softmax_forward(const Lines& lines, const float* src, float* dst) {
  constexpr const char* label = "keelson::softmax::forward";
  launch(
      label, lines.count, KOKKOS_LAMBDA(Index line) {
        const Index at = lines.start.offset(line);
        const float* x = src + at;
        float* y = dst + at;
        float largest = x[0];
        for (Index i = 1; i < lines.length; ++i) {
          const float v = x[i * lines.step];
          largest = v > largest || v != v ? v : largest;
        }
        double sum = 0;
        for (Index i = 0; i < lines.length; ++i) {
          const float e = fast_exp(x[i * lines.step] - largest);
          y[i * lines.step] = e;
          sum += static_cast<double>(e);
        }
        const float scale = static_cast<float>(1 / sum);
        for (Index i = 0; i < lines.length; ++i) y[i * lines.step] *= scale;
      });
}

/// diff_src = dst (diff_dst - sum(diff_dst dst))
void softmax_backward(const Lines& lines, const float* diff_dst, const float* dst, float* diff_src) {
  constexpr const char* label = "keelson::softmax::backward";
  launch(
      label, lines.count, KOKKOS_LAMBDA(Index line) {
        const Index at = lines.start.offset(line);
        double dot = 0;
        for (Index i = 0; i < lines.length; ++i) {
          const Index o = at + i * lines.step;
          dot += static_cast<double>(diff_dst[o]) * static_cast<double>(dst[o]);
        }
        for (Index i = 0; i < lines.length; ++i) {
          const Index o = at + i * lines.step;
          diff_src[o] = dst[o] * static_cast<float>(static_cast<double>(diff_dst[o]) - dot);
        }
      });
}

class KokkosSoftmax : public Softmax {
 public:
  explicit KokkosSoftmax(const SoftmaxDesc& d) : desc_(d), lines_(d.src, d.axis) {}
  Layout layout(Verb, Role) const override { return desc_.src.layout; }
  std::string name(Verb) const override { return "lines"; }
  Cost cost(Verb v) const override {
    const auto elements = static_cast<double>(desc_.src.elements()), bytes = static_cast<double>(desc_.src.bytes());
    return {(v == Verb::forward ? 5 : 4) * elements, (v == Verb::forward ? 2 : 3) * bytes};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst] = args;
    softmax_forward(lines_, src.data<float>(), dst.data<float>());
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, dst, diff_src] = args;
    softmax_backward(lines_, diff_dst.data<float>(), dst.data<float>(), diff_src.data<float>());
  }

 private:
  SoftmaxDesc desc_;
  Lines lines_;
};

}  // namespace

Expected<Softmax> make(const SoftmaxDesc& d) {
  if (auto why = not_strided_f32("src", d.src); !why.empty()) return why;
  if (d.src.layout.is_any()) return std::string("src has no layout yet; softmax takes its producer's layout");
  if (d.axis < 0 || d.axis >= d.src.shape.rank())
    return fmt::format("axis {} does not exist in src of shape {}", d.axis, to_string(d.src.shape));
  return std::unique_ptr<Softmax>(std::make_unique<KokkosSoftmax>(d));
}

}  // namespace keelson::kokkos
