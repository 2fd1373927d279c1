#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace keelson {

/// A feature of a tf.train.Example, the protocol buffer that most TFRecords hold: a name and a list of byte strings, of
/// float32 or of int64. The values stay where they are; this says where that is.
struct TfFeature {
  /// The type of the values.
  enum class Kind : std::uint8_t { none, bytes, floats, integers };
  /// Some bytes of the example.
  struct Extent {
    std::int64_t offset = 0;  ///< first byte
    std::int64_t bytes = 0;   ///< number of bytes
  };
  std::string name;        ///< "x"
  Kind kind = Kind::none;  ///< none: a list without a type, which has no values
  /// bytes: one extent for each string. floats: runs of float32, little endian. integers: runs of varints.
  std::vector<Extent> values;
};

/// A record as bytes by position: reads `bytes` bytes from `offset` on.
struct TfExampleBytes {
  std::int64_t size = 0;  ///< bytes of the example
  /// Reads `bytes` bytes from `offset` on into `dst`.
  std::function<void(std::int64_t offset, std::int64_t bytes, void* dst)> read;
  std::string where;  ///< for messages: "a.tfrecord: record 3"
};

/// The features of an example, in the order of the record; of several with one name, the last one. Reads only what is
/// between the values. Throws InputError that begins with `where`, and names the byte, for bytes that are no example.
/// (tensorflow/core/example/example.proto and feature.proto; https://protobuf.dev/programming-guides/encoding.)
std::vector<TfFeature> parse_tf_example(const TfExampleBytes& example);

/// The numbers of a feature of floats, or of integers. Throws InputError for one of another kind.
std::vector<float> floats_of(const TfExampleBytes& example, const TfFeature& feature);
std::vector<std::int64_t> integers_of(const TfExampleBytes& example, const TfFeature& feature);  ///< the same

std::string_view to_string(TfFeature::Kind kind);  ///< "bytes", "floats"

}  // namespace keelson
