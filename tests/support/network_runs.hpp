#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/parameters.hpp"
#include "nets/mlp/mlp.hpp"
#include "tests/support/tensors.hpp"

/// Networks with random values on random inputs, for comparisons of two networks.
namespace keelson::testing {

/// Values of inputs and states for a batch of three samples, by name.
using NetworkInputs = std::map<std::string, Array>;

/// The same network without its dropout, whose masks depend on the places of elements.
Graph without_dropout(const Graph& graph);

/// Dense networks for tables, of classes and of numbers, with each activation, by name.
std::map<std::string, nets::MlpOptions> dense_networks();

/// Numbers for all inputs and states: valid classes and entries of embeddings, else uniform in -1 to 1.
NetworkInputs random_inputs(const Graph& graph, std::uint64_t seed);

/// The elements of `whole` at these indices along dimension `dim`, in this order.
Array taken(const Array& whole, int dim, const std::vector<std::int64_t>& indices);

/// Sets all parameters and statistics, biases too, to random numbers of a size that keeps values near 1.
void set_random_values(Parameters& parameters, std::uint64_t seed);

/// The outputs in evaluation, by name.
std::map<std::string, std::vector<float>> outputs_of(Context& context, const Graph& graph, Parameters& parameters,
                                                     const NetworkInputs& inputs);

/// Makes a step of SGD with momentum 0.9 and learning rate 0.05. Returns the loss before the step.
double train_step(Context& context, const Graph& graph, Parameters& parameters, const NetworkInputs& inputs);

/// |a - b| / |b|, or / 0.01 if |b| is smaller.
double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace keelson::testing
