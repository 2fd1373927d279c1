#pragma once

#include "engine/plan/program.hpp"

namespace keelson {

/// Reorders the calls from index `first` on so that calls which do not depend on each other, and whose primitives merge
/// (ops::Primitive::merges), are neighbours, and numbers such groups (Call::together). Results do not change.
/// Communications, and calls on different sides of a communication, stay in their order. For devices that merge
/// launches (Device::merges_launches); buffers between calls live longer. To be called before Program::place().
void gather_independent_calls(Program& program, std::size_t first);

}  // namespace keelson
