#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/precision.hpp"
#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/metrics/metric.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson {

/// One network of a StackedTraining. Members may have different designs, optimizers and schedules. Members with the
/// same `graph` and `optimizer` object share plans, which saves the time to compile them.
struct StackedMember {
  std::string name;                    ///< of the network, RunState::network of the member's checkpoints
  std::shared_ptr<const Graph> graph;  ///< with a loss, and inputs that are fields of the data
  /// Gradients are clipped, and norms are taken, for this member alone.
  std::shared_ptr<const Optimizer> optimizer = std::make_shared<Sgd>();
  Schedule schedule;  ///< learning rate
  /// Of the initial values and of dropout masks. For members of one seed: ensemble::member_seed() of it and their
  /// numbers, so that the seeds are those of an ensemble that train --members makes.
  std::uint64_t seed = 0;
  std::int64_t epochs = 1;    ///< passes over the training data
  std::int64_t patience = 0;  ///< > 0: the member ends after so many epochs without a better validation
  bool bag = false;           ///< samples have the weights of TrainerOptions::bag, by the member's seed
  /// Of the member's validations, and of no other member's; empty: the validation loss decides. The first metric
  /// decides which epoch is better.
  std::vector<std::shared_ptr<Metric>> metrics = {};
};

/// Where an epoch of a StackedTraining stands: StackedOptions::go_on.
struct StackedProgress {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t step = 0;   ///< of the epoch, whose batch is read next
  std::int64_t steps = 1;  ///< of the epoch
  bool validates = false;  ///< the batches are those of the validation data
};

/// How the members of a StackedTraining are trained: what they have in common.
struct StackedOptions {
  std::int64_t batch = 1;                            ///< samples of a step
  Precision precision = Precision::fp32;             ///< as in PlanOptions; not fp16, which needs a loss scale
  SampleUnit unit;                                   ///< of the losses in records
  std::uint64_t seed = 0;                            ///< of the order of the samples, and of the transform
  bool shuffle = true;                               ///< new sample order in each epoch; else the order of the data set
  std::shared_ptr<const SampleTransform> transform;  ///< of training samples; null: none
  LoaderThreads threads;                             ///< that decode samples
  /// Host threads that compute, each for members of its own, on an execution instance of one thread; 0: as many as the
  /// current instance has threads, on a GPU 1.
  int workers = 0;
  /// Bytes of the batches that are held at once. A member computes the steps of all these batches, then comes the
  /// worker's next member, so that the parameters of a small network stay in the processor's cache.
  std::int64_t block_bytes = 1 << 20;
  std::string prediction = "prediction";  ///< graph output that metrics read
  std::string target = "y";               ///< data field that metrics compare it with
  double validation_units = 0;            ///< as MetricOptions::units, of the validation data
  /// Called by the calling thread before a batch is read. False: the pass over the data ends here, and with that the
  /// training (StackedTraining::was_cut). May be empty.
  std::function<bool(const StackedProgress&)> go_on;
};

/// Where a member stands.
struct StackedRecord {
  /// As in a checkpoint of the member, which a Trainer can load. Its `metric`, `validation_loss`, `best_metric` and
  /// `best_epoch` are those of the validations. `seconds`: of the worker, for this member.
  RunState state;
  double train_loss = 0;              ///< mean over the units of the samples of the last epoch
  std::vector<double> metric_values;  ///< Metric::values() of the first metric, of the last validation
  /// Empty, or why the member has ended before its time, in one line: "the loss became NaN in step 12; the first value
  /// that is not finite is in layer dense1".
  std::string failure;
  bool done = false;  ///< whether no further epoch trains the member
};

/// Trains many networks at once on one rank, in the time that their arithmetic takes: for networks that are so small
/// that a step on all cores, or a training of their own that reads the data again, would be mostly overhead.
///
/// The members are dealt to host threads, the workers. Each worker has an execution instance of one thread, and runs
/// the steps of its members one after the other. The samples are read once for all members, in one order, in blocks of
/// some batches. So a member has, bit for bit, the parameters and losses that it has if it is trained alone: as only
/// member of a StackedTraining, or by a Trainer within an InstanceScope of one thread if the two seeds are equal. They
/// depend neither on the other members nor on the number of workers. A member whose loss is not finite ends with
/// StackedRecord::failure, and the others go on.
///
/// Memory: parameters, moments, gradients and inputs of each member, one arena per worker, and two blocks.
class StackedTraining {
 public:
  /// Calls no other rank. `validation` may be null. Data sets and context must outlive the training. Throws InputError
  /// for no members, a member without graph or loss, a network that does not fit the data, a batch below 1 or above the
  /// number of samples, and OutOfMemory.
  StackedTraining(Context& context, std::vector<StackedMember> members, const Dataset& training,
                  const Dataset* validation, StackedOptions options);
  ~StackedTraining();
  StackedTraining(const StackedTraining&) = delete;

  /// Before the first epoch: member `m` goes on from this state of an earlier training, at the end of an epoch. The
  /// caller has set its parameters() to those of that moment. Epochs begin with the first one that a member lacks, and
  /// a member that has gone further waits for the others, since all have the same samples. Throws InputError for a
  /// state within an epoch, or of another batch or number of samples.
  void resume(std::size_t m, const RunState& state);
  /// Trains one epoch of all members that are not done, and validates them. Returns whether any member is left for
  /// another epoch. Rethrows the first exception of reading data or of a worker.
  bool train_epoch();
  /// Whether StackedOptions::go_on has ended the training within an epoch. Members then have the records of the end of
  /// the epoch before, and parameters of the epoch that was not finished, which are of no use.
  bool was_cut() const;
  /// Trains all members until they are done.
  void run();
  /// Between epochs: member `m` takes part in no further epoch, and its executors are freed.
  void stop(std::size_t m);

  std::size_t size() const;                          ///< number of members
  const StackedRecord& record(std::size_t m) const;  ///< of member `m`
  /// Values and moments of member `m`, for its graph alone: to read, store, export or train further. Between epochs the
  /// caller may also write them.
  Parameters& parameters(std::size_t m);
  const StackedMember& member(std::size_t m) const;  ///< as given to the constructor

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
