#include "engine/data/tfrecord/tf_example.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

/// WireType types of protocol buffers.
enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

/// Reads an example from one position on. Short reads come from a window of some KiB.
class ExampleCursor {
 public:
  explicit ExampleCursor(const TfExampleBytes& example) : example_(example) {}

  std::int64_t at = 0;

  [[noreturn]] void refuse_here(const char* found) const {
    refuse("{}, byte {}: {}. Expected a tf.train.Example", example_.where, at, found);
  }

  std::uint64_t varint(std::int64_t end) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end) refuse_here("ends within a number");
      const std::uint8_t byte = next();
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    refuse_here("has a number of more than 64 bits");
  }

  struct Tag {
    std::uint64_t field;
    WireType wire;
  };
  Tag tag(std::int64_t end) {
    const std::uint64_t value = varint(end);
    return {value >> 3, static_cast<WireType>(value & 7)};
  }

  /// The bytes of a value of this wire type: of a length, those behind the length.
  TfFeature::Extent value(WireType wire, std::int64_t end) {
    std::int64_t bytes = 0;
    switch (wire) {
      case WireType::varint: {
        const std::int64_t begin = at;
        varint(end);
        return {begin, at - begin};
      }
      case WireType::fixed64:
        bytes = 8;
        break;
      case WireType::fixed32:
        bytes = 4;
        break;
      case WireType::length: {
        const std::uint64_t length = varint(end);
        if (length > static_cast<std::uint64_t>(end - at)) refuse_here("has a length beyond its end");
        bytes = static_cast<std::int64_t>(length);
        break;
      }
      default:
        refuse_here("has a field of an unknown type");
    }
    if (bytes > end - at) refuse_here("ends within a number");
    const TfFeature::Extent extent{at, bytes};
    at += bytes;
    return extent;
  }

 private:
  std::uint8_t next() {
    if (at < window_begin_ || at >= window_begin_ + window_bytes_) {
      window_begin_ = at;
      window_bytes_ = std::min<std::int64_t>(std::ssize(window_), example_.size - at);
      example_.read(at, window_bytes_, window_.data());
    }
    return window_[static_cast<std::size_t>(at++ - window_begin_)];
  }

  const TfExampleBytes& example_;
  std::array<std::uint8_t, 4096> window_;
  std::int64_t window_begin_ = 0, window_bytes_ = 0;
};

/// Calls visit(field, wire type, extent) for each field of the message in this extent.
template <class Visit>
void for_each_field(ExampleCursor& cursor, const TfFeature::Extent& message, const Visit& visit) {
  const std::int64_t end = message.offset + message.bytes;
  cursor.at = message.offset;
  while (cursor.at < end) {
    const auto [field, wire] = cursor.tag(end);
    const auto extent = cursor.value(wire, end);
    const std::int64_t behind = cursor.at;
    visit(field, wire, extent);
    cursor.at = behind;
  }
}

/// BytesList, FloatList or Int64List: values are field 1, each alone or, of numbers, many packed into one.
void take_list(ExampleCursor& cursor, const TfFeature::Extent& list, TfFeature& feature) {
  for_each_field(cursor, list, [&](std::uint64_t field, WireType wire, const TfFeature::Extent& extent) {
    if (field != 1) return;
    const WireType alone = feature.kind == TfFeature::Kind::floats     ? WireType::fixed32
                           : feature.kind == TfFeature::Kind::integers ? WireType::varint
                                                                       : WireType::length;
    if (wire != alone && wire != WireType::length) cursor.refuse_here("has a list of another type than it says");
    if (feature.kind == TfFeature::Kind::floats && extent.bytes % 4 != 0)
      cursor.refuse_here("has floats that are cut off");
    // Values that lie side by side are one run, but strings.
    auto& values = feature.values;
    if (feature.kind != TfFeature::Kind::bytes && !values.empty() &&
        values.back().offset + values.back().bytes == extent.offset)
      values.back().bytes += extent.bytes;
    else
      values.push_back(extent);
  });
}

TfFeature feature_in(ExampleCursor& cursor, const TfExampleBytes& example, const TfFeature::Extent& entry) {
  constexpr std::int64_t longest_name = 4096;
  TfFeature feature;
  TfFeature::Extent value;
  for_each_field(cursor, entry, [&](std::uint64_t field, WireType wire, const TfFeature::Extent& extent) {
    if (wire != WireType::length) return;
    if (field == 1) {
      if (extent.bytes > longest_name) cursor.refuse_here("has a name of over 4096 bytes");
      feature.name.resize(static_cast<std::size_t>(extent.bytes));
      example.read(extent.offset, extent.bytes, feature.name.data());
    } else if (field == 2) {
      value = extent;
    }
  });
  for_each_field(cursor, value, [&](std::uint64_t field, WireType wire, const TfFeature::Extent& list) {
    if (wire != WireType::length || field < 1 || field > 3) return;
    feature.kind = static_cast<TfFeature::Kind>(field);
    feature.values.clear();
    take_list(cursor, list, feature);
  });
  return feature;
}

void require_kind(const TfExampleBytes& example, const TfFeature& feature, TfFeature::Kind kind) {
  if (feature.kind != kind)
    refuse("{}: the feature '{}' has {}. Expected {}", example.where, feature.name, to_string(feature.kind),
           to_string(kind));
}

}  // namespace

std::vector<TfFeature> parse_tf_example(const TfExampleBytes& example) {
  ExampleCursor cursor(example);
  std::vector<TfFeature> features;
  for_each_field(cursor, {0, example.size}, [&](std::uint64_t field, WireType wire, const TfFeature::Extent& all) {
    if (field != 1 || wire != WireType::length) return;
    for_each_field(cursor, all, [&](std::uint64_t entry_field, WireType entry_wire, const TfFeature::Extent& entry) {
      if (entry_field != 1 || entry_wire != WireType::length) return;
      TfFeature feature = feature_in(cursor, example, entry);
      std::erase_if(features, [&](const TfFeature& f) { return f.name == feature.name; });
      features.push_back(std::move(feature));
    });
  });
  return features;
}

std::vector<float> floats_of(const TfExampleBytes& example, const TfFeature& feature) {
  require_kind(example, feature, TfFeature::Kind::floats);
  std::vector<float> values;
  for (const auto& run : feature.values) {
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(run.bytes) / sizeof(float));
    example.read(run.offset, run.bytes, values.data() + before);
  }
  return values;
}

std::vector<std::int64_t> integers_of(const TfExampleBytes& example, const TfFeature& feature) {
  require_kind(example, feature, TfFeature::Kind::integers);
  ExampleCursor cursor(example);
  std::vector<std::int64_t> values;
  for (const auto& run : feature.values)
    for (cursor.at = run.offset; cursor.at < run.offset + run.bytes;)
      values.push_back(static_cast<std::int64_t>(cursor.varint(run.offset + run.bytes)));
  return values;
}

std::string_view to_string(TfFeature::Kind kind) {
  constexpr std::string_view names[] = {"nothing", "bytes", "floats", "integers"};
  return names[static_cast<int>(kind)];
}

}  // namespace keelson
