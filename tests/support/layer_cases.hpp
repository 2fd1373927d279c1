#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson::testing {

/// A network of one layer.
struct LayerCase {
  std::string name;
  Shape sample;                   ///< shape of the layer's source, for one sample
  std::function<Var(Var)> layer;  ///< appends the layer; may make the loss itself
  DType dtype = DType::f32;       ///< of the source; s32: numbers 0, 1 and 2
};

/// Every layer function, alone: a line for each. A new layer needs a line here, and has then these tests: its gradients
/// against differences of the loss (tests/layers/gradients.cpp), and its ONNX operators against the engine
/// (tests/onnx/layers.cpp). Samples are small, since each of their elements is moved alone.
std::vector<LayerCase> convolution_cases();
std::vector<LayerCase> window_cases();   ///< pooling, resizing
std::vector<LayerCase> element_cases();  ///< element-wise layers, normalization, sums, other shapes
std::vector<LayerCase> row_cases();      ///< dense and recurrent layers, embeddings
std::vector<LayerCase> loss_cases();     ///< without ONNX operators

}  // namespace keelson::testing
