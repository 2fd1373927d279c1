#include <cstring>
#include <span>

#include "engine/base/align.hpp"
#include "engine/base/error.hpp"
#include "engine/train/stack/detail/batch_block.hpp"

namespace keelson::detail {
namespace {

std::shared_ptr<void> allocate_block(const SampleDecoding& decoding, std::size_t bytes) {
  if (decoding.allocate) return decoding.allocate(bytes);
  std::shared_ptr<void> memory(std::aligned_alloc(64, align64(bytes)), std::free);
  if (!memory) throw OutOfMemory(fmt::format("no memory for {} bytes of batches: give a smaller block_bytes", bytes));
  return memory;
}

}  // namespace

BatchBlock::BatchBlock(const Loader& loader, const Dataset& data, const SampleDecoding& decoding, std::int64_t count,
                       std::int64_t batch)
    : samples_(static_cast<std::size_t>(batch)),
      batches_(static_cast<std::size_t>(count)),
      weights_(batches_.size(), std::vector<float>(samples_)),
      indices_(batches_.size(), std::vector<std::int64_t>(samples_)) {
  std::size_t bytes = 0;
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    field_bytes_.push_back(samples_ * static_cast<std::size_t>(loader.sample_bytes(f)));
    bytes += align64(field_bytes_.back());
  }
  if (const FieldEncoding* encoding = loader.encoding())
    parameter_bytes_ = samples_ * static_cast<std::size_t>(encoding->parameter_bytes());
  bytes += align64(parameter_bytes_);
  memory_ = allocate_block(decoding, std::max<std::size_t>(64, bytes * batches_.size()));
  auto* at = static_cast<std::byte*>(memory_.get());
  for (Batch& b : batches_) {
    for (const std::size_t of_field : field_bytes_) {
      b.fields.push_back(at);
      at += align64(of_field);
    }
    if (parameter_bytes_ > 0) b.parameters = at;
    at += align64(parameter_bytes_);
  }
}

void BatchBlock::add(const Batch& batch) {
  KEELSON_EXPECT(!full());
  Batch& to = batches_[used_];
  for (std::size_t f = 0; f < field_bytes_.size(); ++f) std::memcpy(to.fields[f], batch.fields[f], field_bytes_[f]);
  to.encoding = batch.encoding;
  if (batch.parameters) std::memcpy(const_cast<std::byte*>(to.parameters), batch.parameters, parameter_bytes_);
  std::copy_n(batch.weight, samples_, weights_[used_].begin());
  std::copy_n(batch.indices, static_cast<std::size_t>(batch.count), indices_[used_].begin());
  to.weight = weights_[used_].data();
  to.indices = indices_[used_].data();
  to.count = batch.count;
  to.global_count = batch.global_count;
  to.sample_offset = batch.sample_offset;
  ++used_;
}

BatchBlock* BlockRing::to_fill(std::int64_t i) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || reading_[i % 2] == 0; });
  if (failed_) return nullptr;
  blocks_[i % 2]->clear();
  return blocks_[i % 2];
}

void BlockRing::publish(std::int64_t i) {
  const std::lock_guard lock(mutex_);
  reading_[i % 2] = readers_;
  published_ = i + 1;
  changed_.notify_all();
}

void BlockRing::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

const BatchBlock* BlockRing::to_read(std::int64_t i) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || ended_ || published_ > i; });
  return !failed_ && published_ > i ? blocks_[i % 2] : nullptr;
}

void BlockRing::leave(std::int64_t i) {
  const std::lock_guard lock(mutex_);
  if (--reading_[i % 2] == 0) changed_.notify_all();
}

void BlockRing::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

}  // namespace keelson::detail
