#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Makes TFRecords, and what is in them, as their specifications say and without the code under test.
namespace keelson::testing {

/// A record with this data.
std::string tfrecord_of(const std::string& data);

/// Compressed by zlib, in the container of RFC 1950, or by gzip, RFC 1952.
enum class Container : std::uint8_t { zlib, gzip };
std::string compressed(const std::string& bytes, Container container);

// ---- protocol buffers

std::string varint_of(std::uint64_t value);
std::string field_of(int number, const std::string& value);  ///< a field with a length
std::string bytes_of_float(float value);

std::string bytes_feature(const std::string& value);
std::string floats_feature(const std::vector<float>& values);         ///< packed
std::string single_floats_feature(const std::vector<float>& values);  ///< each with a tag
/// A tf.train.Example of features by name.
std::string example_of(const std::vector<std::pair<std::string, std::string>>& features);

}  // namespace keelson::testing
