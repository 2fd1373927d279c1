#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/graph/layer.hpp"
#include "engine/ops/device.hpp"

/// What made a result that is not finite.
namespace keelson {

/// Whether all elements are finite. True for integers, and for a tensor without memory. Copies the tensor to the host.
bool is_finite(Device& device, const Tensor& t);

/// The first sample of an input with a value that is not finite or, with `numbers`, with a number that has no meaning:
/// "input y: sample 7 of the data has the class 12; expected 0 to 9". `samples`: as Executor::first_non_finite().
/// Empty: there is none. Copies the input to the host.
std::string wrong_input(Device& device, const std::string& name, const Tensor& input, const WholeNumbers* numbers,
                        std::span<const std::int64_t> samples);

/// Part of a message that names the cause: of Executor::first_non_finite(), or empty. `otherwise`: what it is if no
/// cause was found.
std::string why_not_finite(const std::string& culprit, const std::string& otherwise);

}  // namespace keelson
