#include "engine/execute/culprit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "engine/tensor/half.hpp"

namespace keelson {
namespace {

bool is_float(DType type) { return type == DType::f32 || is_half(type); }

float element_at(const void* at, DType type) {
  return type == DType::f32    ? *static_cast<const float*>(at)
         : type == DType::bf16 ? to_float(*static_cast<const bf16*>(at))
                               : to_float(*static_cast<const f16*>(at));
}

std::vector<std::byte> host_copy(Device& device, const Tensor& t) {
  std::vector<std::byte> host(t.bytes());
  device.copy_to_host(host.data(), t.raw(), t.bytes());
  return host;
}

/// What is wrong with an element; empty: nothing.
std::string complaint(const std::byte* at, DType type, const WholeNumbers* numbers) {
  if (is_float(type)) {
    const float value = element_at(at, type);
    return std::isfinite(value) ? "" : std::isnan(value) ? "a NaN" : "an infinite value";
  }
  if (type != DType::s32 || numbers == nullptr) return "";
  const auto value = *static_cast<const std::int32_t*>(static_cast<const void*>(at));
  if (value >= (numbers->minus_one_is_ignored ? -1 : 0) && value < numbers->count) return "";
  return fmt::format("the {} {}; expected 0 to {}{}", numbers->noun, value, numbers->count - 1,
                     numbers->minus_one_is_ignored ? ", or -1 (ignored)" : "");
}

}  // namespace

bool is_finite(Device& device, const Tensor& t) {
  if (!t || !is_float(t.dtype())) return true;
  const auto host = host_copy(device, t);
  const auto size = size_of(t.dtype());
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.stored_elements()); ++i)
    if (!std::isfinite(element_at(host.data() + i * size, t.dtype()))) return false;
  return true;
}

std::string wrong_input(Device& device, const std::string& name, const Tensor& input, const WholeNumbers* numbers,
                        std::span<const std::int64_t> samples) {
  if (!input || (!is_float(input.dtype()) && numbers == nullptr)) return "";
  const auto host = host_copy(device, input);
  const auto size = size_of(input.dtype()), count = static_cast<std::size_t>(input.stored_elements()),
             batch = static_cast<std::size_t>(input.shape()[0]);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string what = complaint(host.data() + i * size, input.dtype(), numbers);
    if (what.empty()) continue;
    const std::size_t sample = i / (count / batch);  // the batch is the outermost dimension of inputs
    return sample < samples.size() ? fmt::format("input {}: sample {} of the data has {}", name, samples[sample], what)
                                   : fmt::format("input {}: sample {} of the batch has {}", name, sample, what);
  }
  return "";
}

std::string why_not_finite(const std::string& culprit, const std::string& otherwise) {
  if (culprit.starts_with("input")) return "the cause is in " + culprit;
  return "the first value that is not finite is in " + (culprit.empty() ? otherwise : culprit);
}

}  // namespace keelson
