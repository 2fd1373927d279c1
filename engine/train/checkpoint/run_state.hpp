#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson {

/// Where a training run stands. The further course of the run depends only on this state, the parameters and the
/// optimizer's moments. The state is the same on every rank. Checkpoints store the state in attributes.
struct RunState {
  std::string network;  ///< "cosmoflow-mlperf"
  /// What the program needs to make network and data again: "net.size" -> "128".
  std::map<std::string, std::string> config;
  std::uint64_t seed = 0;  ///< of sample order, transform and dropout

  std::int64_t epoch = 0;          ///< finished epochs
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t step_in_epoch = 0;  ///< steps done of the epoch under way
  std::int64_t samples = 0;        ///< training samples used so far, all ranks together
  std::int64_t global_batch = 0;   ///< samples of a full step, all ranks together
  std::int64_t train_samples = 0;  ///< samples of the training data
  /// Samples of the epoch under way, if some may be left out (TrainerOptions::prune); 0: all of the training data.
  std::int64_t epoch_samples = 0;
  std::int64_t world_size = 1;  ///< ranks that train; a run may continue on another number of ranks
  double seconds = 0;           ///< spent training so far, all runs together

  /// If the present number of ranks has taken the epoch under way over from more ranks, of which some were lost. All
  /// 0 in an epoch that the present ranks have begun.
  std::int64_t part_step = 0, part_sample = 0;  ///< steps, and samples, of the epoch done by then
  double part_position = 0;                     ///< the part of the epoch done by then, as schedules count it

  double loss_sum = 0;  ///< of the epoch under way: sum of the losses of its samples
  /// Number of these samples; with TrainerOptions::bag the sum of their weights, with PruneRule::infobatch the number
  /// of samples that they stand for.
  double loss_samples = 0;
  double best_metric = std::numeric_limits<double>::infinity();  ///< Evaluation::metric of the best validation
  std::int64_t best_epoch = -1;                                  ///< finished epochs at the best validation; -1: none
  double metric = std::numeric_limits<double>::quiet_NaN();      ///< of the last validation; NaN: none
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  ///< of the last validation; NaN: none

  double loss_scale = 1;           ///< of the next step (ops::LossScale)
  std::int64_t good_steps = 0;     ///< steps since loss_scale last changed
  std::int64_t skipped_steps = 0;  ///< steps so far that moved no parameter, since a gradient was not finite

  std::string optimizer, schedule;  ///< Optimizer::to_string(); Schedule::to_string()
  std::string version, created;     ///< of Keelson, set when written; time in UTC, set when written

  /// A recurrent state (Graph::state) of all ranks.
  struct Carried {
    Shape shape;                ///< (global_batch, ...)
    std::vector<float> values;  ///< row-major, ranks in their order
  };
  /// Recurrent states by name, within an epoch. Set on rank 0 before a checkpoint is written, and by load_checkpoint().
  std::map<std::string, Carried> carried;

  /// The network before its last change, as long as that may be undone (NetworkChange::may_be_undone).
  struct NetworkBefore {
    std::string topology;                   ///< Topology::to_text()
    std::map<std::string, Carried> arrays;  ///< as a checkpoint has them: "parameters/conv1/weights", "optimizer/m/..."
  };
  std::shared_ptr<const NetworkBefore> before;  ///< null: no change may be undone

  /// Larger texts, of any bytes, that users of the network need, by name: "vocabulary".
  std::map<std::string, std::string> texts;

  /// What is known of the training samples: arrays of one float per sample, by name (SamplePruning::state). Set as
  /// `carried`, on all ranks.
  std::map<std::string, std::vector<float>> of_samples;

  /// What the network consists of (Topology::to_text). Empty: unknown, from an older checkpoint.
  std::string topology;

  /// Values that observers add up over the training, by name, the same on all ranks (TrainObserver::before_checkpoint):
  /// "target_sum". The checkpoint stores them in attributes of these names. The trainer itself has the entries
  /// network_changes_entry, step_ms_entry, rate_factor_entry, rate_squares_entry and noise_scale_entry
  /// (engine/train/noise_scale.hpp).
  std::map<std::string, std::vector<double>> observed;
};

/// The entry of RunState::observed with the number of finished epochs at each change of the network
/// (TrainerOptions::change_network) that was not undone, in order; not there before the first change.
inline constexpr const char* network_changes_entry = "network_changes";

/// The entry of RunState::observed with the median milliseconds of a step in the last epoch, those of the first rank,
/// on all ranks; there after the first epoch of a training with TrainerOptions::change_network.
inline constexpr const char* step_ms_entry = "step_ms";

/// The entry of RunState::observed with the factor of the learning rate (Trainer::set_learning_rate); not there: 1.
inline constexpr const char* rate_factor_entry = "learning_rate_factor";

/// The entry of RunState::observed with the sum of the squared learning rates of all steps so far; there after the
/// first step with an optimizer that averages over the steps (UpdateRule::reads_ahead).
inline constexpr const char* rate_squares_entry = "learning_rate_squares";

std::int64_t samples_of_epoch(const RunState& state);  ///< of the epoch under way, of all ranks together
/// Steps of the epoch under way. In an epoch that more ranks have begun, their steps and those of the ranks that are
/// left.
std::int64_t steps_of_epoch(const RunState& state);
std::int64_t samples_in_epoch(const RunState& state);  ///< of the epoch under way, done by all ranks
/// Finished epochs, with the part of the epoch under way that is done, as schedules count it.
double position(const RunState& state);
double rate_factor(const RunState& state);  ///< of the learning rate: rate_factor_entry
/// ops::StepParams::averaging_weight of a step with this rate: rate^2 / (rate_squares_entry + rate^2). 0 for the rate
/// 0.
double averaging_weight(const RunState& state, double rate);
/// Adds the square of a step's rate to rate_squares_entry.
void count_rate(RunState& state, double rate);
/// Counts the epoch under way as finished.
void begin_next_epoch(RunState& state);
/// So many ranks take the epoch under way over, with the same batch per rank, or per replica of several ranks. Does
/// nothing for the number of ranks that train already.
void go_on_with(RunState& state, int ranks);

}  // namespace keelson
