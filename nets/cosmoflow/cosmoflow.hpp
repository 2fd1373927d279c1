#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/graph/graph.hpp"
#include "nets/registry.hpp"

/// CosmoFlow: 3-D convolutional networks that predict cosmological parameters from the distribution of matter.
namespace keelson::nets {

/// Sizes of both networks.
struct CosmoFlowOptions {
  std::int64_t size = 128;  ///< edge of the cubic input
  int channels = 4;         ///< redshifts
  int targets = 4;          ///< parameters to predict
  float dropout = 0.5f;     ///< rate
  /// Of MLPerf's network: edge of the convolutions' kernels, 3 since MLPerf HPC v1.0, 2 in v0.7.
  std::int64_t kernel = 3;
  /// Of MLPerf's network: it also predicts the variance of each target, and learns by gaussian_nll().
  bool uncertainty = false;
  /// Number of filters or units of layers for which it differs from the published one: {"conv1", 24}. For pruned or
  /// grown networks, Topology::widths() returns these numbers.
  std::map<std::string, std::int64_t> widths = {};
};

/// Inputs "x" (channels, size^3) and "y" (targets); output "prediction". Both networks throw InputError for sizes that
/// do not fit, and for widths of layers that they do not have.

/// The network of MLPerf HPC: mlcommons/hpc cosmoflow/models/cosmoflow.py. 8,907,556 parameters at 128^3 x 4; sizes of
/// at least 32.
///
/// | layer      | result (at 128^3)  |
/// |------------|--------------------|
/// | conv1 .. 5 | 3^3, "same", 32, 64, 128, 256, 512 filters, each with LeakyReLU(0.3) and max-pool 2: 64^3 ... 4^3 |
/// | flatten    | 32768, in D,H,W,C order |
/// | dense1, 2  | 128, 64, each with LeakyReLU(0.3) and dropout |
/// | dense3     | 4, tanh, x 1.2 |
///
/// Glorot-uniform weights, zero biases, mean squared error.
///
/// With CosmoFlowOptions::uncertainty a dense layer "spread" beside dense3 gives the variance of each target,
/// gaussian_variance(), which is the output "variance". The loss is gaussian_nll().
///
/// Whole universes get more blocks, until fewer than 8 cells along each edge are left: conv6 for an edge of 256
/// (15,985,956 parameters), conv6 and conv7 for 512 (23,064,356), of 512 filters each. LBANN's network for universes of
/// 256^3 and 512^3 grows in the same way (Oyama et al. 2020, arXiv 2007.12856).
Graph cosmoflow_mlperf(const CosmoFlowOptions& options = {});

/// The network of the CosmoFlow paper (Mathuriya et al., SC18, arXiv 1808.04728): NERSC/CosmoFlow CosmoNet.py.
/// 7,041,443 parameters at 128^3 x 1 with 3 targets. All convolutions "valid": conv1 3^3 x 16, pool, conv2 4^3 x 32,
/// pool, conv3 4^3 x 64 stride 2, conv4 3^3 x 128, conv5 3^3 x 256, conv6 and conv7 2^3 x 256, average pools of 2,
/// LeakyReLU(0.01) after each; dropout before each of dense1 (2048), dense2 (256) and dense3 (targets, linear). Glorot
/// weights, biases 0.1, mean absolute error.
///
/// As in the authors' code the last convolution is regrouped as rows of 2048 (8 pixels), so one sample gives (edge^3 /
/// 8) predictions, 64 at 128^3, which are all compared with the sample's label; evaluation averages them. Sizes: those
/// for which the last edge is even (80, 96, 112, 128, ...).
Graph cosmoflow_paper(const CosmoFlowOptions& options = {.channels = 1, .targets = 3});

/// Settings: "targets", "dropout".
RegisteredNetwork registered_cosmoflow_mlperf();
RegisteredNetwork registered_cosmoflow_paper();  ///< the same

}  // namespace keelson::nets
