#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/data/cache/sample_cache.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/epoch_samples.hpp"

namespace keelson {

/// Threads of a rank that read and decode samples before a step needs them, in two stages: some threads read the stored
/// form (Dataset::read_stored), others decode it. Where the stored form is that of the network, or a device decodes, or
/// only some rows of samples are wanted, the reading threads do all, and there are no others.
struct LoaderThreads {
  int count = 1;    ///< decoding threads
  int readers = 0;  ///< reading threads; 0: as many as decoding threads
  /// While steps wait for a stage, threads are added to it one by one, up to so many, as long as that makes the waits
  /// shorter; 0: none is added.
  int most_count = 0, most_readers = 0;
  int prefetch = 2;  ///< batches decoded ahead, besides the batch in use; 0: 2, or as many as the threads need
  /// Bytes for batches and for samples between the stages. 0: 256 MiB decide how many batches above 2 there are if
  /// `prefetch` is 0, and how many samples between the stages.
  std::int64_t memory = 0;
  /// CPUs on which the decoding threads may run, e.g. all CPUs of the rank; empty: those of the thread that makes the
  /// loader, which may be a single CPU if OpenMP has bound the thread.
  std::vector<int> cpus;

  /// Reading threads at the beginning.
  int readers_to_start() const { return readers > 0 ? readers : count; }
};

/// How samples become batches. A loader, and the plan and the InputPipeline that take the loader's batches, get the
/// same object.
struct SampleDecoding {
  std::shared_ptr<const SampleTransform> transform;  ///< of every sample; null: none
  /// The device decodes the data set's encoded field (Dataset::encoding), and converts all fields to what the first
  /// layer reads (PlanOptions::inputs_as_read). Else threads of the host decode.
  bool by_device = false;
  /// Which rows of the fields this rank reads; empty: all. Ranks of one replica may read different rows.
  FieldRows rows = {};
  /// Allocates the memory of batches: the given number of bytes, 64-byte aligned; empty: ordinary memory. A device
  /// copies faster from memory of Device::allocate_host.
  std::function<std::shared_ptr<void>(std::size_t)> allocate;

  /// Of the field that batches hold encoded; null: the host decodes all fields, as it does if rows are chosen.
  const FieldEncoding* encoding(const Dataset& data) const {
    return by_device && rows.empty() ? data.encoding(transform.get()) : nullptr;
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
  bool bag = false;         ///< samples have the weights bag_weight(seed, sample) instead of 1
  LoaderThreads threads;    ///< who reads and decodes on the host
  SampleDecoding decoding;  ///< how, and into which memory
  /// What this rank keeps of the data set. With `peers` the samples of a step then go to the ranks that keep them, as
  /// far as possible (deal_samples()), and the others are sent from rank to rank while earlier steps run.
  CacheOptions cache;
  /// With a cache: the ranks that share the samples, in the order of `rank`, in a group for the loader alone. The
  /// loader is then made, and all its calls are made, on all of them. Null: no sample is sent; if there are several
  /// ranks, the order is that of the data set, and each rank keeps of the samples that it computes.
  Communicator* peers = nullptr;
  /// With a cache: each rank gets the samples that it would get without.
  bool keep_places = false;
};

/// One rank's part of a global batch, in host memory.
struct Batch {
  /// `batch` samples each, contiguous. Those beyond `count` are copies of the first (zeros if `count` is 0), so that no
  /// layer makes infinite values of them.
  std::vector<void*> fields;
  const FieldEncoding* encoding = nullptr;  ///< of the field that `fields` has encoded; null: all fields are decoded
  /// (batch, FieldEncoding::parameter_bytes) how each sample is decoded, beyond `count` as the first; null: without
  /// `encoding`.
  const std::byte* parameters = nullptr;
  /// (batch): 1, LoaderOptions::bag's weight or that of EpochSamples for the first `count`, then 0.
  const float* weight = nullptr;
  std::int64_t count = 0;         ///< samples of this rank; may be 0 in the last step of an epoch
  std::int64_t global_count = 0;  ///< samples of all ranks
  /// The number by which the sum of the weighted losses of all ranks is divided: with LoaderOptions::bag the sum of the
  /// weights, with EpochSamples the number of samples that those of the step stand for; negative: global_count.
  double global_weight = -1;
  /// This rank's first position in the global batch: rank * batch. With a cache, the samples of the step may be in
  /// another order than that of the epoch.
  std::int64_t sample_offset = 0;
  const std::int64_t* indices = nullptr;  ///< (count) dataset indices

  /// The dataset indices of micro-batch `number`, each micro-batch of `size` samples; the last ones may be fewer, or
  /// none. Without `indices` empty.
  std::span<const std::int64_t> micro_batch(std::int64_t number, std::int64_t size) const {
    const std::int64_t first = std::min(number * size, count), end = std::min(first + size, count);
    return indices == nullptr ? std::span<const std::int64_t>() : std::span(indices + first, indices + end);
  }
  /// global_weight, or global_count if that is negative.
  double total_weight() const { return global_weight < 0 ? static_cast<double>(global_count) : global_weight; }
  /// `terms` / total_weight(), for StepParams::inverse_samples; 0 if all weights are 0, so that all gradients are 0.
  float inverse_weight(int terms = 1) const {
    const double total = total_weight();
    return total > 0 ? static_cast<float>(terms) / static_cast<float>(total) : 0.0f;
  }
};

/// How many samples a loader has read, and from where.
struct SampleCounts {
  SampleCache::Counts read;   ///< by this rank; without a cache all from files
  std::int64_t received = 0;  ///< from other ranks
  std::int64_t sent = 0;      ///< to other ranks
  /// Adds what another loader has read.
  SampleCounts& operator+=(const SampleCounts& other);
};

/// Seconds in which Loader::next() has waited, by the stage in which the missing samples were.
struct LoaderWaits {
  double reading = 0;   ///< samples were still to be read
  double decoding = 0;  ///< all samples had been read, and some were still to be decoded
  double ranks = 0;     ///< this rank's own samples were decoded, and some of other ranks had not come
  double total() const { return reading + decoding + ranks; }  ///< all waits
  LoaderWaits& operator+=(const LoaderWaits& o);               ///< adds the waits of other steps
  LoaderWaits& operator-=(const LoaderWaits& o);               ///< takes earlier waits away
};

/// What the stages of a loader have done, since the loader was made.
struct LoaderStatistics {
  /// Of a stage. Seconds are sums over its threads.
  struct Stage {
    int threads = 0;     ///< now
    double busy = 0;     ///< at work
    double starved = 0;  ///< nothing to do: the stage before, or the prefetched batches, are the limit
    double blocked = 0;  ///< no room for another sample: the stage behind is the limit
    double queued = 0;   ///< samples that wait for the stage: a mean over batches
  };
  Stage reading, decoding;  ///< the stages
  std::int64_t rooms = 0;   ///< samples that may be between them; 0: the reading threads do all
  int prefetch = 0;         ///< batches decoded ahead
  std::int64_t memory = 0;  ///< bytes for batches and for samples between the stages
  LoaderWaits waits;        ///< of Loader::next()
};

/// Reads the samples of one rank. The order of an epoch is EpochOrder, a permutation of all samples, or without
/// shuffling 0, 1, 2 ... Each step takes the next ranks * batch samples, and rank r the r-th part of them, so results
/// do not depend on the number of ranks. The last step may be short. An epoch that was begun with one number of ranks
/// can be continued with another number: start_epoch() takes the number of samples that are done.
class Loader {
 public:
  /// Throws InputError for a batch size, a number of threads or a number of prefetched batches below 1, for
  /// LoaderThreads::memory that one prefetched batch and two samples between the stages exceed, and the exceptions of
  /// SampleTransform::check and SampleCache. `dataset` must outlive the loader. Memory: (prefetch + 1) * batch samples,
  /// and stored samples between the stages (LoaderStatistics::memory); with a cache on several ranks one batch more,
  /// and the messages of so many steps.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();

  /// Of the field that batches have encoded; null: none.
  const FieldEncoding* encoding() const;
  /// Bytes of a sample's field in a batch.
  std::int64_t sample_bytes(std::size_t field) const;
  /// The number of samples divided by ranks * batch, rounded up.
  std::int64_t steps_per_epoch() const;
  SampleCounts counts() const;          ///< since the loader was made
  LoaderStatistics statistics() const;  ///< since the loader was made
  CacheOptions cache_left() const;      ///< room of LoaderOptions::cache that the loader does not need
  /// Begins to decode epoch `epoch` from sample `first_sample` of its order on; the samples before are done (a resumed
  /// run). The previous epoch is abandoned. `samples`: those of the epoch, in their order and with their weights; null:
  /// all, as the options say. Not with LoaderOptions::bag.
  void start_epoch(std::int64_t epoch, std::int64_t first_sample = 0,
                   std::shared_ptr<const EpochSamples> samples = nullptr);
  /// The next batch, valid until the next call; null at the end of the epoch. If decoding failed, rethrows the
  /// exception of the first failed sample in the epoch's order, and does so in each call until another epoch is
  /// started.
  const Batch* next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
