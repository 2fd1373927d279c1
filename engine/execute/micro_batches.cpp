#include "engine/execute/micro_batches.hpp"

#include <bit>

#include "engine/base/error.hpp"

namespace keelson {

MicroBatchSums::MicroBatchSums(Context& context, const Tensor& value, std::int64_t count)
    : device_(context.device()), value_(value), count_(count) {
  KEELSON_EXPECT(std::has_single_bit(static_cast<std::uint64_t>(count)));
  if (count > 1) sum_ = context.make(ops::SumDesc::alike(value.desc(), 2));
  for (std::int64_t half = 1; half < count; half *= 2)
    waiting_.push_back(context.allocate(value.desc(), "sums over micro-batches"));
}

void MicroBatchSums::add(std::int64_t number) {
  std::size_t level = 0;
  for (std::int64_t left = number; left % 2 == 1; left /= 2, ++level)
    sum_->forward({.srcs = {value_, waiting_[level]}, .dst = value_});
  if (number + 1 < count_) device_.copy(waiting_[level].raw(), value_.raw(), value_.bytes());
}

MicroBatchState::MicroBatchState(Context& context, const Tensor& value, std::int64_t count, const std::string& name)
    : device_(context.device()), value_(value) {
  Shape shape = value.shape();
  shape[0] *= count;
  const TensorDesc desc = TensorDesc::plain(shape, value.dtype());
  KEELSON_EXPECT(value.layout().is_plain(value.shape()));
  all_ = context.allocate(desc, name + " of all micro-batches");
  kept_ = context.allocate(desc, name + " of all micro-batches in the next step");
}

void* MicroBatchState::part(const Tensor& of, std::int64_t number) const {
  return static_cast<std::byte*>(of.raw()) + static_cast<std::size_t>(number) * value_.bytes();
}

void MicroBatchState::load(std::int64_t number) { device_.copy(value_.raw(), part(all_, number), value_.bytes()); }
void MicroBatchState::keep(std::int64_t number, const Tensor& next) {
  device_.copy(part(kept_, number), next.raw(), next.bytes());
}
void MicroBatchState::carry() { device_.copy(all_.raw(), kept_.raw(), all_.bytes()); }
void MicroBatchState::reset() { device_.zero(all_.raw(), all_.bytes()); }

}  // namespace keelson
