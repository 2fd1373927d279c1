#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"

namespace keelson {

/// Where the wall time of some steps went, in seconds, on one rank.
struct TimeSplit {
  double compute = 0;   ///< forward, backward and update, with the exchange that runs at the same time
  double exchange = 0;  ///< waiting for what other ranks send: gradients, sums, votes
  LoaderWaits input;    ///< waiting for samples, by the stage of the loader
  double copy = 0;      ///< handing samples to the device
  double data() const { return input.total(); }  ///< waiting for samples
  /// Sum of all parts.
  double total() const { return compute + exchange + data() + copy; }
  /// Adds the times of more steps.
  TimeSplit& operator+=(const TimeSplit& o) {
    compute += o.compute;
    exchange += o.exchange;
    input += o.input;
    copy += o.copy;
    return *this;
  }
};

/// How much the gradients of samples differ (TrainerOptions::noise_scale), as moving averages over the steps that were
/// measured. NaN: not measured.
struct NoiseScale {
  double gradient =
      std::numeric_limits<double>::quiet_NaN();  ///< |G|^2, G: the gradient of the mean loss of all samples
  /// S: the trace of the covariance of the gradients of single samples
  double noise = std::numeric_limits<double>::quiet_NaN();

  bool known() const { return gradient == gradient; }  ///< whether a step was measured
  /// The simple noise scale B_simple = S / |G|^2, in samples (McCandlish et al. 2018, arXiv 1812.06162). NaN if the
  /// averages do not tell it: |G|^2 or S, which are differences, is not positive.
  double samples() const {
    return gradient > 0 && noise > 0 ? noise / gradient : std::numeric_limits<double>::quiet_NaN();
  }
};

/// Results of one optimizer step.
struct StepRecord {
  std::int64_t step = 0;     ///< steps done, this one included
  double epoch = 0;          ///< position in training: epochs done, with their fraction
  double loss = 0;           ///< mean over the units (SampleUnit) of the global batch
  double learning_rate = 0;  ///< of this step
  double rate = 0;           ///< units per second of all ranks together, since the previous record
  TimeSplit seconds;         ///< of this rank, since the previous record
  NoiseScale noise = {};     ///< after this step; NaN before the first step that was measured
};

/// A loss of ranks, and how training went on.
struct Recovery {
  /// A rank that was lost.
  struct Lost {
    int rank;          ///< Communicator::number()
    std::string host;  ///< the name of its machine
  };
  std::int64_t step = 0;  ///< steps done before the loss; they stay
  /// The step of the checkpoint that training went back to, with other ranks; none: the ranks that were left went on.
  std::optional<std::int64_t> restarted_from;
  std::string during;      ///< what the ranks did together at the loss, and then did again: "a step", "a validation"
  std::vector<Lost> lost;  ///< in the order in which they were found
  int ranks = 1;           ///< that train on
  int space = 1;           ///< ranks of a replica
  int waiting = 0;         ///< ranks that are left, but too few for a replica
  // Seconds, on this rank:
  double interrupted = 0;  ///< from the beginning of `during` to the notice of the loss
  double shrink = 0;       ///< to agree on the ranks that are left, and to make their group
  double rebuild = 0;      ///< to make plan, executor and loaders for them; with other ranks all that training needs
  double redo = 0;         ///< to do `during` again, to its end
  /// "rank 2 (node7) was lost in a step after step 40; 3 ranks go on. ...". With replicas of two ranks: "...; 1 replica
  /// of 2 ranks goes on, and 1 rank waits. ..."
  std::string to_string() const;
};

/// Results of one epoch.
struct EpochRecord {
  std::int64_t epoch = 0;  ///< epochs done
  std::int64_t step = 0;   ///< optimizer steps done
  double train_loss = 0;   ///< mean over the units (SampleUnit) of the epoch's training samples
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  ///< NaN without validation
  double metric = std::numeric_limits<double>::quiet_NaN();           ///< Evaluation::metric; NaN without validation
  std::vector<double> metric_values;                                  ///< Evaluation::metric_values
  double learning_rate = 0;                                           ///< of the last step
  double rate = 0;                ///< units per second of training, all ranks together
  TimeSplit seconds;              ///< of this rank's training
  double validation_seconds = 0;  ///< wall time; 0 without validation
  bool best = false;              ///< whether the validation was better than all before
  std::int64_t samples = 0;       ///< samples that the epoch has used, all ranks together
  NoiseScale noise = {};          ///< at the end of the epoch
};

}  // namespace keelson
