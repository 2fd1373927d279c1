#pragma once

#include <array>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/ops/primitive.hpp"

/// How a primitive declares the operands of a verb: once, as a struct whose fields say role, access and description.
///
///     class Softmax : public DescribedPrimitive<SoftmaxDesc> {
///       template <class K>
///       struct Forward {
///         static constexpr Verb verb = Verb::forward;
///         In<K, Role::src, &SoftmaxDesc::src> src;
///         Out<K, Role::dst, &SoftmaxDesc::src, Role::src> dst;  // may lie where src is
///       };
///       virtual void forward(const Forward<Tensors>& args) = 0;
///     };
///
/// The kind K decides what the fields hold: tensors when a kernel runs (Tensors), numbers of buffers when a plan is
/// made (Buffers in engine/plan/node_builder.hpp), the declaration itself (Declared). Plans, the tests' fake device,
/// the generic test of operands and the checking mode read the declaration.
namespace keelson::ops {

/// How a verb accesses an operand.
enum class Access : std::uint8_t {
  read,
  write,    ///< overwritten; old contents are never read
  update,   ///< read and written, or written in part
  scratch,  ///< contents are undefined before and after
};

/// Stands for the description of an operand that is not fixed: the caller knows the size, or the dtype may vary.
inline constexpr std::nullptr_t undescribed = nullptr;

/// One field's declaration. `Description`: a member (or a const member function) of the op's Desc that gives a
/// TensorDesc, for lists a vector of them; or `undescribed`. If its layout is `any`, Primitive::layout() returns the
/// layout.
template <Role R, Access A, auto Description, Role InPlaceOf, bool Optional, bool List>
struct Declaration {
  static constexpr Role role = R;                 ///< part in the op
  static constexpr Access access = A;             ///< read, written, ...
  static constexpr Role in_place_of = InPlaceOf;  ///< may share the memory of that operand; none: of no operand
  /// Whether the operand may be absent, and whether several share the role.
  static constexpr bool optional = Optional, list = List;
  static constexpr auto description = Description;  ///< member of the Desc, or undescribed
};

/// The fields are declarations.
struct Declared {
  /// A field for one operand.
  template <Role R, Access A, auto D, Role P, bool Optional>
  using Operand = Declaration<R, A, D, P, Optional, false>;
  /// A field for several operands.
  template <Role R, Access A, auto D, Role P>
  using List = Declaration<R, A, D, P, false, true>;
};

/// The fields are tensors; an absent operand is an empty tensor.
struct Tensors {
  /// A field for one operand.
  template <Role, Access, auto, Role, bool>
  using Operand = Tensor;
  /// A field for several operands.
  template <Role, Access, auto, Role>
  using List = std::vector<Tensor>;
};

/// An operand that is read.
template <class K, Role R, auto D>
using In = typename K::template Operand<R, Access::read, D, Role::none, false>;
/// An operand that is written.
template <class K, Role R, auto D, Role InPlaceOf = Role::none>
using Out = typename K::template Operand<R, Access::write, D, InPlaceOf, false>;
/// An operand that is read and written.
template <class K, Role R, auto D>
using InOut = typename K::template Operand<R, Access::update, D, Role::none, false>;
/// An operand that is read, or absent.
template <class K, Role R, auto D>
using OptionalIn = typename K::template Operand<R, Access::read, D, Role::none, true>;
/// An operand that is written, or absent.
template <class K, Role R, auto D, Role InPlaceOf = Role::none>
using OptionalOut = typename K::template Operand<R, Access::write, D, InPlaceOf, true>;
/// An operand that is read and written, or absent.
template <class K, Role R, auto D>
using OptionalInOut = typename K::template Operand<R, Access::update, D, Role::none, true>;
/// Several operands of one role. With `InPlaceOf` a result may share the memory of the first.
template <class K, Role R, auto D>
using InList = typename K::template List<R, Access::read, D, Role::none>;
/// Several operands that are written.
template <class K, Role R, auto D>
using OutList = typename K::template List<R, Access::write, D, Role::none>;
/// u8, Primitive::scratch_bytes(verb), 64-byte aligned; empty for 0 bytes.
template <class K>
using Scratch = typename K::template Operand<Role::scratch, Access::scratch, undescribed, Role::none, true>;

/// A primitive that stores its description.
template <class D>
class DescribedPrimitive : public Primitive {
 public:
  /// The description.
  using Desc = D;
  /// The description from which the primitive was made.
  const D& description() const { return description_; }
  void set_description(const D& d) { description_ = d; }  ///< called by the context on creation

 private:
  D description_{};
};

namespace detail {

struct AnyField {
  template <class T>
  operator T() const;  // NOLINT: converts to the type of any field
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

template <class T, std::size_t N = 12>
constexpr std::size_t field_count() {
  if constexpr (N == 0 || takes<T>(std::make_index_sequence<N>()))
    return N;
  else
    return field_count<T, N - 1>();
}

template <std::size_t N, class T>
auto tie_fields(T& t) {
  if constexpr (N == 1) {
    auto& [a] = t;
    return std::tie(a);
  } else if constexpr (N == 2) {
    auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (N == 3) {
    auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (N == 4) {
    auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (N == 5) {
    auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (N == 6) {
    auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (N == 7) {
    auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (N == 8) {
    auto& [a, b, c, d, e, f, g, h] = t;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (N == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = t;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else {
    static_assert(N == 10, "a verb has 1 to 10 operands");
    auto& [a, b, c, d, e, f, g, h, i, j] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  }
}

}  // namespace detail

/// The fields of `Args<K>`, in order, as a tuple of references.
template <template <class> class Args, class K>
auto fields(Args<K>& args) {
  return detail::tie_fields<detail::field_count<Args<Declared>>()>(args);
}
/// The same for constant fields.
template <template <class> class Args, class K>
auto fields(const Args<K>& args) {
  return detail::tie_fields<detail::field_count<Args<Declared>>()>(args);
}

/// An operand's declaration for one primitive.
struct OperandInfo {
  Role role;      ///< part in the op
  Access access;  ///< read, written, ...
  /// Whether the operand may be absent, and whether several share the role.
  bool optional, list;
  Role in_place_of;               ///< operand whose memory this operand may share; none: no operand
  std::vector<TensorDesc> descs;  ///< one; for a list one for each, or one for all; empty: undescribed
};

/// The declaration of Args, with the descriptions that `desc` gives.
template <template <class> class Args, class Desc>
std::vector<OperandInfo> declared_operands(const Desc& desc) {
  std::vector<OperandInfo> all;
  const Args<Declared> declaration{};
  const auto add = [&]<class D>(const D&) {
    OperandInfo info{D::role, D::access, D::optional, D::list, D::in_place_of, {}};
    if constexpr (!std::is_null_pointer_v<std::remove_cv_t<decltype(D::description)>>) {
      const auto described = std::invoke(D::description, desc);
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(described)>, TensorDesc>)
        info.descs = {described};
      else
        info.descs = described;
    }
    all.push_back(std::move(info));
  };
  std::apply([&](const auto&... f) { (add(f), ...); }, fields(declaration));
  return all;
}

/// Makes Args of tensors. `tensors` are in the order of the fields; field i takes counts[i] of them.
template <template <class> class Args>
Args<Tensors> make_args(const Tensor* tensors, const std::vector<std::size_t>& counts) {
  Args<Tensors> args{};
  const std::size_t* count = counts.data();
  const auto take = [&]<class F>(F& field) {
    if constexpr (std::is_same_v<F, Tensor>)
      field = *tensors;
    else
      field.assign(tensors, tensors + *count);
    tensors += *count++;
  };
  std::apply([&](auto&... f) { (take(f), ...); }, fields(args));
  return args;
}

/// The reverse: all tensors of `args` one after the other.
template <template <class> class Args>
std::vector<Tensor> flatten(const Args<Tensors>& args, std::vector<std::size_t>* counts = nullptr) {
  std::vector<Tensor> all;
  const auto add = [&]<class F>(const F& field) {
    const std::size_t before = all.size();
    if constexpr (std::is_same_v<F, Tensor>)
      all.push_back(field);
    else
      all.insert(all.end(), field.begin(), field.end());
    if (counts) counts->push_back(all.size() - before);
  };
  std::apply([&](const auto&... f) { (add(f), ...); }, fields(args));
  return all;
}

/// Executes the verb to which `args` belong.
template <class Op, template <class> class Args>
void execute(Op& op, const Args<Tensors>& args) {
  if constexpr (Args<Tensors>::verb == Verb::forward)
    op.forward(args);
  else if constexpr (Args<Tensors>::verb == Verb::backward_data)
    op.backward_data(args);
  else
    op.backward_weights(args);
}

}  // namespace keelson::ops
