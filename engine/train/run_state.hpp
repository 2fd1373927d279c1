#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson {

/// Where a training run stands: with the parameters and the optimizer's moments this is all that its future depends on,
/// the same on every rank. Stored as attributes of a checkpoint.
struct RunState {
  std::string network;  ///< "cosmoflow-mlperf"
  std::map<std::string, std::string>
      config;  ///< what the program needs to make network and data again: "net.size" -> "128"
  std::uint64_t seed = 0;

  std::int64_t epoch = 0;          ///< finished epochs
  std::int64_t step = 0;           ///< optimizer steps done
  std::int64_t step_in_epoch = 0;  ///< steps done of the epoch under way
  std::int64_t samples = 0;        ///< samples seen
  std::int64_t global_batch = 0;   ///< samples of a full step, all ranks together
  std::int64_t train_samples = 0;  ///< of the training data
  std::int64_t world_size = 1;     ///< ranks that wrote it; another number may continue
  double seconds = 0;              ///< spent training so far, all runs together

  double loss_sum = 0;                                           ///< of the epoch under way: sum over samples
  std::int64_t loss_samples = 0;                                 ///< and how many they were
  double best_metric = std::numeric_limits<double>::infinity();  ///< of the best validation
  std::int64_t best_epoch = -1;                                  ///< finished epochs when it was reached
  double metric = std::numeric_limits<double>::quiet_NaN();      ///< last validation
  double validation_loss = std::numeric_limits<double>::quiet_NaN();

  double loss_scale = 1;  ///< of the next step (ops::LossScale), with the steps since it last changed
  std::int64_t good_steps = 0;
  std::int64_t skipped_steps = 0;  ///< so far, since their gradients were not finite in f16

  std::string optimizer, schedule;  ///< for people
  std::string version, created;     ///< filled when written

  /// Recurrent states (Graph::state) by name, of all ranks in their order, within an epoch: (global_batch, ...). Filled
  /// on rank 0 to be written, and by load_checkpoint().
  struct Carried {
    Shape shape;
    std::vector<float> values;
  };
  std::map<std::string, Carried> carried;

  /// Larger texts that the network's use depends on, of any bytes, by name: "vocabulary".
  std::map<std::string, std::string> texts;

  /// What the network consists of (Topology::to_text). Empty: not known, of checkpoints that have none.
  std::string topology;

  /// What observers add up over the training, by name, the same on all ranks (TrainObserver::before_checkpoint):
  /// "target_sum". Attributes of the checkpoint have these names.
  std::map<std::string, std::vector<double>> observed;
};

}  // namespace keelson
