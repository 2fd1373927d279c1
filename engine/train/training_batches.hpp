#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/ops/device.hpp"
#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/trainer_options.hpp"
#include "engine/train/training_ranks.hpp"

namespace keelson {

/// The batches of this rank's replica, from the data set in the order of the epoch or from the caller.
class TrainingBatches {
 public:
  /// Has no batches before the first regroup(). All references must outlive this.
  TrainingBatches(const Dataset& data, Device& device, const TrainingRanks& ranks, const TrainerOptions& options);
  /// Deals the samples to the ranks that train now, of which this rank reads these rows. A rank that waits gets empty
  /// batches. Collective with TrainerOptions::cache.
  void regroup(const FieldRows& rows);
  /// Before the group of ranks goes: destroys what belongs to the group.
  void release_group();

  /// The samples of the epoch whose steps follow; null: all.
  void choose(std::shared_ptr<const EpochSamples> samples) { chosen_ = std::move(samples); }
  /// Lets the loader decode from the step on that follows this state, if it does not do so already.
  void seek(const RunState& state);
  /// The batch of the step that follows this state, after seek(). Waits until the batch is decoded.
  const Batch& next(const RunState& state);
  /// A batch of the caller, with its weights: 1 for each sample, if the batch brings none. Throws InputError for a
  /// batch that does not fit the data or TrainerOptions::batch.
  Batch checked(const Batch& given);

  const Dataset& data() const { return data_; }                 ///< where the samples come from
  const SampleDecoding& decoding() const { return decoding_; }  ///< of whole samples
  const FieldRows& rows() const { return rows_; }               ///< as given to regroup()
  SampleCounts counts() const;                                  ///< of this rank, since the beginning
  /// Why next() took so many seconds since this was last called: the loader's waits; what is left, to prepare the next
  /// batch, counts as decoding.
  LoaderWaits take_waits(double seconds);
  /// The room of TrainerOptions::cache that this rank's training data do not need, after regroup(). None on a rank that
  /// waits.
  CacheOptions cache_left() const { return loader_ ? loader_->cache_left() : CacheOptions(); }

 private:
  void release();

  const Dataset& data_;
  const TrainingRanks& ranks_;
  const TrainerOptions& options_;
  SampleDecoding decoding_;
  FieldRows rows_;
  std::unique_ptr<Communicator> peers_;                             ///< the ranks that exchange samples, with a cache
  SampleCounts counts_before_;                                      ///< of earlier loaders
  LoaderWaits waits_before_;                                        ///< of the loader, when they were last taken
  std::optional<Loader> loader_;                                    ///< of a rank that trains
  std::shared_ptr<const EpochSamples> chosen_;                      ///< null: all
  Batch empty_;                                                     ///< of a rank that waits
  std::optional<std::pair<std::int64_t, std::int64_t>> loader_at_;  ///< epoch and step of its next batch
  std::vector<float> weights_;                                      ///< of a batch that brings none
};

}  // namespace keelson
