#include "tests/support/far_context.hpp"

#include <map>

#include "backends/kokkos/factory.hpp"
#include "backends/registry.hpp"
#include "engine/tensor/half.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {

namespace {

using namespace ops;

/// 16-bit operands as f32 for as long as a kernel runs, and back. Operands that share memory go on doing so.
class AsF32 {
 public:
  explicit AsF32(std::vector<Tensor>& operands) {
    for (Tensor& t : operands) {
      if (!t || !is_low(t.dtype())) continue;
      auto& values = made_[t.raw()];
      values.resize(static_cast<std::size_t>(std::max<std::int64_t>(t.stored_elements(), std::ssize(values))));
      for (std::size_t i = 0; i < static_cast<std::size_t>(t.stored_elements()); ++i)
        values[i] = t.dtype() == DType::bf16 ? to_float(t.data<bf16>()[i]) : to_float(t.data<f16>()[i]);
      originals_.push_back(t);
    }
    for (Tensor& t : operands)
      if (t && is_low(t.dtype())) t = Tensor({t.shape(), DType::f32, t.layout()}, made_.at(t.raw()).data());
  }
  void write_back() {
    for (const Tensor& t : originals_)
      for (std::size_t i = 0; i < static_cast<std::size_t>(t.stored_elements()); ++i) {
        const float value = made_.at(t.raw())[i];
        if (t.dtype() == DType::bf16)
          t.data<bf16>()[i] = to_bf16(value);
        else
          t.data<f16>()[i] = to_f16(value);
      }
  }

 private:
  std::map<void*, std::vector<float>> made_;
  std::vector<Tensor> originals_;
};

/// A kernel of Kokkos, queued on the far device.
template <class Op>
class Far : public Op {
 public:
  Far(FarDevice& device, std::shared_ptr<Op> near, bool converts)
      : device_(device), near_(std::move(near)), converts_(converts) {}
  Layout layout(Verb v, Role r) const override { return near_->layout(v, r); }
  std::string name(Verb v) const override { return near_->name(v); }
  std::size_t scratch_bytes(Verb v) const override { return near_->scratch_bytes(v); }
  std::size_t workspace_bytes() const override { return near_->workspace_bytes(); }
  Cost cost(Verb v) const override { return near_->cost(v); }

 protected:
  template <class Run>
  void queue(const std::vector<Tensor>& operands, Run run) {
    std::vector<Tensor> inside;
    for (const Tensor& t : operands) inside.push_back(t ? Tensor(t.desc(), device_.inside(t.raw())) : Tensor());
    device_.queue([inside, run, near = near_, converts = converts_] {
      auto used = inside;
      if (!converts) return run(*near, used.data());
      AsF32 conversion(used);
      run(*near, used.data());
      conversion.write_back();
    });
  }
  void* inside(const void* p) const { return p ? device_.inside(p) : nullptr; }

  FarDevice& device_;
  std::shared_ptr<Op> near_;
  bool converts_;
};

struct FarReorder : Far<Reorder> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
};
struct FarSum : Far<Sum> {
  using Far::Far;
  int count = 0;
  void forward(const Tensor* srcs, const Tensor& dst) override {
    std::vector<Tensor> all(srcs, srcs + count);
    all.push_back(dst);
    queue(all, [n = count](auto& o, const Tensor* t) { o.forward(t, t[n]); });
  }
};
struct FarConcat : Far<Concat> {
  using Far::Far;
  int count = 0;
  void forward(const Tensor* srcs, const Tensor& dst) override {
    std::vector<Tensor> all(srcs, srcs + count);
    all.push_back(dst);
    queue(all, [n = count](auto& o, const Tensor* t) { o.forward(t, t[n]); });
  }
  void backward(const Tensor& diff_dst, const Tensor* diff_srcs) override {
    std::vector<Tensor> all{diff_dst};
    all.insert(all.end(), diff_srcs, diff_srcs + count);
    queue(all, [](auto& o, const Tensor* t) { o.backward(t[0], t + 1); });
  }
};
struct FarSoftmax : Far<Softmax> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
/// Conv and Dense.
template <class Op>
struct FarWeighted : Far<Op> {
  using Far<Op>::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e) override {
    this->queue({a, b, c, d, e}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4]); });
  }
  void backward_data(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) override {
    this->queue({a, b, c, d}, [](auto& o, const Tensor* t) { o.backward_data(t[0], t[1], t[2], t[3]); });
  }
  void backward_weights(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e) override {
    this->queue({a, b, c, d, e}, [](auto& o, const Tensor* t) { o.backward_weights(t[0], t[1], t[2], t[3], t[4]); });
  }
};
struct FarPool : Far<Pool> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) override {
    queue({a, b, c, d}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2], t[3]); });
  }
};
struct FarEltwise : Far<Eltwise> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
struct FarDropout : Far<Dropout> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
struct FarEmbedding : Far<Embedding> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e) override {
    queue({a, b, c, d, e}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2], t[3], t[4]); });
  }
};
struct FarAddRows : Far<AddRows> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
};
struct FarMatMul : Far<MatMul> {
  using Far::Far;
  std::size_t packed_bytes() const override { return near_->packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override {
    queue({weights}, [p = inside(packed)](auto& o, const Tensor* t) { o.pack(t[0], p); });
  }
  void forward(const Tensor& a, const Tensor& b, const void* packed, const Tensor& c, void* scratch) override {
    queue({a, b, c},
          [p = inside(packed), s = inside(scratch)](auto& o, const Tensor* t) { o.forward(t[0], t[1], p, t[2], s); });
  }
};
struct FarCell : Far<RecurrentCell> {
  using Far::Far;
  void begin(const Tensor& state, const Sequence& s) override {
    queue(with(s, {state}), [](auto& o, const Tensor* t) { o.begin(t[7], sequence(t)); });
  }
  void forward(std::int64_t step, const Sequence& s, const Tensor& dst) override {
    queue(with(s, {dst}), [step](auto& o, const Tensor* t) { o.forward(step, sequence(t), t[7]); });
  }
  void backward(std::int64_t step, const Sequence& s, const Gradients& g) override {
    queue(with(s, {g.diff_dst, g.diff_h, g.diff_carry, g.diff_input, g.diff_recurrent}),
          [step](auto& o, const Tensor* t) { o.backward(step, sequence(t), {t[7], t[8], t[9], t[10], t[11]}); });
  }

 private:
  static std::vector<Tensor> with(const Sequence& s, std::vector<Tensor> others) {
    std::vector<Tensor> all{s.input, s.gates, s.recurrent, s.bias, s.h_prev, s.saved, s.next_state};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }
  static Sequence sequence(const Tensor* t) { return {t[0], t[1], t[2], t[3], t[4], t[5], t[6]}; }
};
struct FarLoss : Far<Loss> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e,
               const Tensor& f) override {
    queue({a, b, c, d, e, f}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4], t[5]); });
  }
};
struct FarSumSquares : Far<SumSquares> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, std::int64_t index) override {
    queue({a, b}, [index](auto& o, const Tensor* t) { o.forward(t[0], t[1], index); });
  }
};
struct FarCheck : Far<CheckGradients> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
};
struct FarUpdate : Far<Update> {
  using Far::Far;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& f,
               const Tensor& g, const Tensor& h) override {
    queue({a, b, c, d, e, f, g, h},
          [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]); });
  }
};

void widen(TensorDesc& d) {
  if (is_low(d.dtype)) d.dtype = DType::f32;
}
template <class Desc>
Desc widened(Desc d) {
  if constexpr (requires { d.type; }) d.type = DType::f32;
  if constexpr (requires { d.src; }) widen(d.src);
  if constexpr (requires { d.weights; }) widen(d.weights);
  if constexpr (requires { d.dst; }) widen(d.dst);
  if constexpr (requires { d.srcs; })
    for (auto& s : d.srcs) widen(s);
  return d;
}

class FarFactory : public OpFactory {
 public:
  explicit FarFactory(FarDevice& far)
      : far_(far), near_(backends::make_kokkos_device()), kokkos_(backends::make_kokkos_factory(*near_)) {}
  std::string_view name() const override { return "far"; }

  Made<Conv> make(const ConvDesc& d) override { return wrap<FarWeighted<Conv>>(d); }
  Made<Dense> make(const DenseDesc& d) override { return wrap<FarWeighted<Dense>>(d); }
  Made<Pool> make(const PoolDesc& d) override { return wrap<FarPool>(d); }
  Made<PooledConvBackward> make(const PooledConvDesc&) override { return unsupported(); }
  Made<Eltwise> make(const EltwiseDesc& d) override { return wrap<FarEltwise>(d); }
  Made<Dropout> make(const DropoutDesc& d) override { return wrap<FarDropout>(d); }
  Made<Reorder> make(const ReorderDesc& d) override { return wrap<FarReorder>(d); }
  Made<Sum> make(const SumDesc& d) override {
    auto made = wrap<FarSum>(d);
    if (made.primitive) static_cast<FarSum&>(*made.primitive).count = d.count;
    return made;
  }
  Made<Concat> make(const ConcatDesc& d) override {
    auto made = wrap<FarConcat>(d);
    if (made.primitive) static_cast<FarConcat&>(*made.primitive).count = static_cast<int>(d.srcs.size());
    return made;
  }
  Made<Softmax> make(const SoftmaxDesc& d) override { return wrap<FarSoftmax>(d); }
  Made<Embedding> make(const EmbeddingDesc& d) override { return wrap<FarEmbedding>(d, true); }
  Made<AddRows> make(const AddRowsDesc& d) override { return wrap<FarAddRows>(d); }
  Made<MatMul> make(const MatMulDesc& d) override { return wrap<FarMatMul>(d); }
  Made<RecurrentCell> make(const RecurrentCellDesc& d) override { return wrap<FarCell>(d, is_low(d.type)); }
  Made<Loss> make(const LossDesc& d) override { return wrap<FarLoss>(d); }
  Made<SumSquares> make(const SumSquaresDesc& d) override { return wrap<FarSumSquares>(d); }
  Made<CheckGradients> make(const CheckGradientsDesc& d) override { return wrap<FarCheck>(d); }
  Made<Update> make(const UpdateDesc& d) override { return wrap<FarUpdate>(d); }

 private:
  /// `converts`: also where the kernel as described would be accepted.
  template <class FarOp, class Desc>
  Made<typename Desc::Op> wrap(const Desc& d, bool converts = false) {
    auto made = kokkos_->make(converts ? widened(d) : d);
    if (!made.primitive && !converts) {
      made = kokkos_->make(widened(d));
      converts = true;
    }
    if (!made.primitive) return made;
    return std::unique_ptr<typename Desc::Op>(
        std::make_unique<FarOp>(far_, std::shared_ptr<typename Desc::Op>(std::move(made.primitive)), converts));
  }

  FarDevice& far_;
  std::unique_ptr<Device> near_;
  std::unique_ptr<OpFactory> kokkos_;
};

}  // namespace

std::unique_ptr<Context> make_far_context() {
  if (backends::devices() != std::vector<std::string>{"cpu"}) skip("needs kernels for CPUs, which this build has not");
  auto device = std::make_unique<FarDevice>(FarDevice::Reach::device);
  std::vector<std::unique_ptr<OpFactory>> factories;
  factories.push_back(std::make_unique<FarFactory>(*device));
  return std::make_unique<Context>(std::move(device), std::move(factories));
}

FarDevice& far_device(Context& context) { return static_cast<FarDevice&>(context.device()); }

}  // namespace keelson::testing
