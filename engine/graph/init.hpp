#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/shape.hpp"

namespace keelson {

class Device;

/// How the initial values of a parameter are drawn.
struct Init {
  /// The distribution.
  enum class Kind : std::uint8_t {
    constant,        ///< all entries are `value`
    uniform,         ///< uniform between -value and value
    glorot_uniform,  ///< uniform within +- sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, eq. 16); also: Xavier
    fan_in_uniform,  ///< uniform within +- 1 / sqrt(fan_in), PyTorch's default for weights
    he_normal,       ///< normal with standard deviation sqrt(2 / fan_in) (He et al. 2015)
    he_uniform,      ///< uniform within +- sqrt(6 / fan_in), of the same variance; Keras' he_uniform
    /// Normal with standard deviation sqrt(2.6 / fan_in), where values beyond two of these are drawn again: the
    /// default of variance_scaling_initializer in TensorFlow 1's contrib.layers and slim. The result has 1.003 times
    /// the standard deviation of he_normal. (Keras' he_normal divides by 0.87962566 instead of multiplying by 1.3, so
    /// that its factor is 1.)
    he_truncated_normal,
  };
  Kind kind = Kind::constant;  ///< the distribution
  float value = 0;             ///< for constant: each entry; for uniform: the bound; else unused

  static Init constant(float v) { return {Kind::constant, v}; }                 ///< all entries are v
  static Init uniform(float v) { return {Kind::uniform, v}; }                   ///< uniform between -v and v
  static Init glorot_uniform() { return {Kind::glorot_uniform, 0}; }            ///< see Kind::glorot_uniform
  static Init fan_in_uniform() { return {Kind::fan_in_uniform, 0}; }            ///< see Kind::fan_in_uniform
  static Init he_normal() { return {Kind::he_normal, 0}; }                      ///< see Kind::he_normal
  static Init he_uniform() { return {Kind::he_uniform, 0}; }                    ///< see Kind::he_uniform
  static Init he_truncated_normal() { return {Kind::he_truncated_normal, 0}; }  ///< see Kind::he_truncated_normal
};

/// The initial values of a parameter in plain (row-major) order. Each value is a function of seed, name and the index
/// of the element, so the values are the same on every backend and for every number of ranks. fan_in and fan_out are
/// counted as in TensorFlow: weights (O, I, k...) have fan_in I*k and fan_out O*k, weights (out, in) have in and out.
/// A transposed convolution's weights (I, O, k...) have fan_in O*k, as in TensorFlow and PyTorch. All host threads of
/// `device` draw them; null: the calling thread.
std::vector<float> initial_values(const Init& init, const std::string& name, const Shape& shape, std::uint64_t seed,
                                  Device* device = nullptr);

}  // namespace keelson
