#pragma once

#include <cstdint>

#include "engine/graph/graph.hpp"
#include "nets/registry.hpp"

/// Networks that find the vertex of a neutrino's interaction in the MINERvA detector.
namespace keelson::nets {

/// Sizes and settings; those of the Epsilon network for 67 classes by default.
struct MinervaOptions {
  std::int64_t strips = 127;    ///< of a plane: rows of an image
  std::int64_t planes = 50;     ///< of the view x: columns of its image; the views u and v have half as many
  std::int64_t channels = 1;    ///< of an image: 1 energy, 2 energy and time
  std::int64_t classes = 67;    ///< that are told apart: planes and targets, or segments
  float dropout = 0.5f;         ///< rate
  double width_multiplier = 1;  ///< for filters and units, each at least 2
};

/// The Epsilon network: Terwilliger et al., "Vertex reconstruction of neutrino interactions using deep learning", IJCNN
/// 2017; Perdue et al., JINST 13, 2018 (arXiv 1808.08332). Of each view four convolutions, each with ReLU and a maximum
/// over two strips, and a dense layer; then a dense layer of all views. 1,690,367 parameters for 67 classes and one
/// channel, 1,686,071 for 11 classes and two.
///
/// Inputs "x" (channels, strips, planes), "u" and "v" (channels, strips, planes / 2), images of the three views, and
/// "y"
/// () s32, the class. Layers "x_conv1", ..., "v_dense", "dense" and "output". Output "prediction" (classes), logits.
/// Throws InputError for images that are too small and for an odd number of planes.
Graph minerva_epsilon(const MinervaOptions& options = {});

/// Number 633167 of the networks that MENNDL has found by evolution (Young et al., MLHPC 2017), as the experiment has
/// used it: of each view three convolutions and a maximum over two strips; then two dense layers. 2,858,397 parameters
/// for 173 classes and two channels of 127 x 94. Inputs, output and errors as in minerva_epsilon(); layers "x_conv1",
/// ..., "dense1", "dense2" and "output".
Graph minerva_evolved(const MinervaOptions& options = {.planes = 94, .channels = 2, .classes = 173});

RegisteredNetwork registered_minerva_epsilon();  ///< for registry.cpp
RegisteredNetwork registered_minerva_evolved();  ///< for registry.cpp

}  // namespace keelson::nets
