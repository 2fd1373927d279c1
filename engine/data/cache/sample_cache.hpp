#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// Room for samples nearer than the file system from which a data set is read. Each rank has this room for itself.
struct CacheOptions {
  std::int64_t memory = 0;  ///< bytes of memory; 0: none
  std::int64_t disk = 0;    ///< bytes in `folder`; 0: none
  std::string folder = {};  ///< on a disk of the node

  bool enabled() const { return memory > 0 || disk > 0; }  ///< whether there is any room
};

/// Which rank keeps which samples. A rank's share of the data set is a block of neighbouring samples, as even as
/// possible, and the rank keeps the first samples of the block: always the same ones. In each epoch every sample is
/// needed once, in random order, so no other choice needs fewer reads of the files; with the samples that were used
/// last (LRU) many more reads are needed.
struct CachedSamples {
  std::int64_t samples = 0;  ///< in the data set
  int ranks = 1;             ///< that share them
  std::int64_t memory = 0;   ///< samples that a rank keeps in memory, at most
  std::int64_t disk = 0;     ///< further samples that it keeps on its disk, at most

  std::int64_t begin(int rank) const { return rank * samples / ranks; }  ///< first sample of the rank's block
  /// The rank that keeps the sample; -1: no rank does.
  int holder(std::int64_t sample) const;
  std::int64_t kept() const;  ///< samples that all ranks together keep
};

/// Samples of a data set in their stored form (Dataset::read_stored), some of which this rank keeps in memory or on a
/// disk of its node (CachedSamples). A sample comes into its place when it is first read from the files. Several
/// threads read at the same time. The file on the disk has no name, so the file disappears when the rank ends.
class SampleCache {
 public:
  /// `ranks`: those that share the samples; null: this rank alone. `data` must outlive the cache. All ranks keep as
  /// many samples as the rank with the least room. Throws InputError on all ranks if there is not so much memory, or if
  /// the folder cannot be written or lacks the room. Collective.
  SampleCache(const Dataset& data, const CacheOptions& options, Communicator* ranks);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;

  const CachedSamples& samples() const { return samples_; }  ///< which rank keeps which samples
  /// Bytes of a sample in its stored form.
  std::int64_t bytes() const { return bytes_; }
  /// The stored form of a sample: in the cache's memory, valid as long as the cache, or at `scratch`, which has room
  /// for bytes(). Throws InputError for a sample that cannot be read, and Error for a disk of the cache that fails.
  const std::byte* read(std::int64_t sample, std::byte* scratch);
  /// The stored form of a sample that is in memory, followed by a byte 0: a message that says that the sample is good.
  /// Null: not in memory, or not yet. Counts as a reading.
  const std::byte* find(std::int64_t sample);

  /// Samples that read() has found.
  struct Counts {
    std::int64_t memory = 0;  ///< in memory
    std::int64_t disk = 0;    ///< on the cache's disk
    std::int64_t files = 0;   ///< in the files of the data set alone
  };
  Counts counts() const;  ///< since the cache was made

 private:
  enum class State : std::uint8_t { empty, filling, filled };
  std::byte* memory_of(std::int64_t slot) { return memory_.get() + slot * (bytes_ + 1); }
  void read_disk(std::int64_t slot, std::byte* to);
  void write_disk(std::int64_t slot, const std::byte* from);
  void open_disk(const CacheOptions& options);

  const Dataset& data_;
  const std::int64_t bytes_;
  CachedSamples samples_;
  std::int64_t first_ = 0, slots_ = 0;  ///< this rank's first sample; how many it keeps
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<std::atomic<State>[]> states_;  ///< per slot
  std::string folder_;
  int descriptor_ = -1;
  std::atomic<std::int64_t> from_memory_ = 0, from_disk_ = 0, from_files_ = 0;
};

}  // namespace keelson
