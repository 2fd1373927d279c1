#pragma once

#include "engine/ops/operands.hpp"
#include "engine/ops/step_params.hpp"

/// Sampled softmax: in training, the sum over all classes in a softmax is estimated by importance sampling from some
/// classes, which are drawn anew for each step (Bengio and Senecal 2008, "Adaptive importance sampling to accelerate
/// training of a neural probabilistic language model"; Jean et al. 2015, arXiv 1412.2007). The class of a row is no
/// sample: its term is exact.
namespace keelson::ops {

class SampleClasses;
/// target (...) plain s32, R class numbers of `classes`, or -1: the row does not count.
struct SampleClassesDesc {
  using Op = SampleClasses;
  TensorDesc target;
  std::int64_t classes = 1;  ///< number of classes, the most frequent first
  std::int64_t samples = 1;  ///< S, the number of classes that are drawn
  std::uint32_t stream = 0;  ///< philox::stream_of(layer name)

  std::int64_t candidates() const { return samples + target.elements(); }  ///< S + R
  TensorDesc ids_desc() const { return TensorDesc::plain({candidates()}, DType::s32); }
  TensorDesc shift_desc() const { return TensorDesc::plain({samples}); }
  /// Of the places of the targets among the candidates.
  TensorDesc places_desc() const { return TensorDesc::plain(target.shape, DType::s32); }
};
/// Draws classes with replacement. Class c has the probability P(c) = log((c + 2) / (c + 1)) / log(classes + 1), which
/// is about that of the words of a text (Zipf's law). All ranks draw the same classes in a step.
class SampleClasses : public DescribedPrimitive<SampleClassesDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::step_params, undescribed> step_params;
    In<K, Role::target, &SampleClassesDesc::target> target;
    Out<K, Role::ids, &SampleClassesDesc::ids_desc> ids;
    Out<K, Role::shift, &SampleClassesDesc::shift_desc> shift;
    Out<K, Role::rows, &SampleClassesDesc::places_desc> places;
  };
  /// ids[i] for i < S: the largest c with u < sum of P(0) ... P(c), for u = philox::uniform_double({seed, stream,
  /// step}, i). ids[S + r] = target[r], or 0 for -1. shift[i] = -log(S P(ids[i])): the sum of exp(logit + shift) over
  /// samples is an unbiased estimate of the sum of exp(logit) over all classes. places[r] = S + r, or -1 for -1.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

class SampledLogits;
/// logits (R, S + R) plain f32: one for each row and each candidate of SampleClasses.
struct SampledLogitsDesc {
  using Op = SampledLogits;
  TensorDesc logits;

  std::int64_t samples() const { return logits.shape[1] - logits.shape[0]; }  ///< S
  TensorDesc ids_desc() const { return TensorDesc::plain({logits.shape[1]}, DType::s32); }
  TensorDesc shift_desc() const { return TensorDesc::plain({samples()}); }
};
/// Adds the shift to the logits of samples, and leaves out the candidates that are no samples of other classes.
class SampledLogits : public DescribedPrimitive<SampledLogitsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::ids, &SampledLogitsDesc::ids_desc> ids;
    In<K, Role::shift, &SampledLogitsDesc::shift_desc> shift;
    InOut<K, Role::dst, &SampledLogitsDesc::logits> logits;
  };
  /// logits[r, j] += shift[j] for samples j < S. The row's own target, j = S + r, stays as it is. -infinity for the
  /// targets of other rows, and for samples of the class of row r. With the class of row r, exp(logits) then add up to
  /// an unbiased estimate of the sum over all classes.
  virtual void forward(const Forward<Tensors>& args) = 0;
};

/// "sample classes, target 4x20 s32 plain, 512 of 10000 classes"
inline std::string describe(const SampleClassesDesc& d) {
  return fmt::format("sample classes, target {}, {} of {} classes", to_string(d.target), d.samples, d.classes);
}
/// "sampled logits 80x592 f32 plain"
inline std::string describe(const SampledLogitsDesc& d) {
  return fmt::format("sampled logits {}", to_string(d.logits));
}

}  // namespace keelson::ops
