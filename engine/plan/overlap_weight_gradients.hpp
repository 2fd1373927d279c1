#pragma once

#include "engine/plan/program.hpp"

namespace keelson {

/// Whether weight gradients are computed on an execution instance of their own, while data gradients are computed.
enum class OverlapMode : std::uint8_t {
  off,      ///< never
  on,       ///< always
  measure,  ///< where that takes less time in the first steps
};
/// By KEELSON_OVERLAP; without that variable `measure`, or `off` with KEELSON_TUNE=off. Throws InputError for an
/// unknown value.
OverlapMode overlap_mode();

/// Marks the calls of the backward pass that may run at the same time as the calls behind them (Call::overlaps): the
/// gradients of weights, and what is computed from them. The gradients of data do not depend on these calls. Order and
/// results do not change. Buffers of these calls live longer, so that the arena may be larger. For devices on which two
/// execution instances overlap (Device::can_overlap). To be called before Program::place().
void overlap_weight_gradients(Program& program);

}  // namespace keelson
