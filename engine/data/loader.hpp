#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/data/cache/sample_cache.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// Threads of a rank that decode samples before a step needs them.
struct LoaderThreads {
  int count = 1;     ///< decoding threads
  int prefetch = 2;  ///< batches decoded ahead, besides the batch in use
  /// CPUs on which the decoding threads may run, e.g. all CPUs of the rank; empty: those of the thread that makes the
  /// loader, which may be a single CPU if OpenMP has bound the thread.
  std::vector<int> cpus;
};

/// How samples become batches. A loader, and the plan and the InputPipeline that take the loader's batches, get the
/// same object.
struct SampleDecoding {
  std::shared_ptr<const SampleTransform> transform;  ///< of every sample; null: none
  /// The device decodes the data set's coded field (Dataset::coded), and converts all fields to what the first layer
  /// reads (PlanOptions::inputs_as_read). Else threads of the host decode.
  bool by_device = false;
  /// Which rows of the fields this rank reads; empty: all. Ranks of one replica may read different rows.
  FieldRows rows = {};
  /// Allocates the memory of batches: the given number of bytes, 64-byte aligned; empty: ordinary memory. A device
  /// copies faster from memory of Device::allocate_host.
  std::function<std::shared_ptr<void>(std::size_t)> allocate;

  /// The field that batches hold as codes; null: the host decodes all fields, as it does if rows are chosen.
  const CodedField* coded(const Dataset& data) const {
    return by_device && rows.empty() ? data.coded(transform.get()) : nullptr;
  }
  /// The fields of a batch's samples: those of the data, with the chosen rows.
  std::vector<Field> fields_of(const Dataset& data) const;
};

/// How a Loader reads its data set.
struct LoaderOptions {
  std::int64_t batch = 1;  ///< samples per rank
  /// The number of this rank among the ranks that share the samples, and how many these are. Ranks of one replica have
  /// the same number.
  int rank = 0, ranks = 1;
  std::uint64_t seed = 0;   ///< seed of the run
  bool shuffle = true;      ///< false: samples come in the order of the data set
  LoaderThreads threads;    ///< who decodes on the host
  SampleDecoding decoding;  ///< how, and into which memory
  /// What this rank keeps of the data set. With several ranks the samples of a step then go to the ranks that keep
  /// them, as far as possible (deal_samples()), and the others are sent from rank to rank while earlier steps run.
  CacheOptions cache;
  /// With a cache: the ranks that share the samples, in the order of `rank`, in a group for the loader alone. The
  /// loader is then made, and all its calls are made, on all of them. Null: this rank alone.
  Communicator* peers = nullptr;
  /// With a cache: each rank gets the samples that it would get without.
  bool keep_places = false;
};

/// One rank's part of a global batch, in host memory.
struct Batch {
  std::vector<void*> fields;          ///< `batch` samples each, contiguous; samples beyond `count` are zero
  const CodedField* coded = nullptr;  ///< the field whose values in `fields` are codes; null: all fields are decoded
  const ops::VoxelSample* voxels = nullptr;  ///< (batch) how to decode each sample's codes; null without codes
  const float* weight = nullptr;             ///< (batch): 1 for the first `count`, then 0
  std::int64_t count = 0;                    ///< samples of this rank; may be 0 in the last step of an epoch
  std::int64_t global_count = 0;             ///< samples of all ranks
  /// This rank's first position in the global batch: rank * batch. With a cache, the samples of the step may be in
  /// another order than that of the epoch.
  std::int64_t sample_offset = 0;
  const std::int64_t* indices = nullptr;  ///< (count) dataset indices
};

/// How many samples a loader has read, and from where.
struct SampleCounts {
  SampleCache::Counts read;   ///< by this rank; without a cache all from files
  std::int64_t received = 0;  ///< from other ranks
  std::int64_t sent = 0;      ///< to other ranks
  /// Adds what another loader has read.
  SampleCounts& operator+=(const SampleCounts& other);
};

/// Reads the samples of one rank. The order of an epoch is EpochOrder, a permutation of all samples, or without
/// shuffling 0, 1, 2 ... Each step takes the next ranks * batch samples, and rank r the r-th part of them, so results
/// do not depend on the number of ranks. The last step may be short. An epoch that was begun with one number of ranks
/// can be continued with another number: start_epoch() takes the number of samples that are done.
class Loader {
 public:
  /// Throws InputError for a batch size, a number of threads or a number of prefetched batches below 1, and the
  /// exceptions of SampleTransform::check and SampleCache. `dataset` must outlive the loader. Memory: (prefetch + 1) *
  /// batch samples; with a cache on several ranks one batch more, and the messages of so many steps.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();

  /// The field that batches have as codes; null: none.
  const CodedField* coded() const;
  /// Bytes of a sample's field in a batch.
  std::int64_t sample_bytes(std::size_t field) const;
  /// The number of samples divided by ranks * batch, rounded up.
  std::int64_t steps_per_epoch() const;
  SampleCounts counts() const;  ///< since the loader was made
  /// Begins to decode epoch `epoch` from sample `first_sample` of its order on; the samples before are done (a resumed
  /// run). The previous epoch is abandoned.
  void start_epoch(std::int64_t epoch, std::int64_t first_sample = 0);
  /// The next batch, valid until the next call; null at the end of the epoch. If decoding failed, rethrows the
  /// exception of the first failed sample in the epoch's order, and does so in each call until another epoch is
  /// started.
  const Batch* next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
