#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/ops/conv.hpp"
#include "engine/ops/loss_scale.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// K-FAC (Martens and Grosse 2015, arXiv 1503.05671; convolutions, KFC: Grosse and Martens 2016, arXiv 1602.01407) in
/// ops. A dense layer or a convolution is y_t = W [a_t; 1] for each position t, where a_t is the window of the source
/// around t. With d_t, the gradient of the sample's own loss by y_t, N samples and T positions of a sample, the factors
/// are
///
///     A = 1 / N     sum over samples and positions of [a_t; 1] [a_t; 1]^T
///     G = 1 / (N T) sum over samples and positions of d_t d_t^T
///
/// The elements of a window are in the order kernel dimensions, channels (channels fastest), as those of W in
/// channels-last layout. f32. How optimizers put the ops together: engine/optim/kfac.hpp.
namespace keelson::ops {

/// Number of elements of the upper triangle of a matrix of n rows.
constexpr std::int64_t triangle_size(std::int64_t n) { return n * (n + 1) / 2; }
/// Where row `row` of the upper triangle of a matrix of n rows begins, if the rows lie one after the other.
constexpr std::int64_t triangle_row(std::int64_t n, std::int64_t row) { return row * n - row * (row - 1) / 2; }

class Patches;
/// Windows of a tensor as rows of a matrix. `src` is (rows, features), whose rows have one window each, or (N, C,
/// spatial...); any strided layout; f32, bf16 or f16. Zeros around src as `window` says.
struct PatchesDesc {
  using Op = Patches;
  ConvParams window;         ///< kernel, stride, dilation and padding; an empty kernel for a matrix
  TensorDesc src;            ///< N is a multiple of `samples`, and the entries of a sample are neighbours
  std::int64_t samples = 1;  ///< of the batch
  /// Windows of each entry of N that are taken; 0: all. Else one of each of so many parts of equal size, in the order
  /// of the positions, at a place that depends on seed, step, sample and part alone (philox).
  std::int64_t at_most = 0;
  bool ones = true;  ///< each row ends with a 1

  std::int64_t positions() const;  ///< windows of each entry of N
  /// Windows of each entry of N that are taken.
  std::int64_t chosen() const { return at_most > 0 ? std::min(at_most, positions()) : positions(); }
  std::int64_t rows() const { return src.shape[0] * chosen(); }  ///< of the matrix
  std::int64_t columns() const;                                  ///< of the matrix, with the 1
};
/// Plans do not call this op. Primitives that consist of products call it with parts of their own memory.
class Patches : public DescribedPrimitive<PatchesDesc> {
 public:
  /// Writes the rows [first, first + rows of dst) of the matrix to dst, plain f32. `weight`: (samples) f32, rows of
  /// samples of weight 0 are zeros with the 1; an empty tensor: all samples count.
  virtual void gather(const Tensor& step_params, const Tensor& src, const Tensor& weight, std::int64_t first,
                      const Tensor& dst) = 0;
};

class PackedTriangle;
/// The upper triangle of a sum of matrices, row after row, f32.
struct PackedTriangleDesc {
  using Op = PackedTriangle;
  std::int64_t rows = 1;  ///< and columns of the matrix

  TensorDesc packed() const { return TensorDesc::plain({triangle_size(rows)}); }  ///< desc of the triangle
};
/// Plans do not call this op, as Patches.
class PackedTriangle : public DescribedPrimitive<PackedTriangleDesc> {
 public:
  /// Rows of `packed` from `first_row` on: overwritten by `block`, or block added to them. `block`: plain (count, rows
  /// - first_row), the matrix' elements from column first_row on; those below the diagonal are not read.
  virtual void add(const Tensor& block, std::int64_t first_row, bool overwrite, const Tensor& packed) = 0;
};

class RunningFactors;
/// The running means of A and G: factor = decay factor + (1 - decay) new, or new while the factor's trace is zero.
///
/// The new factors are those of all ranks' sums: of the upper triangle of the rows' products with a 1 at the end of
/// each row (`a_sums`; the last element is the number of rows), and of the products of the gradients that backward
/// passes make (`g_sums`), which are d times StepParams::inverse_samples and LossScale::scale. Nothing changes if
/// LossScale::skip is set, or if the number of rows is zero.
struct RunningFactorsDesc {
  using Op = RunningFactors;
  std::int64_t inputs = 1, outputs = 1;    ///< elements of a window without the 1; rows of W
  bool bias = true;                        ///< A has the row and the column of the 1
  std::int64_t positions = 1, chosen = 1;  ///< T, and of how many of them a_sums is made
  float decay = 0.95f;                     ///< of the running means

  std::int64_t a_rows() const { return inputs + (bias ? 1 : 0); }                       ///< of A
  TensorDesc a_sums() const { return TensorDesc::plain({triangle_size(inputs + 1)}); }  ///< desc of the sums
  TensorDesc g_sums() const { return TensorDesc::plain({triangle_size(outputs)}); }     ///< desc of the sums
  TensorDesc a() const { return TensorDesc::plain({a_rows(), a_rows()}); }              ///< desc of A
  TensorDesc g() const { return TensorDesc::plain({outputs, outputs}); }                ///< desc of G
};
class RunningFactors : public DescribedPrimitive<RunningFactorsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::sums, &RunningFactorsDesc::a_sums> a_sums;
    In<K, Role::diff_sums, &RunningFactorsDesc::g_sums> g_sums;
    InOut<K, Role::moment1, &RunningFactorsDesc::a> a;
    InOut<K, Role::moment2, &RunningFactorsDesc::g> g;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class FactorInverses;
/// What the direction of a step needs of the factors of layers, in f64:
///
/// - the inverses (A + pi sqrt(damping) I)^-1 and (G + sqrt(damping) / pi I)^-1, pi = sqrt((tr A / rows of A) / (tr G /
///   rows of G)) (factored damping, section 6.3 of Martens and Grosse 2015), by Cholesky's method;
/// - or with `eigen` their eigenvectors, a row for each, and a last row with the eigenvalues. Those below 2^-24 times
///   the largest one count as that, since f32 has rounded the matrices.
///
/// A matrix without a Cholesky decomposition is inverted by its eigenvalues. All results of a layer are zero if A or G
/// is zero. NaN goes in and comes out. Only the lower triangles are read. A matrix of n rows takes about n^3
/// operations, or 9 n^3 with eigenvectors.
struct FactorInversesDesc {
  using Op = FactorInverses;
  std::vector<TensorDesc> factors;  ///< A and G of a layer, then those of the next: plain (n, n) f32
  std::vector<std::int64_t>
      matrices;        ///< numbers in `factors` of those that this primitive computes; others give zeros
  float damping = 0;   ///< 0 or more; not read with `eigen`
  bool eigen = false;  ///< eigenvectors and eigenvalues

  /// Desc of the result for a factor of n rows: (n, n), or (n + 1, n) with eigenvalues.
  static TensorDesc inverse(std::int64_t n, bool eigen) { return TensorDesc::plain({eigen ? n + 1 : n, n}); }
  std::vector<TensorDesc> inverses() const;  ///< of all factors
};
class FactorInverses : public DescribedPrimitive<FactorInversesDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    InList<K, Role::src, &FactorInversesDesc::factors> factors;
    OutList<K, Role::dst, &FactorInversesDesc::inverses> inverses;
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class EigenQuotient;
/// values[i][j] /= v_i u_j + damping, with eigenvalues as FactorInverses makes them.
struct EigenQuotientDesc {
  using Op = EigenQuotient;
  std::int64_t rows = 1, columns = 1;  ///< of the values, which are plain f32
  float damping = 0;                   ///< above or equal to 0
};
/// Plans do not call this op, as Patches.
class EigenQuotient : public DescribedPrimitive<EigenQuotientDesc> {
 public:
  /// `of_rows`: the result of FactorInverses for the factor of the rows (v), `of_columns` for that of the columns (u).
  virtual void divide(const Tensor& values, const Tensor& of_rows, const Tensor& of_columns) = 0;
};

class InnerProduct;
/// sums[index] = factor times the sum of a b, in f64, in a fixed order.
struct InnerProductDesc {
  using Op = InnerProduct;
  TensorDesc src;          ///< of a and b, f32; a dense layout
  std::int64_t index = 0;  ///< position of the result in sums
  double factor = 1;       ///< of the result
};
class InnerProduct : public DescribedPrimitive<InnerProductDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &InnerProductDesc::src> a;
    In<K, Role::saved, &InnerProductDesc::src> b;
    InOut<K, Role::sums, undescribed> sums;  ///< f64; the other elements do not change
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class KlClip;
/// dst = nu direction, nu = min(1, sqrt(clip / (lr^2 f^2 sum of all products))), so that a step changes the predictions
/// by a bounded amount (Pauloski et al. 2020, arXiv 2007.00784). lr = StepParams::learning_rate; f = LossScale::unscale
/// times the factor of the global clip, since direction and gradients are still those of the scaled loss. A layer whose
/// own product is zero has no direction yet: dst = gradient.
struct KlClipDesc {
  using Op = KlClip;
  TensorDesc direction;    ///< f32; a dense layout
  std::int64_t index = 0;  ///< of the own product
  float clip = 0;          ///< 0: nu is 1
  float clip_norm = 0;     ///< > 0: all gradients will be scaled by min(1, clip_norm / global norm)
};
class KlClip : public DescribedPrimitive<KlClipDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::src, &KlClipDesc::direction> direction;
    In<K, Role::diff_weights, &KlClipDesc::direction> gradient;
    In<K, Role::sums, undescribed> products;
    OptionalIn<K, Role::norms, undescribed> global_norm;
    Out<K, Role::dst, &KlClipDesc::direction, Role::src> dst;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `products`: f64, the inner product of direction and gradient of each layer, times the square of the layer's factor
  /// of the learning rate. `global_norm`: as for Update; absent unless clip_norm is set. `dst` may lie where direction
  /// lies.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const PatchesDesc& d);  ///< one line for logs and errors
std::string describe(const PackedTriangleDesc& d);
std::string describe(const RunningFactorsDesc& d);
std::string describe(const FactorInversesDesc& d);
std::string describe(const EigenQuotientDesc& d);
std::string describe(const InnerProductDesc& d);
std::string describe(const KlClipDesc& d);

}  // namespace keelson::ops
