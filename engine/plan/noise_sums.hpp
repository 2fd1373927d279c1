#pragma once

#include "engine/plan/gradients.hpp"

namespace keelson {

/// The calls and buffers by which a step measures how much its gradient scatters (PlanOptions::noise_scale). A part of
/// a step is what one backward pass of one rank computes.
struct NoiseSums {
  /// f64: the sums of squares of a part's gradients, by buckets and gradients by rows; then one element for the caller
  /// (Executor::measure_gradients). After the exchange: sums over the ranks, if there are several.
  BufferId parts = no_buffer;
  /// f64, whose elements add up to the sum of the squares of the gradient of all samples.
  BufferId whole = no_buffer;
  /// Indices of the calls in the program, rising: they run in the steps that are measured, and in no others.
  std::vector<std::size_t> calls;
};

/// Throws InputError for a training plan with PlanOptions::noise_scale that cannot measure: a step of a single part,
/// several ranks along space, channel or stage, and PlanOptions::lag.
void require_noise_scale(const PlanOptions& options);

/// Inserts these calls behind all other passes but Program::place(). The sums of a part stand right before the sum over
/// ranks of a bucket begins or, with several micro-batches, at the end of the backward pass. The sums of the whole
/// gradient are the first calls of the update: whoever runs them has waited for all gradients. `ends` then are those of
/// the program with the insertions.
NoiseSums insert_noise_sums(CompileState& build, const Gradients& gradients, PhaseEnds& ends);

}  // namespace keelson
