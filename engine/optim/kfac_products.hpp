#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/ops/kfac.hpp"

/// The matrix products of K-FAC. Both ops consist of ops of the backends.
namespace keelson {

/// The sum of the rows' products, P^T P, where P is the matrix of ops::Patches: the upper triangles of its diagonal
/// blocks.
struct PatchGramDesc {
  ops::PatchesDesc patches;    ///< P
  ops::DiagonalBlocks blocks;  ///< of so many rows as P has columns; the last one may have one row more than the others
  bool weighted = true;        ///< forward() takes weights of samples

  TensorDesc src() const { return patches.src; }                              ///< desc of the source
  TensorDesc weight() const { return TensorDesc::plain({patches.samples}); }  ///< desc of the weights of samples
  TensorDesc sums() const { return blocks.packed(); }                         ///< desc of the result
};
/// Consists of ops::Patches, ops::MatMul and ops::PackedTriangle. Writes a tile of P, some rows of a block's columns,
/// after the other to scratch memory, or reads it in the source. Adds up their products some columns after the other,
/// so that few products below the diagonal are made.
class PatchGram : public ops::DescribedPrimitive<PatchGramDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::step_params, ops::undescribed> step_params;
    ops::In<K, ops::Role::src, &PatchGramDesc::src> src;
    ops::OptionalIn<K, ops::Role::sample_weight, &PatchGramDesc::weight> weight;
    ops::Out<K, ops::Role::sums, &PatchGramDesc::sums> sums;
    ops::Scratch<K> scratch;
  };
  /// `tile_bytes`: the approximate size of a tile. Throws InputError if no backend of the context makes a part.
  PatchGram(Context& context, const PatchGramDesc& d, std::size_t tile_bytes = std::size_t{4} << 20);
  ~PatchGram() override;

  Layout layout(ops::Verb, ops::Role role) const override;
  std::string name(ops::Verb) const override;
  std::size_t scratch_bytes(ops::Verb) const override { return scratch_; }
  ops::Cost cost(ops::Verb) const override { return cost_; }
  /// `weight`: as ops::Patches takes it; absent unless the description is weighted.
  void forward(const Forward<ops::Tensors>& args);

 private:
  bool reads_src() const;
  struct Block;
  std::shared_ptr<ops::Patches> patches_;
  std::vector<Block> blocks_;  ///< all but the last one are like the first; the last one is like the second
  std::int64_t tile_rows_ = 0;
  std::size_t tile_bytes_ = 0, product_bytes_ = 0, scratch_ = 0;
  ops::Cost cost_;
};

/// The direction of a layer from its gradient and the results of ops::FactorInverses: G^-1 gradient A^-1, or with
/// `eigen` Q_G ((Q_G^T gradient Q_A) / (v_G v_A^T + damping)) Q_A^T.
struct KfacDirectionDesc {
  ops::DiagonalBlocks rows, columns;  ///< of the gradient: outputs; inputs with the bias
  bool eigen = false;                 ///< as FactorInversesDesc
  float damping = 0;                  ///< with eigen

  TensorDesc gradient() const { return TensorDesc::plain({rows.rows, columns.rows}); }       ///< and the direction
  TensorDesc g_inverse() const { return ops::FactorInversesDesc::inverse(rows, eigen); }     ///< desc
  TensorDesc a_inverse() const { return ops::FactorInversesDesc::inverse(columns, eigen); }  ///< desc
};
/// Consists of ops::MatMul and ops::EigenQuotient. f32. Makes the columns of a block of A, then those of the next.
class KfacDirection : public ops::DescribedPrimitive<KfacDirectionDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr ops::Verb verb = ops::Verb::forward;
    ops::In<K, ops::Role::src, &KfacDirectionDesc::gradient> src;
    ops::In<K, ops::Role::moment1, &KfacDirectionDesc::a_inverse> a_inverse;
    ops::In<K, ops::Role::moment2, &KfacDirectionDesc::g_inverse> g_inverse;
    ops::Out<K, ops::Role::dst, &KfacDirectionDesc::gradient> dst;
    ops::Scratch<K> scratch;
  };
  /// Throws InputError if no backend of the context multiplies f32 matrices.
  KfacDirection(Context& context, const KfacDirectionDesc& d);
  ~KfacDirection() override;

  Layout layout(ops::Verb, ops::Role role) const override;
  std::string name(ops::Verb) const override;
  std::size_t scratch_bytes(ops::Verb) const override { return scratch_; }
  ops::Cost cost(ops::Verb) const override { return cost_; }
  void forward(const Forward<ops::Tensors>& args);  ///< nothing may overlap

 private:
  struct Columns;
  std::vector<Columns> columns_;  ///< as the blocks of PatchGram
  std::size_t value_bytes_ = 0, scratch_ = 0;
  ops::Cost cost_;
};

}  // namespace keelson
