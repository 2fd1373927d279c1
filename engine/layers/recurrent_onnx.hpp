#pragma once

#include <cstdint>

#include "engine/onnx/builder.hpp"
#include "engine/ops/recurrent_cell.hpp"

namespace keelson {

/// Writes a recurrent layer, whose sources are the gates' input parts and the state. ONNX' operator computes the input
/// parts itself, from the source of the dense node that computes them here. So the dense node is left out of the file.
/// Throws InputError if the input parts do not come from a dense layer.
void recurrent_to_onnx(OnnxBuilder& b, ops::CellKind cell, std::int64_t hidden);

}  // namespace keelson
