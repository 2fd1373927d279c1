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

/// The diagonal blocks of a square matrix. A block is a run of rows, and the columns of the same numbers. What a
/// matrix has outside its blocks counts as zero.
struct DiagonalBlocks {
  std::int64_t rows = 1;   ///< of the matrix
  std::int64_t size = 1;   ///< rows of each block but the last one
  std::int64_t count = 1;  ///< of the blocks

  /// Blocks of about the same size, of `most` rows or fewer; 0: one block.
  static DiagonalBlocks of(std::int64_t rows, std::int64_t most);
  std::int64_t first(std::int64_t block) const { return block * size; }  ///< row of the matrix
  /// Rows of a block.
  std::int64_t rows_of(std::int64_t block) const { return block + 1 < count ? size : rows - first(block); }
  /// The blocks as an array, (count, size, size). A last block with fewer rows has rows and columns of zeros at its
  /// end.
  TensorDesc whole() const { return TensorDesc::plain({count, size, size}); }
  /// Their upper triangles, one behind the other.
  TensorDesc packed() const { return TensorDesc::plain({packed_first(count - 1) + triangle_size(rows_of(count - 1))}); }
  /// First element of a block in packed().
  std::int64_t packed_first(std::int64_t block) const { return block * triangle_size(size); }
};

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
  /// Whether the matrix lies in the memory of src, as a plain matrix.
  bool is_src() const;
};
/// Plans do not call this op. Primitives that consist of products call it with parts of their own memory.
class Patches : public DescribedPrimitive<PatchesDesc> {
 public:
  /// Writes the part of the matrix from row `first_row` and column `first_column` on to dst, plain f32. `weight`:
  /// (samples) f32, rows of samples of weight 0 are zeros with the 1; an empty tensor: all samples count.
  virtual void gather(const Tensor& step_params, const Tensor& src, const Tensor& weight, std::int64_t first_row,
                      std::int64_t first_column, const Tensor& dst) = 0;
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
/// The new factors are those of all ranks' sums: of the products of the rows with a 1 at the end of each row (`a_sums`;
/// the last element is the number of rows), and of the products of the gradients that backward passes make (`g_sums`),
/// which are d times StepParams::inverse_samples and LossScale::scale. Both are upper triangles of blocks. Nothing
/// changes if LossScale::skip is set, or if the number of rows is zero.
struct RunningFactorsDesc {
  using Op = RunningFactors;
  DiagonalBlocks a_blocks, g_blocks;       ///< of A, with the row of the 1 if there is a bias; of G
  bool bias = true;                        ///< A has the row and the column of the 1
  std::int64_t positions = 1, chosen = 1;  ///< T, and of how many of them a_sums is made
  float decay = 0.95f;                     ///< of the running means

  /// Blocks of the sums: those of A, and the 1 belongs to the last one.
  static DiagonalBlocks sums_of(DiagonalBlocks a_blocks, bool bias);
  TensorDesc a_sums() const { return sums_of(a_blocks, bias).packed(); }  ///< desc of the sums
  TensorDesc g_sums() const { return g_blocks.packed(); }                 ///< desc of the sums
  TensorDesc a() const { return a_blocks.whole(); }                       ///< desc of A
  TensorDesc g() const { return g_blocks.whole(); }                       ///< desc of G
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
///   the largest one of the block count as that, since f32 has rounded the matrices.
///
/// All this is done block by block. A block without a Cholesky decomposition is inverted by its eigenvalues. All
/// results of a layer are zero if A or G is zero; so is that of a block of zeros without damping. NaN goes in and comes
/// out. Only the lower triangles are read. A block of n rows takes about n^3 operations, or 9 n^3 with eigenvectors.
struct FactorInversesDesc {
  using Op = FactorInverses;
  /// A block of a factor.
  struct Matrix {
    std::int64_t factor = 0, block = 0;  ///< number in `blocks`; number of the block
  };
  std::vector<DiagonalBlocks> blocks;  ///< of A and G of a layer, then of those of the next
  std::vector<Matrix> matrices;        ///< those that this primitive computes; others give zeros
  float damping = 0;                   ///< 0 or more; not read with `eigen`
  bool eigen = false;                  ///< eigenvectors and eigenvalues

  /// Desc of the result for a factor: (count, size, size), or (count, size + 1, size) with eigenvalues, which lie
  /// behind the last eigenvector, also in a last block with fewer rows.
  static TensorDesc inverse(const DiagonalBlocks& blocks, bool eigen) {
    return TensorDesc::plain({blocks.count, blocks.size + (eigen ? 1 : 0), blocks.size});
  }
  /// First element of a block's eigenvalues.
  static std::int64_t eigenvalues(const DiagonalBlocks& blocks, std::int64_t block) {
    return (block * (blocks.size + 1) + blocks.rows_of(block)) * blocks.size;
  }
  std::vector<Matrix> all_matrices() const;  ///< of all factors
  std::vector<TensorDesc> factors() const;   ///< of all factors
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
  /// Begins to compute what forward() is asked for in a later step, as InverseRoots::begin(), with copies of `factors`.
  virtual void begin(const std::vector<Tensor>& factors) { (void)factors; }
};

class EigenQuotient;
/// values[i][j] /= v_i u_j + damping, with eigenvalues as FactorInverses makes them; 0 where the divisor is 0.
struct EigenQuotientDesc {
  using Op = EigenQuotient;
  DiagonalBlocks rows;       ///< of the values, which are plain f32
  std::int64_t columns = 1;  ///< of the values
  float damping = 0;         ///< above or equal to 0
};
/// Plans do not call this op, as Patches.
class EigenQuotient : public DescribedPrimitive<EigenQuotientDesc> {
 public:
  /// `of_rows`: the result of FactorInverses for the factor of the rows, with v. `of_columns`: (columns), u.
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
  TensorDesc direction;    ///< and gradient: (rows, columns) f32, whose rows may lie apart
  std::int64_t index = 0;  ///< of the own product
  float clip = 0;          ///< 0: nu is 1
  float clip_norm = 0;     ///< > 0: all gradients will be scaled by min(1, clip_norm / global norm)

  TensorDesc dst() const { return TensorDesc::plain(direction.shape); }  ///< desc
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
    Out<K, Role::dst, &KlClipDesc::dst> dst;
    OptionalIn<K, Role::loss_scale, undescribed> loss_scale;
  };
  /// `products`: f64, the inner product of direction and gradient of each layer, times the square of the layer's factor
  /// of the learning rate. `global_norm`: as for Update; absent unless clip_norm is set.
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
