#pragma once

#include "engine/execute/executor.hpp"
#include "tests/oracle/tape.hpp"

/// Small helpers to run a plan on Arrays and compare it with the oracle's tape.
namespace keelson::testing {

using oracle::Array;

/// Fills an input, given in logical (N, ...) order.
void set_input(Context& context, const Executor& executor, const std::string& name, const Array& logical);
Array get_output(Context& context, const Executor& executor, const std::string& name);

/// A network of 3-D convolutions, pooling, dense layers, dropout and activations, with mean squared error: "x" to "y".
Graph volumes();
/// A network of embedding, LSTM, dropout and dense layer, with cross-entropy: "x" to "y", integers below 12.
Graph words();
/// Fills "x" and "y" of volumes() or words() with data of step number `step`.
void fill_inputs(Context& context, const Executor& executor, int step);

/// Losses of some steps of training, and the parameters after them.
struct TrainedSteps {
  std::vector<double> losses;
  std::vector<float> parameters;
  bool operator==(const TrainedSteps&) const = default;
};
/// Trains volumes() or words() in batches of 2.
TrainedSteps train_steps(Context& context, Executor& executor, const Parameters& parameters, int steps);

/// The values of every parameter with which training will start, in plain order.
std::map<std::string, Array> plain_parameters(const Parameters& parameters);

/// ||got - want|| / ||want|| in the Euclidean norm.
double relative_error(const Array& got, const Array& want);

}  // namespace keelson::testing
