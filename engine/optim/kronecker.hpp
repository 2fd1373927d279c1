#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ops/combine.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/shampoo.hpp"

/// Optimizers that keep a matrix (a Kronecker factor) for each dimension of a parameter, or of its blocks.
namespace keelson {

/// A parameter cut into blocks: each dimension into parts of about the same extent. The factors of dimension i of all
/// blocks are one array (blocks, size i, size i); a factor of a block with a smaller extent has rows and columns of
/// zeros at its end.
class KroneckerBlocks {
 public:
  KroneckerBlocks() = default;  ///< of no parameter
  /// `shape`: of the parameter, 1 dimension or more. `most`: the largest extent of a block, above 0.
  KroneckerBlocks(const Shape& shape, std::int64_t most);

  const Shape& shape() const { return shape_; }              ///< as given
  int rank() const { return shape_.rank(); }                 ///< number of dimensions
  std::int64_t count() const { return counts_.elements(); }  ///< blocks
  std::int64_t size(int dim) const { return sizes_[dim]; }   ///< extent of a block; the last ones may have less
  Shape extents(std::int64_t block) const;                   ///< of this block
  /// The block within a plain array of the parameter's shape: its description, with gaps, and its first element.
  TensorDesc part(std::int64_t block) const;
  std::int64_t offset(std::int64_t block) const;  ///< elements
  /// Shape of the array with the factors of a dimension.
  Shape factors(int dim) const { return {count(), size(dim), size(dim)}; }
  /// The factor of a block within that array: its description, with gaps between rows where it is smaller, and its
  /// first element.
  TensorDesc factor(int dim, std::int64_t block) const;
  std::int64_t factor_offset(int dim, std::int64_t block) const { return block * size(dim) * size(dim); }  ///< elements

 private:
  Shape place(std::int64_t block) const;

  Shape shape_, counts_, sizes_;
};

/// `shape` with fewer dimensions: those of extent 1 are left out, and from the second on neighbours are merged while
/// their product is at most `most`. (64, 32, 3, 3, 3) and 1024 gives (64, 864). The first dimension, a layer's outputs,
/// is merged with none.
Shape merge_small_dims(const Shape& shape, std::int64_t most);

/// The update of the factors of one dimension: factor = decay factor + share G G^T for each block, where G is the
/// block's gradient as a matrix with a row for each index of the dimension (ops::DecayedSum says what share is).
struct FactorSumDesc {
  KroneckerBlocks blocks;  ///< of the parameter
  int dim = 0;             ///< the dimension
  float decay = 1;         ///< of the sum

  TensorDesc gradient() const { return TensorDesc::plain(blocks.shape()); }      ///< desc of the gradient
  TensorDesc factors() const { return TensorDesc::plain(blocks.factors(dim)); }  ///< desc of the factors
};
/// Consists of ops::MatMul and ops::DecayedSum. f32. Rows and columns of factors beyond a block's extent do not change.
class FactorSum : public ops::DescribedPrimitive<FactorSumDesc> {
 public:
  /// Throws InputError if no backend of the context multiplies f32 matrices.
  FactorSum(Context& context, const FactorSumDesc& d);
  ~FactorSum() override;

  Layout layout(ops::Verb, ops::Role role) const override;
  std::string name(ops::Verb) const override;
  std::size_t scratch_bytes(ops::Verb) const override { return scratch_; }
  ops::Cost cost(ops::Verb) const override { return cost_; }

  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::src, &FactorSumDesc::gradient> src;
    ops::InOut<K, ops::Role::sums, &FactorSumDesc::factors> factors;
    ops::OptionalIn<K, ops::Role::loss_scale, ops::undescribed> loss_scale;
    ops::Scratch<K> scratch;
  };
  void forward(const Forward<ops::Tensors>& args);  ///< the update

 private:
  struct Block;
  std::vector<Block> blocks_;
  std::size_t scratch_ = 0;
  ops::Cost cost_;
};

/// dst = src, where each block is multiplied along each dimension by a symmetric matrix, as of InverseRoots: for a
/// matrix, roots[0] src roots[1].
struct KroneckerProductDesc {
  KroneckerBlocks blocks;  ///< of the parameter

  TensorDesc src() const { return TensorDesc::plain(blocks.shape()); }  ///< desc of src and dst
  std::vector<TensorDesc> roots() const;                                ///< descs of the matrices, by dimension
};
/// Consists of ops::MatMul and ops::Reorder. f32.
class KroneckerProduct : public ops::DescribedPrimitive<KroneckerProductDesc> {
 public:
  /// Throws InputError if no backend of the context multiplies f32 matrices.
  KroneckerProduct(Context& context, const KroneckerProductDesc& d);
  ~KroneckerProduct() override;

  Layout layout(ops::Verb, ops::Role role) const override;
  std::string name(ops::Verb) const override;
  std::size_t scratch_bytes(ops::Verb) const override { return scratch_; }
  ops::Cost cost(ops::Verb) const override { return cost_; }

  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::src, &KroneckerProductDesc::src> src;
    ops::InList<K, ops::Role::weights, &KroneckerProductDesc::roots> roots;
    ops::Out<K, ops::Role::dst, &KroneckerProductDesc::src> dst;
    ops::Scratch<K> scratch;
  };
  void forward(const Forward<ops::Tensors>& args);  ///< the products

 private:
  struct Block;
  std::vector<Block> blocks_;
  std::size_t value_bytes_ = 0;  ///< of the largest block
  std::size_t scratch_ = 0;
  ops::Cost cost_;
};

}  // namespace keelson
