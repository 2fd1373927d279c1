#include "tests/support/fake_async_context.hpp"

#include <map>

#include "backends/kokkos/factory.hpp"
#include "backends/registry.hpp"
#include "engine/ops/op_list.hpp"
#include "engine/tensor/half.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {

namespace {

using namespace ops;

/// Converts 16-bit operands to f32 while a kernel runs, and back. Operands that share memory still share it.
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
class AsyncBase : public Op {
 public:
  AsyncBase(FakeAsyncDevice& device, std::shared_ptr<Op> near, bool converts)
      : device_(device), near_(std::move(near)), converts_(converts) {}
  Layout layout(Verb v, Role r) const override { return near_->layout(v, r); }
  std::string name(Verb v) const override { return near_->name(v); }
  std::size_t scratch_bytes(Verb v) const override { return near_->scratch_bytes(v); }
  std::size_t workspace_bytes() const override { return near_->workspace_bytes(); }
  bool merges(Verb v) const override { return near_->merges(v); }
  Cost cost(Verb v) const override { return near_->cost(v); }

 protected:
  template <template <class> class Args>
  void queue_verb(const Args<Tensors>& args) {
    std::vector<std::size_t> counts;
    const auto operands = flatten(args, &counts);
    queue(operands, [counts](auto& op, const Tensor* t) { execute(op, make_args<Args>(t, counts)); });
  }
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

/// Queues each verb that Op's header declares.
template <class Base, class Op>
struct WithForward : Base {
  using Base::Base;
  void forward(const typename Op::template Forward<Tensors>& args) override { this->queue_verb(args); }
};
template <class Base, class Op>
struct WithBackwardData : Base {
  using Base::Base;
  void backward_data(const typename Op::template BackwardData<Tensors>& args) override { this->queue_verb(args); }
};
template <class Base, class Op>
struct WithBackwardWeights : Base {
  using Base::Base;
  void backward_weights(const typename Op::template BackwardWeights<Tensors>& args) override { this->queue_verb(args); }
};

template <class Base, class Op>
auto add_verbs() {
  if constexpr (requires { typename Op::template Forward<Tensors>; }) {
    using A = WithForward<Base, Op>;
    if constexpr (requires { typename Op::template BackwardWeights<Tensors>; }) {
      using B = WithBackwardWeights<A, Op>;
      if constexpr (requires { typename Op::template BackwardData<Tensors>; })
        return std::type_identity<WithBackwardData<B, Op>>();
      else
        return std::type_identity<B>();
    } else if constexpr (requires { typename Op::template BackwardData<Tensors>; }) {
      return std::type_identity<WithBackwardData<A, Op>>();
    } else {
      return std::type_identity<A>();
    }
  } else if constexpr (requires { typename Op::template BackwardData<Tensors>; }) {
    return std::type_identity<WithBackwardWeights<WithBackwardData<Base, Op>, Op>>();
  } else {
    return std::type_identity<WithBackwardWeights<Base, Op>>();
  }
}

template <class Op>
struct AsyncOf {
  using type = typename decltype(add_verbs<AsyncBase<Op>, Op>())::type;
};
struct AsyncMatMul : AsyncBase<MatMul> {
  using AsyncBase::AsyncBase;
  std::size_t packed_bytes() const override { return near_->packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override {
    queue({weights}, [p = inside(packed)](auto& o, const Tensor* t) { o.pack(t[0], p); });
  }
  void forward(const Tensor& a, const Tensor& b, const void* packed, const Tensor& c, void* scratch) override {
    queue({a, b, c},
          [p = inside(packed), s = inside(scratch)](auto& o, const Tensor* t) { o.forward(t[0], t[1], p, t[2], s); });
  }
};
struct AsyncCell : AsyncBase<RecurrentCell> {
  using AsyncBase::AsyncBase;
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
struct AsyncPatches : AsyncBase<Patches> {
  using AsyncBase::AsyncBase;
  void gather(const Tensor& step_params, const Tensor& src, const Tensor& weight, std::int64_t first_row,
              std::int64_t first_column, const Tensor& dst) override {
    queue({step_params, src, weight, dst}, [first_row, first_column](auto& o, const Tensor* t) {
      o.gather(t[0], t[1], t[2], first_row, first_column, t[3]);
    });
  }
};
struct AsyncPackedTriangle : AsyncBase<PackedTriangle> {
  using AsyncBase::AsyncBase;
  void add(const Tensor& block, std::int64_t first_row, bool overwrite, const Tensor& packed) override {
    queue({block, packed},
          [first_row, overwrite](auto& o, const Tensor* t) { o.add(t[0], first_row, overwrite, t[1]); });
  }
};
struct AsyncEigenQuotient : AsyncBase<EigenQuotient> {
  using AsyncBase::AsyncBase;
  void divide(const Tensor& values, const Tensor& of_rows, const Tensor& of_columns) override {
    queue({values, of_rows, of_columns}, [](auto& o, const Tensor* t) { o.divide(t[0], t[1], t[2]); });
  }
};
template <>
struct AsyncOf<Patches> {
  using type = AsyncPatches;
};
template <>
struct AsyncOf<PackedTriangle> {
  using type = AsyncPackedTriangle;
};
template <>
struct AsyncOf<EigenQuotient> {
  using type = AsyncEigenQuotient;
};
template <>
struct AsyncOf<MatMul> {
  using type = AsyncMatMul;
};
template <>
struct AsyncOf<RecurrentCell> {
  using type = AsyncCell;
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

/// Whether kernels run on converted operands even if the described kernel is supported.
bool always_converts(const EmbeddingDesc&) { return true; }  // its description says nothing of dst's dtype
bool always_converts(const RecurrentCellDesc& d) { return is_half(d.type); }
template <class Desc>
bool always_converts(const Desc&) {
  return false;
}

/// The host's device and backend under the fake one.
std::unique_ptr<Context> make_near() {
  auto device = backends::make_kokkos_device();
  std::vector<std::unique_ptr<OpFactory>> factories;
  factories.push_back(backends::make_kokkos_factory(*device));
  return std::make_unique<Context>(std::move(device), std::move(factories));
}

template <class Desc>
Expected<typename Desc::Op> make_async(FakeAsyncDevice& device, Context& near, const Desc& d) {
  using Op = typename Desc::Op;
  bool converts = always_converts(d);
  auto made = near.make_by_first(converts ? widened(d) : d);
  if (!made.primitive && !converts) {
    made = near.make_by_first(widened(d));
    converts = true;
  }
  if (!made.primitive) return made;
  return std::unique_ptr<Op>(
      std::make_unique<typename AsyncOf<Op>::type>(device, std::shared_ptr<Op>(std::move(made.primitive)), converts));
}

std::unique_ptr<OpFactory> make_fake_async_factory(FakeAsyncDevice& device) {
  auto factory = std::make_unique<OpFactory>("fake");
  const std::shared_ptr<Context> near = make_near();
  for_each_type(OpList(), [&]<class Desc>() {
    // These two ops are for the caches of CPUs; a GPU's backend does not have them.
    if constexpr (!std::is_same_v<Desc, ConvMaxPoolDesc> && !std::is_same_v<Desc, ConvMaxPoolForwardDesc>)
      factory->add<Desc>([&device, near](const Desc& d) { return make_async(device, *near, d); });
  });
  return factory;
}

}  // namespace

std::unique_ptr<Context> make_fake_async_context() {
  if (backends::devices() != std::vector<std::string>{"cpu"})
    skip("needs kernels for CPUs, which this build does not have");
  auto device = std::make_unique<FakeAsyncDevice>(FakeAsyncDevice::Reach::device);
  std::vector<std::unique_ptr<OpFactory>> factories;
  factories.push_back(make_fake_async_factory(*device));
  return std::make_unique<Context>(std::move(device), std::move(factories));
}

FakeAsyncDevice& fake_async_device(Context& context) { return static_cast<FakeAsyncDevice&>(context.device()); }

}  // namespace keelson::testing
