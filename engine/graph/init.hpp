#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson {

/// How a parameter begins.
struct Init {
  enum class Kind : std::uint8_t {
    constant,        ///< value
    uniform,         ///< +- value
    glorot_uniform,  ///< +- sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, eq. 16), also called Xavier
    he_normal,       ///< normal, std sqrt(2 / fan_in) (He et al. 2015)
  };
  Kind kind = Kind::constant;
  float value = 0;

  static Init constant(float v) { return {Kind::constant, v}; }
  static Init uniform(float v) { return {Kind::uniform, v}; }
  static Init glorot_uniform() { return {Kind::glorot_uniform, 0}; }
  static Init he_normal() { return {Kind::he_normal, 0}; }
};

/// Values in plain order: a function of (seed, name, element), so they are the same on any backend and number of ranks.
/// Fans as TensorFlow counts them: (O, I, k...) has fan_in I*k, fan_out O*k; (out, in) has in and out.
std::vector<float> initial_values(const Init& init, const std::string& name, const Shape& shape, std::uint64_t seed);

}  // namespace keelson
