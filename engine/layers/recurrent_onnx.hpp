#pragma once

#include <cstdint>

#include "engine/onnx/builder.hpp"
#include "engine/ops/recurrent_cell.hpp"

namespace keelson {

/// Writes a recurrent layer, whose sources are the gates' input parts and the state. ONNX' operator makes the input
/// parts itself, from the source of the dense node that makes them here: that node is then left out of the file.
/// Throws InputError where the input parts come from another layer.
void recurrent_to_onnx(OnnxBuilder& b, ops::CellKind cell, std::int64_t hidden);

}  // namespace keelson
