#pragma once

#include <algorithm>
#include <vector>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class Reorder;
/// Copies a tensor to another layout (or dtype). Both layouts must be concrete.
struct ReorderDesc {
  using Op = Reorder;
  TensorDesc src, dst;
};
class Reorder : public DescribedPrimitive<ReorderDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &ReorderDesc::src> src;
    Out<K, Role::dst, &ReorderDesc::dst> dst;
    Scratch<K> scratch;
  };
  bool is_linear() const final { return true; }
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class Sum;
/// dst = srcs[0] + ... + srcs[count-1], all of the same shape and dtype (floating-point). Either all have the same
/// layout, or all are strided with different strides: a term may be a slice of a larger tensor. The gradient is the
/// identity.
struct SumDesc {
  using Op = Sum;
  std::vector<TensorDesc> srcs;  ///< terms
  TensorDesc dst;

  /// The sum of `count` terms with the result's layout.
  static SumDesc alike(const TensorDesc& d, int count) {
    return {std::vector<TensorDesc>(static_cast<std::size_t>(count), d), d};
  }
  /// Whether all terms have the result's layout.
  bool is_alike() const {
    return std::all_of(srcs.begin(), srcs.end(), [&](const TensorDesc& s) { return s == dst; });
  }
};
class Sum : public DescribedPrimitive<SumDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    InList<K, Role::src, &SumDesc::srcs> srcs;
    Out<K, Role::dst, &SumDesc::dst, Role::src> dst;  ///< may be the first of srcs, if that has dst's layout
  };
  bool is_linear() const final { return true; }
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class Product;
/// dst = srcs[0] * ... * srcs[count-1], element by element. All have the shape, dtype (f32, bf16 or f16) and layout of
/// dst, strided or opaque. The gradient of a factor is the product of diff_dst and the other factors: this op again.
struct ProductDesc {
  using Op = Product;
  int count = 2;   ///< number of factors, 2 or more
  TensorDesc dst;  ///< also of each factor

  /// The descriptions of the factors.
  std::vector<TensorDesc> src_descs() const { return std::vector<TensorDesc>(static_cast<std::size_t>(count), dst); }
};
class Product : public DescribedPrimitive<ProductDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    InList<K, Role::src, &ProductDesc::src_descs> srcs;
    Out<K, Role::dst, &ProductDesc::dst, Role::src> dst;  ///< may be the first of srcs
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class Concat;
/// dst joins the srcs along `axis`. Strided layouts. The gradient of each source is a slice of dst's gradient, which
/// plans read in place.
struct ConcatDesc {
  using Op = Concat;
  std::vector<TensorDesc> srcs;  ///< parts, in their order
  int axis = 1;                  ///< dimension along which the parts are joined
  TensorDesc dst;
};
class Concat : public DescribedPrimitive<ConcatDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    InList<K, Role::src, &ConcatDesc::srcs> srcs;
    Out<K, Role::dst, &ConcatDesc::dst> dst;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};
/// Logical shape of dst. Throws InputError if the srcs differ in another dimension than `axis`.
Shape concat_dst_shape(const std::vector<Shape>& srcs, int axis);

class Softmax;
/// dst = softmax of src along `axis`, stable (the maximum is subtracted). Strided layouts.
struct SoftmaxDesc {
  using Op = Softmax;
  TensorDesc src;
  int axis = 1;  ///< dimension whose elements add up to 1
};
class Softmax : public DescribedPrimitive<SoftmaxDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &SoftmaxDesc::src> src;
    Out<K, Role::dst, &SoftmaxDesc::src, Role::src> dst;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &SoftmaxDesc::src> diff_dst;
    In<K, Role::dst, &SoftmaxDesc::src> dst;
    Out<K, Role::diff_src, &SoftmaxDesc::src> diff_src;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const ReorderDesc& d);
std::string describe(const SumDesc& d);  ///< one line for logs and errors: parameters, shapes, layouts
std::string describe(const ProductDesc& d);
std::string describe(const ConcatDesc& d);  ///< one line for logs and errors: parameters, shapes, layouts
std::string describe(const SoftmaxDesc& d);

}  // namespace keelson::ops
