#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/loader.hpp"

namespace keelson::detail {

/// Copies of some batches of a loader, which stay valid while the loader reads on.
class BatchBlock {
 public:
  /// `count`: most batches. `batch`: samples of a batch. The memory is that of `decoding`.
  BatchBlock(const Loader& loader, const Dataset& data, const SampleDecoding& decoding, std::int64_t count,
             std::int64_t batch);
  void clear() { used_ = 0; }
  bool full() const { return used_ == batches_.size(); }
  void add(const Batch& batch);
  std::span<const Batch> batches() const { return {batches_.data(), used_}; }

 private:
  std::vector<std::size_t> field_bytes_;  ///< of a batch
  std::size_t parameter_bytes_ = 0, samples_;
  std::shared_ptr<void> memory_;
  std::vector<Batch> batches_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<std::int64_t>> indices_;
  std::size_t used_ = 0;
};

/// Two blocks in turn: one thread fills a block while all readers read the other one.
class BlockRing {
 public:
  /// `readers`: how many read each block.
  BlockRing(BatchBlock& first, BatchBlock& second, int readers) : blocks_{&first, &second}, readers_(readers) {}

  /// For the writer: block number `i`, empty, as soon as all readers have left it; null if a reader has failed.
  BatchBlock* to_fill(std::int64_t i);
  void publish(std::int64_t i);  ///< block `i` is filled
  void end();                    ///< there are no more blocks

  /// For readers: block number `i` as soon as it is filled; null at the end.
  const BatchBlock* to_read(std::int64_t i);
  void leave(std::int64_t i);  ///< a reader has read block `i`
  void fail();                 ///< a reader has failed, and reads no more

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  BatchBlock* const blocks_[2];
  const int readers_;
  int reading_[2] = {0, 0};  ///< readers that have not left the block
  std::int64_t published_ = 0;
  bool ended_ = false, failed_ = false;
};

}  // namespace keelson::detail
