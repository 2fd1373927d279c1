#include "engine/train/training_batches.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/train/input_pipeline.hpp"

namespace keelson {

TrainingBatches::TrainingBatches(const Dataset& data, Device& device, const TrainingRanks& ranks,
                                 const TrainerOptions& options)
    : data_(data), ranks_(ranks), options_(options), decoding_(decoding_for(device, options.transform)) {}

void TrainingBatches::regroup(const FieldRows& rows) {
  release();  // before the next loader, which wants as much memory
  rows_ = rows;
  if (ranks_.waits()) return;
  SampleDecoding decoding = decoding_;
  decoding.rows = rows;
  const ProcessGrid grid = ranks_.grid();
  if (options_.cache.enabled() && grid.extent(ProcessGrid::Axis::data) > 1)  // those that have the same part of samples
    peers_ = ranks_.training()->split(ranks_.training()->rank() % ranks_.per_replica(), ranks_.training()->rank());
  loader_.emplace(data_, LoaderOptions{.batch = options_.batch,
                                       .rank = grid.coordinate(ProcessGrid::Axis::data),
                                       .ranks = grid.extent(ProcessGrid::Axis::data),
                                       .seed = options_.seed,
                                       .shuffle = options_.shuffle,
                                       .bag = options_.bag,
                                       .threads = options_.threads,
                                       .decoding = std::move(decoding),
                                       .cache = options_.cache,
                                       .peers = peers_.get(),
                                       .keep_places = options_.exchange.reproducible || !options_.shuffle});
}

void TrainingBatches::release() {
  counts_before_ = counts();
  loader_.reset();
  waits_before_ = {};
  loader_at_.reset();
  peers_.reset();
}

void TrainingBatches::release_group() {
  if (peers_) release();
}

SampleCounts TrainingBatches::counts() const {
  SampleCounts all = counts_before_;
  if (loader_) all += loader_->counts();
  return all;
}

LoaderWaits TrainingBatches::take_waits(double seconds) {
  LoaderWaits waits;
  if (loader_) {
    const LoaderWaits all = loader_->statistics().waits;
    waits = all;
    waits -= waits_before_;
    waits_before_ = all;
  }
  waits.decoding += std::max(0.0, seconds - waits.total());
  return waits;
}

void TrainingBatches::seek(const RunState& state) {
  if (loader_ && loader_at_ != std::pair(state.epoch, state.step_in_epoch))
    loader_->start_epoch(state.epoch, samples_in_epoch(state), chosen_);
  loader_at_.reset();
}

const Batch& TrainingBatches::next(const RunState& state) {
  if (!loader_) {
    empty_.global_count = std::min(state.global_batch, samples_of_epoch(state) - samples_in_epoch(state));
    return empty_;
  }
  const Batch* batch = loader_->next();
  KEELSON_EXPECT(batch);
  loader_at_ = {state.epoch, state.step_in_epoch + 1};
  return *batch;
}

Batch TrainingBatches::checked(const Batch& given) {
  if (!rows_.empty())
    refuse(
        "a batch of the caller was given, but each rank computes a part of each sample (TrainerOptions::replica): let "
        "the "
        "trainer read the samples");
  const auto fields = data_.fields().size();
  if (given.fields.size() != fields)
    refuse("a batch of {} fields was given. Expected {}, as {} has them", given.fields.size(), fields,
           data_.describe());
  if (given.count < 0 || given.count > options_.batch || given.global_count < std::max<std::int64_t>(1, given.count))
    refuse(
        "a batch of {} samples, {} of all ranks, was given. Expected at most {} per rank, and one of all ranks at "
        "least",
        given.count, given.global_count, options_.batch);
  Batch batch = given;
  if (batch.weight) return batch;
  weights_.assign(static_cast<std::size_t>(options_.batch), 0.0f);
  std::fill_n(weights_.begin(), batch.count, 1.0f);
  batch.weight = weights_.data();
  return batch;
}

}  // namespace keelson
