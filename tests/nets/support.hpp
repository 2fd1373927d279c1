#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/graph/parameters.hpp"
#include "tests/oracle/tape.hpp"

/// Made-up samples and weights of the climate networks, which anybody can make again in another framework.
namespace keelson::testing {

/// x[c,h,w] = .5 + .5 sin(.9 c + .05 h (1 + c/16)) cos(.03 w (1 + c/8) + c); one sample.
oracle::Array climate_sample(std::int64_t channels, std::int64_t rows, std::int64_t columns);
/// (h div 7 + w div 5) mod 3
oracle::Array climate_labels(std::int64_t rows, std::int64_t columns);

/// By what the weights of a network are divided.
enum class WeightScale { elements_per_first_index, fan_in };
/// Element i of the k-th tensor of a convolution, in the order of the nodes: 2 / sqrt(F) sin(1.3 i + .7 k + .011
/// i^1.5), where F are the elements for each first index, or inputs * kernel (deconvolutions: 9 inputs / 4, rounded
/// down). Biases: .01 sin(i). What begins constant stays. Returns the number of tensors of weights.
int set_climate_weights(const Graph& graph, Parameters& parameters, WeightScale scale);

/// What such a network gives, computed in float64 with PyTorch.
struct ClimateVector {
  int tensors;  ///< of convolutions
  double loss;
  std::vector<double> first, middle;    ///< logits of the pixels (0, 0) and (rows / 2, columns / 2)
  std::vector<double> mean, deviation;  ///< of each class' logits
};
/// Runs the network on climate_sample() in a training plan and compares, on all contexts. The tolerance is relative to
/// the loss and to the deviation of the logits.
void expect_climate_vector(const Graph& graph, WeightScale scale, const ClimateVector& want, double tolerance);

/// One training step of the network on x and y against `network`, which gives the loss of the same network on a tape:
/// relative errors of the loss below 1e-5 and of every gradient below 1e-4, on all contexts.
void expect_step(const Graph& graph, const oracle::Array& x, const oracle::Array& y,
                 const std::function<double(oracle::Tape&, const ops::StepParams&)>& network);

}  // namespace keelson::testing
