#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class Orthogonalize;

/// dst = the matrix with the singular vectors of src, and with singular values near 1, by the Newton-Schulz iteration
/// of Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; settings and defaults as torch.optim.Muon):
///
///     X = src / max(|src|, epsilon), with the norm of Frobenius;
///     `steps` times: X = (a I + b A + c A^2) X, A = X X^T; dst = X.
///
/// If src has more rows than columns, the same for the transposed matrix. With the default settings singular values
/// above 1 / 500 of |src| end between 0.68 and 1.21, and smaller ones grow by a factor of at most 485. A matrix of
/// zeros stays zero. A NaN reaches all of dst.
///
/// A matrix with one extent much larger than the other is multiplied twice: all steps go on with A alone, since A of
/// the next step is Q A Q, where Q is the polynomial, and the product of all Q is applied to X. dst then has an error
/// of some 1e-4 of its largest element, else of some 1e-5.
///
/// src and dst are f32 matrices in plain layout. All products are in f32 (torch.optim.Muon multiplies in bf16). The
/// first backend of the context that multiplies these matrices makes the products: no time is measured, so that ranks
/// with the same processors get the same bits.
struct OrthogonalizeDesc {
  using Op = Orthogonalize;
  TensorDesc src;                                ///< also of dst
  float a = 3.4445f, b = -4.7750f, c = 2.0315f;  ///< coefficients of the polynomial
  float epsilon = 1e-7f;                         ///< the least norm that src is divided by; above 0
  int steps = 5;                                 ///< 0 to 99; 0: src / max(|src|, epsilon)
};
class Orthogonalize : public DescribedPrimitive<OrthogonalizeDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &OrthogonalizeDesc::src> src;
    Out<K, Role::dst, &OrthogonalizeDesc::src, Role::src> dst;  ///< may lie where src is
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const OrthogonalizeDesc& d);  ///< one line for logs and errors

}  // namespace keelson::ops
