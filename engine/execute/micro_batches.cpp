#include "engine/execute/micro_batches.hpp"

#include <algorithm>
#include <bit>

#include "engine/base/error.hpp"

namespace keelson {

MicroBatchSums::MicroBatchSums(Context& context, const Tensor& value, std::int64_t count, SumOrder order)
    : device_(context.device()), value_(value), count_(count), order_(order) {
  KEELSON_EXPECT(order == SumOrder::any || std::has_single_bit(static_cast<std::uint64_t>(count)));
  if (count > 1) sum_ = context.make(ops::SumDesc::alike(value.desc(), 2));
  const std::int64_t arrays = order == SumOrder::any ? std::min<std::int64_t>(count - 1, 1)
                                                     : std::bit_width(static_cast<std::uint64_t>(count)) - 1;
  for (std::int64_t i = 0; i < arrays; ++i)
    waiting_.push_back(context.allocate(value.desc(), "sums over micro-batches"));
}

void MicroBatchSums::add(std::int64_t number) {
  const bool last = number + 1 == count_;
  const auto add_up = [&](const Tensor& to, const Tensor& term) { sum_->forward({.srcs = {to, term}, .dst = to}); };
  const auto keep = [&](const Tensor& in) { device_.copy(in.raw(), value_.raw(), value_.bytes()); };
  if (order_ == SumOrder::any && number > 0) {
    last ? add_up(value_, waiting_[0]) : add_up(waiting_[0], value_);
    return;
  }
  std::size_t level = 0;
  for (std::int64_t left = number; left % 2 == 1; left /= 2, ++level) add_up(value_, waiting_[level]);
  if (!last) keep(waiting_[level]);
}

MicroBatchState::MicroBatchState(Context& context, const Tensor& value, std::int64_t count, const std::string& name)
    : device_(context.device()), bytes_(value.bytes()) {
  Shape shape = value.shape();
  shape[0] *= count;
  const TensorDesc desc = TensorDesc::plain(shape, value.dtype());
  KEELSON_EXPECT(value.layout().is_plain(value.shape()));
  all_ = context.allocate(desc, name + " of all micro-batches");
  kept_ = context.allocate(desc, name + " of all micro-batches in the next step");
}

void* MicroBatchState::part(const Tensor& of, std::int64_t number) const {
  return static_cast<std::byte*>(of.raw()) + static_cast<std::size_t>(number) * bytes_;
}

void MicroBatchState::load(std::int64_t number, const Tensor& value) {
  device_.copy(value.raw(), part(all_, number), bytes_);
}
void MicroBatchState::keep(std::int64_t number, const Tensor& next) {
  device_.copy(part(kept_, number), next.raw(), next.bytes());
}
void MicroBatchState::carry() { device_.copy(all_.raw(), kept_.raw(), all_.bytes()); }
void MicroBatchState::reset() { device_.zero(all_.raw(), all_.bytes()); }

}  // namespace keelson
