#pragma once

#include <cstdint>
#include <string>

#include "engine/graph/graph.hpp"

/// Dense networks (multilayer perceptrons) for tables.
namespace keelson::nets {

/// Sizes and settings of a dense network.
struct MlpOptions {
  std::int64_t features = 28;       ///< numbers that it reads
  std::int64_t outputs = 2;         ///< classes, or numbers that it predicts
  bool classes = true;              ///< the outputs are the logits of classes
  int layers = 5;                   ///< hidden layers; 0: a linear model
  std::int64_t units = 300;         ///< of each hidden layer
  std::string activation = "tanh";  ///< "tanh", "relu", "gelu", "silu" or "sigmoid"
  bool batch_norm = false;          ///< before each activation
  float dropout = 0;                ///< behind hidden layers
  int dropout_layers = 0;           ///< only behind the last so many hidden layers; 0: behind all
  float label_smoothing = 0;        ///< of the cross entropy (ops::LossParams)
  bool sample_weights = false;      ///< an input "sample_weight" () f32: what the loss of each sample is multiplied by
};

/// Inputs "x" (features), and "y": () s32, the class, or (outputs) f32. Layers "dense1", "dense2", ... and "output".
/// Output "prediction" (outputs). Loss: cross entropy, or mean squared error. By default the network that Baldi,
/// Sadowski and Whiteson, "Searching for exotic particles in high-energy physics with deep learning", Nature
/// Communications 5, 2014 (arXiv 1402.4735) trained on HIGGS. Throws InputError for sizes below 1 and an unknown
/// activation.
Graph mlp(const MlpOptions& options = {});

}  // namespace keelson::nets
