#include "tests/support/fake_async_context.hpp"

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
      if (!t || !is_half(t.dtype())) continue;
      auto& values = made_[t.raw()];
      values.resize(static_cast<std::size_t>(std::max<std::int64_t>(t.stored_elements(), std::ssize(values))));
      for (std::size_t i = 0; i < static_cast<std::size_t>(t.stored_elements()); ++i)
        values[i] = t.dtype() == DType::bf16 ? to_float(t.data<bf16>()[i]) : to_float(t.data<f16>()[i]);
      originals_.push_back(t);
    }
    for (Tensor& t : operands)
      if (t && is_half(t.dtype())) t = Tensor({t.shape(), DType::f32, t.layout()}, made_.at(t.raw()).data());
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

/// A kernel of Kokkos, queued on the asynchronous device.
template <class Op>
class Async : public Op {
 public:
  Async(FakeAsyncDevice& device, std::shared_ptr<Op> near, bool converts)
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

  FakeAsyncDevice& device_;
  std::shared_ptr<Op> near_;
  bool converts_;
};

struct AsyncReorder : Async<Reorder> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
};
struct AsyncSum : Async<Sum> {
  using Async::Async;
  int count = 0;
  void forward(const Tensor* srcs, const Tensor& dst) override {
    std::vector<Tensor> all(srcs, srcs + count);
    all.push_back(dst);
    queue(all, [n = count](auto& o, const Tensor* t) { o.forward(t, t[n]); });
  }
};
struct AsyncConcat : Async<Concat> {
  using Async::Async;
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
struct AsyncSoftmax : Async<Softmax> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
/// Conv and Dense.
template <class Op>
struct AsyncWeighted : Async<Op> {
  using Async<Op>::Async;
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
struct AsyncPool : Async<Pool> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) override {
    queue({a, b, c, d}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2], t[3]); });
  }
};
struct AsyncEltwise : Async<Eltwise> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
struct AsyncDropout : Async<Dropout> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2]); });
  }
};
struct AsyncEmbedding : Async<Embedding> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
  void backward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e) override {
    queue({a, b, c, d, e}, [](auto& o, const Tensor* t) { o.backward(t[0], t[1], t[2], t[3], t[4]); });
  }
};
struct AsyncAddRows : Async<AddRows> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
    queue({a, b, c}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
  }
};
struct AsyncMatMul : Async<MatMul> {
  using Async::Async;
  std::size_t packed_bytes() const override { return near_->packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override {
    queue({weights}, [p = inside(packed)](auto& o, const Tensor* t) { o.pack(t[0], p); });
  }
  void forward(const Tensor& a, const Tensor& b, const void* packed, const Tensor& c, void* scratch) override {
    queue({a, b, c},
          [p = inside(packed), s = inside(scratch)](auto& o, const Tensor* t) { o.forward(t[0], t[1], p, t[2], s); });
  }
};
struct AsyncCell : Async<RecurrentCell> {
  using Async::Async;
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
struct AsyncLoss : Async<Loss> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e,
               const Tensor& f) override {
    queue({a, b, c, d, e, f}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4], t[5]); });
  }
};
struct AsyncSumSquares : Async<SumSquares> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, std::int64_t index) override {
    queue({a, b}, [index](auto& o, const Tensor* t) { o.forward(t[0], t[1], index); });
  }
};
struct AsyncCheck : Async<CheckGradients> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b) override {
    queue({a, b}, [](auto& o, const Tensor* t) { o.forward(t[0], t[1]); });
  }
};
struct AsyncUpdate : Async<Update> {
  using Async::Async;
  void forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& f,
               const Tensor& g, const Tensor& h) override {
    queue({a, b, c, d, e, f, g, h},
          [](auto& o, const Tensor* t) { o.forward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]); });
  }
};

void widen(TensorDesc& d) {
  if (is_half(d.dtype)) d.dtype = DType::f32;
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

class FakeAsyncFactory : public OpFactory {
 public:
  explicit FakeAsyncFactory(FakeAsyncDevice& fake)
      : device_(fake), near_(backends::make_kokkos_device()), kokkos_(backends::make_kokkos_factory(*near_)) {}
  std::string_view name() const override { return "fake"; }

  Expected<Conv> make(const ConvDesc& d) override { return wrap<AsyncWeighted<Conv>>(d); }
  Expected<Dense> make(const DenseDesc& d) override { return wrap<AsyncWeighted<Dense>>(d); }
  Expected<Pool> make(const PoolDesc& d) override { return wrap<AsyncPool>(d); }
  Expected<ConvMaxPoolBackward> make(const ConvMaxPoolDesc&) override { return unsupported(); }
  Expected<Eltwise> make(const EltwiseDesc& d) override { return wrap<AsyncEltwise>(d); }
  Expected<Dropout> make(const DropoutDesc& d) override { return wrap<AsyncDropout>(d); }
  Expected<Reorder> make(const ReorderDesc& d) override { return wrap<AsyncReorder>(d); }
  Expected<Sum> make(const SumDesc& d) override {
    auto made = wrap<AsyncSum>(d);
    if (made.primitive) static_cast<AsyncSum&>(*made.primitive).count = d.count;
    return made;
  }
  Expected<Concat> make(const ConcatDesc& d) override {
    auto made = wrap<AsyncConcat>(d);
    if (made.primitive) static_cast<AsyncConcat&>(*made.primitive).count = static_cast<int>(d.srcs.size());
    return made;
  }
  Expected<Softmax> make(const SoftmaxDesc& d) override { return wrap<AsyncSoftmax>(d); }
  Expected<Embedding> make(const EmbeddingDesc& d) override { return wrap<AsyncEmbedding>(d, true); }
  Expected<AddRows> make(const AddRowsDesc& d) override { return wrap<AsyncAddRows>(d); }
  Expected<MatMul> make(const MatMulDesc& d) override { return wrap<AsyncMatMul>(d); }
  Expected<RecurrentCell> make(const RecurrentCellDesc& d) override { return wrap<AsyncCell>(d, is_half(d.type)); }
  Expected<Loss> make(const LossDesc& d) override { return wrap<AsyncLoss>(d); }
  Expected<SumSquares> make(const SumSquaresDesc& d) override { return wrap<AsyncSumSquares>(d); }
  Expected<CheckGradients> make(const CheckGradientsDesc& d) override { return wrap<AsyncCheck>(d); }
  Expected<Update> make(const UpdateDesc& d) override { return wrap<AsyncUpdate>(d); }

 private:
  /// `converts`: also where the kernel as described would be accepted.
  template <class AsyncOp, class Desc>
  Expected<typename Desc::Op> wrap(const Desc& d, bool converts = false) {
    auto made = kokkos_->make(converts ? widened(d) : d);
    if (!made.primitive && !converts) {
      made = kokkos_->make(widened(d));
      converts = true;
    }
    if (!made.primitive) return made;
    return std::unique_ptr<typename Desc::Op>(
        std::make_unique<AsyncOp>(device_, std::shared_ptr<typename Desc::Op>(std::move(made.primitive)), converts));
  }

  FakeAsyncDevice& device_;
  std::unique_ptr<Device> near_;
  std::unique_ptr<OpFactory> kokkos_;
};

}  // namespace

std::unique_ptr<Context> make_fake_async_context() {
  if (backends::devices() != std::vector<std::string>{"cpu"}) skip("needs kernels for CPUs, which this build has not");
  auto device = std::make_unique<FakeAsyncDevice>(FakeAsyncDevice::Reach::device);
  std::vector<std::unique_ptr<OpFactory>> factories;
  factories.push_back(std::make_unique<FakeAsyncFactory>(*device));
  return std::make_unique<Context>(std::move(device), std::move(factories));
}

FakeAsyncDevice& fake_async_device(Context& context) { return static_cast<FakeAsyncDevice&>(context.device()); }

}  // namespace keelson::testing
