#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "tests/oracle/tape.hpp"

/// Made-up samples and weights of the climate networks, which anybody can make again in another framework.
namespace keelson::testing {

/// By what the weights are divided: the elements of a tensor for each of its first indices, or the inputs of a result.
enum class WeightScale { elements_per_first_index, fan_in };

/// What such a network gives, computed in float64 with PyTorch.
struct ClimateVector {
  int tensors;  ///< of convolutions
  double loss;
  std::vector<double> first, middle;    ///< logits of the pixels (0, 0) and (rows / 2, columns / 2)
  std::vector<double> mean, deviation;  ///< of each class' logits
};
/// Runs the network on one made-up sample with made-up weights (the formulas are in support.cpp) in a training plan and
/// compares, on all backends together: expect_step() has each of them. The tolerance is relative to the loss and to the
/// deviation of the logits.
void expect_climate_vector(const Graph& graph, WeightScale scale, const ClimateVector& want, double tolerance);

/// The loss of a network on a tape.
using OracleNetwork = std::function<double(oracle::Tape&, const ops::StepParams&)>;

/// One training step of the network on x and y against `network`, which gives the loss of the same network on a tape:
/// relative errors of the loss below 1e-5 and of every gradient below 1e-4, on all contexts. A gradient whose norm is
/// below 1e-3 of the largest one's is compared with that.
void expect_step(const Graph& graph, const oracle::Array& x, const oracle::Array& y, const OracleNetwork& network);
/// The same for a network with other inputs, by name.
void expect_step(const Graph& graph, const std::map<std::string, oracle::Array>& inputs, const OracleNetwork& network);

}  // namespace keelson::testing
