#pragma once

#include <array>
#include <memory>
#include <type_traits>

#include "engine/ops/matmul.hpp"
#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// A value for each verb, by the number of the verb.
template <class T>
using ByVerb = std::array<T, 3>;
/// The primitives of the verbs; one primitive may serve several.
template <class Op>
using VerbParts = ByVerb<std::shared_ptr<Op>>;

/// Answers for each verb by the primitive of that verb.
template <class Op>
class PerVerbBase : public Op {
 public:
  /// fewest_flops: of the verbs, as in Cost.
  PerVerbBase(VerbParts<Op> parts, const ByVerb<double>& fewest_flops)
      : parts_(std::move(parts)), fewest_flops_(fewest_flops) {}

  Layout layout(Verb v, Role r) const override { return part(v).layout(v, r); }
  std::string name(Verb v) const override { return part(v).name(v); }
  std::string_view backend_of(Verb v) const override { return part(v).backend_of(v); }
  std::size_t scratch_bytes(Verb v) const override { return part(v).scratch_bytes(v); }
  std::size_t workspace_bytes() const override { return part(Verb::forward).workspace_bytes(); }
  double relative_error(Verb v) const override { return part(v).relative_error(v); }
  Cost cost(Verb v) const override {
    Cost c = part(v).cost(v);
    c.fewest_flops = fewest_flops_[static_cast<std::size_t>(v)];
    return c;
  }

 protected:
  Op& part(Verb v) const {
    KEELSON_EXPECT(parts_[static_cast<std::size_t>(v)]);
    return *parts_[static_cast<std::size_t>(v)];
  }

 private:
  VerbParts<Op> parts_;
  ByVerb<double> fewest_flops_;
};

namespace detail {

template <class Base, class Op>
struct WithForward : Base {
  using Base::Base;
  void forward(const typename Op::template Forward<Tensors>& args) override { this->part(Verb::forward).forward(args); }
};
template <class Base, class Op>
struct WithBackwardData : Base {
  using Base::Base;
  void backward_data(const typename Op::template BackwardData<Tensors>& args) override {
    this->part(Verb::backward_data).backward_data(args);
  }
};
template <class Base, class Op>
struct WithBackwardWeights : Base {
  using Base::Base;
  void backward_weights(const typename Op::template BackwardWeights<Tensors>& args) override {
    this->part(Verb::backward_weights).backward_weights(args);
  }
};

/// `Base` with `With<Base, Op>` around it if `has`.
template <bool has, template <class, class> class With, class Base, class Op>
using AddVerb = typename std::conditional_t<has, std::type_identity<With<Base, Op>>, std::type_identity<Base>>::type;

template <class Op>
constexpr bool has_forward = requires { typename Op::template Forward<Tensors>; };
template <class Op>
constexpr bool has_backward_data = requires { typename Op::template BackwardData<Tensors>; };
template <class Op>
constexpr bool has_backward_weights = requires { typename Op::template BackwardWeights<Tensors>; };

template <class Op>
struct PerVerbOf {
  using A = AddVerb<has_forward<Op>, WithForward, PerVerbBase<Op>, Op>;
  using B = AddVerb<has_backward_data<Op>, WithBackwardData, A, Op>;
  using type = AddVerb<has_backward_weights<Op>, WithBackwardWeights, B, Op>;
};

}  // namespace detail

/// An op made of one primitive for each verb. The verbs are those that the op's header declares.
template <class Op>
class PerVerb final : public detail::PerVerbOf<Op>::type {
 public:
  using detail::PerVerbOf<Op>::type::type;
};

/// The same for MatMul, which declares no operands.
template <>
class PerVerb<MatMul> final : public PerVerbBase<MatMul> {
 public:
  using PerVerbBase::PerVerbBase;
  std::size_t packed_bytes() const override { return part(Verb::forward).packed_bytes(); }
  void pack(const Tensor& weights, void* packed) override { part(Verb::forward).pack(weights, packed); }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
               void* scratch) override {
    part(Verb::forward).forward(src, weights, packed, dst, scratch);
  }
};

}  // namespace keelson::ops
