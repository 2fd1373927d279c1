#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "engine/execute/executor.hpp"
#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/records.hpp"

namespace keelson {

/// The entry of RunState::observed with the moving averages of a training with TrainerOptions::noise_scale: the
/// weighted sums of the measured |G|^2 and S, and of the weights. Not there before the first measurement.
inline constexpr const char* noise_scale_entry = "gradient_noise";

/// Weight of a measurement when the next one comes: averages reach over some 50 measurements.
inline constexpr double noise_scale_decay = 0.98;

/// The moving averages so far.
NoiseScale noise_scale(const RunState& state);

/// What one step tells, without average (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1, for parts of any
/// weights): each part r of the step has the term g_r of the gradient G_B, and the part q_r of the weight of all
/// samples. With q = sum of q_r^2, E sum |g_r|^2 = q |G|^2 + noise and E |G_B|^2 = |G|^2 + noise; the noise of a step
/// of B samples is S / B. For n equal parts of b = B / n samples this is the paper's
/// |G|^2 = (B |G_B|^2 - b |G_b|^2) / (B - b) and S = (|G_b|^2 - |G_B|^2) / (1 / b - 1 / B).
/// `samples`: of the step, of all ranks; `weight`: Batch::total_weight(). NaN for a step of which a single part has
/// samples, and for a step that was skipped.
NoiseScale measured_noise(const Executor::GradientSquares& squares, std::int64_t samples, double weight);

/// Adds a measurement to the averages in the state. Measurements that are not finite change nothing.
void add_measurement(RunState& state, const NoiseScale& measured);

/// For people: what the noise scale says of a batch of so many samples.
std::string describe(const NoiseScale& noise, std::int64_t batch);

}  // namespace keelson
