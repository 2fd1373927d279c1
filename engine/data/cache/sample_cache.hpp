#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/communicator.hpp"
#include "engine/data/cache/copied_samples.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/stage/file_copies.hpp"

namespace keelson {

/// Room for samples nearer than the file system from which a data set is read. Each rank has this room for itself.
struct CacheOptions {
  std::int64_t memory = 0;  ///< bytes of memory; 0: none
  std::int64_t disk = 0;    ///< bytes in `folder`; 0: none
  std::string folder = {};  ///< on a disk of the node
  /// Copies of a part of the files, near this rank; then `disk` is 0. Null: none.
  std::shared_ptr<const FileCopies> copies = nullptr;

  bool enabled() const { return memory > 0 || disk > 0 || copies; }  ///< whether any sample may be near
};

/// Which rank keeps which samples. A rank has a share of the data set, and keeps the first samples of the share: always
/// the same ones. In each epoch every sample is needed once, in random order, so no other choice needs fewer reads of
/// the files; with the samples that were used last (LRU) many more reads are needed.
struct CachedSamples {
  std::int64_t samples = 0;  ///< in the data set
  int ranks = 1;             ///< that share them
  std::int64_t memory = 0;   ///< samples that a rank keeps in memory, at most
  std::int64_t disk = 0;     ///< further samples that it keeps on its disk, at most
  /// 0: the shares are blocks of neighbouring samples, as even as possible. Else the samples that rank r computes in
  /// the order of the data set: of each ranks * batch samples the r-th `batch`.
  std::int64_t batch = 0;

  std::int64_t begin(int rank) const { return rank * samples / ranks; }  ///< first sample of a block
  /// Decides which rank holds which samples, instead of blocks and batches; null: there are no copies of the files.
  std::shared_ptr<const CopiedSamples> copies = nullptr;

  /// A sample's place in the shares.
  struct Place {
    int rank = 0;           ///< that has the sample in its share
    std::int64_t slot = 0;  ///< number in the share
  };
  /// The place of sample 0 ... samples - 1.
  Place place_of(std::int64_t sample) const;
  std::int64_t share_of(int rank) const;  ///< number of samples in the rank's share
  /// The rank that keeps the sample, or has a copy; -1: no rank does.
  int holder(std::int64_t sample) const;
  std::int64_t kept() const;  ///< samples that all ranks together keep, without `copies`
};

/// Samples of a data set in their stored form (Dataset::read_stored), some of which this rank keeps in memory or on a
/// disk of its node (CachedSamples). A sample comes into its place when it is first read from the files. Several
/// threads read at the same time. The file on the disk has no name, so the file disappears when the rank ends.
class SampleCache {
 public:
  /// `shares`: how the samples are shared (`memory` and `disk` are not read), and `rank`, which rank this is. `ranks`:
  /// those that send samples to each other. They keep as many samples as the rank with the least room. Null: the rank
  /// sends and receives nothing, and no other rank takes part. `data` must outlive the cache. Throws InputError on all
  /// `ranks` if there is not so much memory, or if the folder cannot be written or lacks the room. Collective.
  SampleCache(const Dataset& data, const CacheOptions& options, const CachedSamples& shares, int rank,
              Communicator* ranks);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;

  const CachedSamples& samples() const { return samples_; }  ///< which rank keeps which samples
  /// The room that this rank was given and does not need: for another cache.
  CacheOptions left() const;
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
    std::int64_t copies = 0;  ///< in copies of the files (CacheOptions::copies)
    std::int64_t files = 0;   ///< in the files of the data set alone
  };
  Counts counts() const;  ///< since the cache was made

 private:
  enum class State : std::uint8_t { empty, filling, filled };
  /// The slot of a sample that this rank keeps; -1: it does not.
  std::int64_t slot_of(std::int64_t sample) const;
  std::int64_t in_memory() const { return std::min(slots_, samples_.memory); }  ///< slots
  std::byte* memory_of(std::int64_t slot) { return memory_.get() + slot * (bytes_ + 1); }
  void read_files(std::int64_t sample, std::byte* to);
  void read_disk(std::int64_t slot, std::byte* to);
  void write_disk(std::int64_t slot, const std::byte* from);
  void open_disk();
  void share_room(Communicator* ranks);
  void take_room(Communicator* ranks);

  const Dataset& data_;
  const CacheOptions options_;
  const std::int64_t bytes_;
  CachedSamples samples_;
  const int rank_;
  std::int64_t slots_ = 0;  ///< samples that this rank keeps
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<std::atomic<State>[]> states_;  ///< per slot
  int descriptor_ = -1;
  std::atomic<std::int64_t> from_memory_ = 0, from_disk_ = 0, from_copies_ = 0, from_files_ = 0;
};

}  // namespace keelson
