#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace keelson {

/// What losses and rates are counted in, where a sample holds several of what people count: of a language model
/// {"word", words of a sample}.
struct SampleUnit {
  std::string name = "sample";  ///< in the singular, of letters: "words/s" and "words_per_second" are made of it
  std::int64_t per_sample = 1;
};

/// Units per second for people: "81.2", "4321".
inline std::string rate_text(double rate) {
  return rate < 1000 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

}  // namespace keelson
