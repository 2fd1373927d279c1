#pragma once

#include <vector>

#include "engine/ops/primitive.hpp"

namespace keelson::ops {

class Reorder;
/// Same logical tensor, other layout (or dtype). Both layouts are concrete.
struct ReorderDesc {
  using Op = Reorder;
  TensorDesc src, dst;
};
class Reorder : public Primitive {
 public:
  virtual void forward(const Tensor& src, const Tensor& dst, const Tensor& scratch) = 0;
};

class Sum;
/// dst = srcs[0] + ... + srcs[count-1]; all of one shape, dtype and layout. Its gradient is the identity.
struct SumDesc {
  using Op = Sum;
  TensorDesc src;
  int count = 2;
};
class Sum : public Primitive {
 public:
  /// `srcs` points to `count` tensors. dst may be srcs[0].
  virtual void forward(const Tensor* srcs, const Tensor& dst) = 0;
};

class Concat;
/// dst joins the srcs along `axis`. Strided layouts.
struct ConcatDesc {
  using Op = Concat;
  std::vector<TensorDesc> srcs;
  int axis = 1;
  TensorDesc dst;
};
class Concat : public Primitive {
 public:
  virtual void forward(const Tensor* srcs, const Tensor& dst) = 0;
  /// diff_srcs[i] = the slice of diff_dst that srcs[i] filled.
  virtual void backward(const Tensor& diff_dst, const Tensor* diff_srcs) = 0;
};
Shape concat_dst_shape(const std::vector<Shape>& srcs, int axis);

class Softmax;
/// dst = softmax of src along `axis`, stable (the maximum is subtracted). Strided layouts.
struct SoftmaxDesc {
  using Op = Softmax;
  TensorDesc src;
  int axis = 1;
};
class Softmax : public Primitive {
 public:
  virtual void forward(const Tensor& src, const Tensor& dst) = 0;  ///< dst may be src
  virtual void backward(const Tensor& diff_dst, const Tensor& dst, const Tensor& diff_src) = 0;
};

}  // namespace keelson::ops
