#include "engine/layers/recurrence.hpp"

#include "engine/base/align.hpp"
#include "engine/ops/combine.hpp"

namespace keelson {

namespace {

using ops::Verb;

/// Divides a scratch tensor into pieces.
class Pieces {
 public:
  explicit Pieces(const Tensor& t) : at_(static_cast<std::byte*>(t.raw())) {}
  void* bytes(std::size_t count) {
    void* piece = at_;
    at_ += align64(count);
    return piece;
  }
  Tensor tensor(const TensorDesc& d) { return {d, bytes(d.bytes())}; }

 private:
  std::byte* at_;
};

/// Row t of each sample of a (N * steps, width) matrix.
TensorDesc step_desc(const ops::RecurrentCellDesc& d, std::int64_t width) {
  const Shape shape{d.batch, width};
  return {shape, d.type, Layout::strided(shape, {d.steps * width, 1})};
}
Tensor step_of(const TensorDesc& d, const Tensor& rows, std::int64_t t) {
  return {d, static_cast<std::byte*>(rows.raw()) + static_cast<std::size_t>(t * d.shape[1]) * size_of(d.dtype)};
}

/// The candidate's columns of gru's gradients.
TensorDesc candidate_desc(const ops::RecurrentCellDesc& d) {
  const Shape shape{d.rows(), d.hidden};
  return {shape, d.type, Layout::strided(shape, {d.gates(), 1})};
}

std::shared_ptr<ops::MatMul> make_gemm(Context& context, ops::MatMulDesc d) {
  if (d.compute != DType::f32)
    if (auto made = context.try_make(d)) return made;
  d.compute = DType::f32;
  return context.make(d);
}

std::size_t total(const ops::MatMul& m) { return align64(m.packed_bytes()) + align64(m.scratch_bytes(Verb::forward)); }

}  // namespace

bool Recurrence::takes(Context& context, const ops::RecurrentCellDesc& cell) {
  const TensorDesc weights = TensorDesc::plain({cell.gates(), cell.hidden}, cell.type);
  return context.try_make(cell) && context.try_make(ops::MatMulDesc{step_desc(cell, cell.hidden), weights.transposed(),
                                                                    TensorDesc::plain({cell.batch, cell.gates()})});
}

Recurrence::Recurrence(Context& context, const ops::RecurrentCellDesc& cell, bool training, DType compute, bool tf32)
    : desc_(cell),
      dense_(TensorDesc::plain({cell.batch, cell.gates()})),
      hidden_(TensorDesc::plain({cell.batch, cell.hidden})),
      weights_(TensorDesc::plain({cell.gates(), cell.hidden}, cell.type)),
      cell_(context.make(cell)) {
  const int steps = static_cast<int>(cell.steps);
  if (cell.type != DType::f32) compute = DType::f32;  // the operands' dtype decides
  step_ = make_gemm(context, {step_desc(cell, cell.hidden), weights_.transposed(), dense_, compute, steps, tf32});
  set_backend(step_->backend());
  set_description(cell);
  if (!training) return;
  step_back_ = make_gemm(context, {step_desc(cell, cell.gates()), weights_, hidden_, compute, steps, tf32});
  const TensorDesc gates = TensorDesc::plain({cell.rows(), cell.gates()}, cell.type),
                   rows = TensorDesc::plain({cell.rows(), cell.hidden}, cell.type),
                   diff_weights = TensorDesc::plain(weights_.shape);
  all_steps_ = make_gemm(context, {gates.transposed(), rows, diff_weights, compute, 1, tf32});
  if (cell.kind != ops::CellKind::gru) return;
  const TensorDesc sums = TensorDesc::plain({1, cell.hidden});
  const TensorDesc ones = TensorDesc::plain({1, cell.rows()});
  ones_ = context.allocate({ones.shape, cell.type, ones.layout}, "ones");
  const Tensor filled = cell.type == DType::f32 ? ones_ : context.allocate(ones, "ones");
  context.write_plain(filled, std::vector<float>(static_cast<std::size_t>(cell.rows()), 1.0f).data());
  if (cell.type != DType::f32) {
    context.make(ops::ReorderDesc{ones, ones_.desc()})->forward({filled, ones_});
    context.device().fence();
  }
  bias_sum_ = context.make(ops::MatMulDesc{ones_.desc(), candidate_desc(cell), sums});
}

std::string Recurrence::name(Verb verb) const {
  const auto& product = verb == Verb::forward ? step_ : verb == Verb::backward_data ? step_back_ : all_steps_;
  return product->name(Verb::forward);
}

std::size_t Recurrence::scratch_bytes(Verb verb) const {
  if (verb == Verb::forward) return align64(dense_.bytes()) + total(*step_);
  if (verb == Verb::backward_data) return 2 * align64(hidden_.bytes()) + total(*step_back_);
  return total(*all_steps_) + (bias_sum_ ? total(*bias_sum_) : 0);
}

ops::Cost Recurrence::cost(Verb verb) const {
  const auto steps = static_cast<double>(desc_.steps);
  const double flops = 2.0 * static_cast<double>(desc_.rows()) * static_cast<double>(weights_.elements());
  const auto size = static_cast<double>(size_of(desc_.type));
  const auto rows = static_cast<double>(desc_.rows() * (desc_.gates() + desc_.hidden)) * size;
  const auto weights = static_cast<double>(weights_.bytes());
  if (verb == Verb::backward_weights) return {flops, rows + weights};
  const ops::Cost gates = cell_->cost(verb);
  return {flops + steps * gates.flops, weights + steps * gates.bytes + rows};
}

void Recurrence::forward(const Forward<ops::Tensors>& args) {
  const auto& [input, gates, state, weights, bias, h_prev, saved, next_state, dst, scratch_memory] = args;
  Pieces scratch(scratch_memory);
  const Tensor recurrent = scratch.tensor(dense_);
  void* packed = step_->packed_bytes() > 0 ? scratch.bytes(step_->packed_bytes()) : nullptr;
  void* work = scratch.bytes(step_->scratch_bytes(Verb::forward));
  const Tensor by_columns(weights_.transposed(), weights.raw());
  const TensorDesc row = step_desc(desc_, desc_.hidden);
  const ops::RecurrentCell::Sequence s{input, gates, recurrent, bias, h_prev, saved, next_state};
  step_->pack(by_columns, packed);
  cell_->begin(state, s);
  for (std::int64_t step = 0; step < desc_.steps; ++step) {
    step_->forward(step_of(row, s.h_prev, step), by_columns, packed, recurrent, work);
    cell_->forward(step, s, dst);
  }
}

void Recurrence::backward_data(const BackwardData<ops::Tensors>& args) {
  const auto& [gates, diff_gates, weights, h_prev, saved, next_state, diff_dst, apart, scratch_memory] = args;
  const Tensor& diff_recurrent = apart ? apart : diff_gates;
  Pieces scratch(scratch_memory);
  const Tensor diff_h = scratch.tensor(hidden_), diff_carry = scratch.tensor(hidden_);
  void* packed = step_back_->packed_bytes() > 0 ? scratch.bytes(step_back_->packed_bytes()) : nullptr;
  void* work = scratch.bytes(step_back_->scratch_bytes(Verb::forward));
  const TensorDesc row = step_desc(desc_, desc_.gates());
  const ops::RecurrentCell::Sequence s{{}, gates, {}, {}, h_prev, saved, next_state};
  const ops::RecurrentCell::Gradients g{diff_dst, diff_h, diff_carry, diff_gates, diff_recurrent};
  step_back_->pack(weights, packed);
  for (std::int64_t step = desc_.steps - 1; step >= 0; --step) {
    cell_->backward(step, s, g);
    // No gradient goes to the state before the first step: back-propagation is truncated.
    if (step > 0) step_back_->forward(step_of(row, diff_recurrent, step), weights, packed, diff_h, work);
  }
}

void Recurrence::backward_weights(const BackwardWeights<ops::Tensors>& args) {
  const auto& [diff_recurrent, h_prev, diff_weights, diff_bias, scratch_memory] = args;
  Pieces scratch(scratch_memory);
  const auto run = [&](ops::MatMul& m, const Tensor& src, const Tensor& weights, const Tensor& dst) {
    void* packed = m.packed_bytes() > 0 ? scratch.bytes(m.packed_bytes()) : nullptr;
    m.pack(weights, packed);
    m.forward(src, weights, packed, dst, scratch.bytes(m.scratch_bytes(Verb::forward)));
  };
  run(*all_steps_, {diff_recurrent.desc().transposed(), diff_recurrent.raw()}, h_prev, diff_weights);
  if (!bias_sum_) return;
  const Tensor sums(TensorDesc::plain({1, desc_.hidden}), diff_bias.raw());
  run(*bias_sum_, ones_,
      {candidate_desc(desc_), static_cast<std::byte*>(diff_recurrent.raw()) +
                                  static_cast<std::size_t>(2 * desc_.hidden) * size_of(desc_.type)},
      sums);
}

}  // namespace keelson
