#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace keelson {

/// The unit in which losses and rates are counted. A sample may hold several units: {"word", words per sample} for a
/// language model.
struct SampleUnit {
  std::string name = "sample";  ///< singular, letters only; becomes "words/s" and "words_per_second"
  std::int64_t per_sample = 1;  ///< units in one sample
};

/// A rate in units per second as text for people: "81.2", "4321".
inline std::string rate_text(double rate) {
  return rate < 1000 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

}  // namespace keelson
