#pragma once

#include <fmt/format.h>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class Attention;
/// Scaled dot-product attention of several heads (Vaswani et al. 2017, arXiv 1706.03762). Queries, keys, values and dst
/// are plain (N * steps, F), f32, bf16 or f16, where step t of sample n is row n * steps + t. Head h has the columns
/// from h * F / heads on. In each sample and head, with i and j steps:
///
///     score[i][j] = scale * dot(query[i], key[j]),  scale = 1 / sqrt(F / heads)
///     weight[i] = softmax of score[i] over j (if causal, over j <= i),  dst[i] = sum over j of weight[i][j] value[j]
///
/// The scores are made in tiles and never stored as a whole (Dao et al. 2022, arXiv 2205.14135): memory grows with the
/// steps, not with their square. Backward makes the scores again. Sums are f32.
struct AttentionDesc {
  using Op = Attention;
  TensorDesc src;          ///< of the queries, keys and values, each
  std::int64_t steps = 1;  ///< divides the number of rows
  std::int64_t heads = 1;  ///< divides the number of columns
  bool causal = false;     ///< a step sees no later steps

  /// The descriptions of queries, keys and values.
  std::vector<TensorDesc> src_descs() const { return {src, src, src}; }
  TensorDesc saved_desc() const { return TensorDesc::plain({src.shape[0], heads}); }
};
class Attention : public DescribedPrimitive<AttentionDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    InList<K, Role::src, &AttentionDesc::src_descs> srcs;  ///< queries, keys, values
    Out<K, Role::dst, &AttentionDesc::src> dst;
    Out<K, Role::saved, &AttentionDesc::saved_desc> saved;  ///< log of the sum over j of exp(score[i][j]), f32
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &AttentionDesc::src> diff_dst;
    InList<K, Role::src, &AttentionDesc::src_descs> srcs;
    In<K, Role::dst, &AttentionDesc::src> dst;
    In<K, Role::saved, &AttentionDesc::saved_desc> saved;
    OutList<K, Role::diff_src, &AttentionDesc::src_descs> diff_srcs;  ///< of queries, keys, values
    Scratch<K> scratch;
  };
  /// dst and saved, as above.
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// The gradients of queries, keys and values.
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

/// One line for logs and errors.
inline std::string describe(const AttentionDesc& d) {
  return fmt::format("attention of {} heads over {} steps{}, src {}", d.heads, d.steps, d.causal ? ", causal" : "",
                     to_string(d.src));
}

}  // namespace keelson::ops
