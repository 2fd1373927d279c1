#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/exact_sum.hpp"
#include "engine/execute/executor.hpp"
#include "engine/train/input_pipeline.hpp"
#include "engine/train/stack/detail/batch_block.hpp"
#include "engine/train/stack/stacked_training.hpp"

namespace keelson::detail {

/// A member, and what only its present worker uses.
struct MemberState {
  explicit MemberState(Context& context, StackedMember given)
      : member(std::move(given)), parameters(*member.graph, context, member.seed) {}

  /// An executor with the pipeline that brings batches to it.
  struct Fed {
    Fed(const Plan& plan, Parameters& parameters, const ExecutorOptions& options, const Dataset& data,
        const SampleDecoding& decoding)
        : executor(plan, parameters, options), input(data, decoding, executor, parameters.context(), true) {}
    Executor executor;
    InputPipeline input;
  };

  StackedMember member;
  Parameters parameters;
  StackedRecord record;
  MetricSetup setup;  ///< of the validations
  std::optional<Fed> training, validation;
  int worker = -1;          ///< that has the executors; negative: none
  double seconds = 0;       ///< of the worker in the last epoch
  bool in_epoch = false;    ///< takes part in the epoch under way
  ExactSum validation_sum;  ///< of the losses of the validation under way
  std::vector<float> predictions;
  std::vector<float> weights;  ///< of the samples of a step, with StackedMember::bag

  bool reads_predictions() const;  ///< whether any metric does

  /// The batch, which has room for so many samples, as the member sees it. Valid until the next call.
  Batch weighted(Batch batch, std::int64_t room);
};

/// A host thread's instance, memory and plans for the members that it trains.
class StackWorker {
 public:
  StackWorker(Context& context, int number, const StackedOptions& options, const Dataset& training,
              const Dataset* validation);

  /// Makes the executors of a member that has none here.
  void take(MemberState& member);
  /// Trains these members by the blocks of an epoch.
  void train(const std::vector<MemberState*>& members, BlockRing& blocks);
  /// Evaluates these members on the blocks of the validation data.
  void validate(const std::vector<MemberState*>& members, BlockRing& blocks);

 private:
  template <class Begin, class Work>
  void for_each_block(const std::vector<MemberState*>& members, BlockRing& blocks, const Begin& begin,
                      const Work& work);
  const Plan& plan_of(MemberState& member, bool training);
  void train_on(MemberState& member, const BatchBlock& block);
  void validate_on(MemberState& member, const BatchBlock& block);

  Context& context_;
  const int number_;
  const StackedOptions& options_;
  const Dataset &training_, *validation_;
  const std::size_t target_field_;  ///< of the validation data
  std::shared_ptr<ExecutionInstance> instance_;
  std::shared_ptr<Arena> arena_;
  std::map<std::pair<const Graph*, const Optimizer*>, std::unique_ptr<Plan>> plans_;  ///< null optimizer: validation
};

}  // namespace keelson::detail
