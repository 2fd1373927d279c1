#include "tests/support/array_files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <limits>

namespace keelson::testing {
namespace {

template <class T>
std::string big_bytes(T n) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &n, sizeof n);
  return {std::make_reverse_iterator(bytes + sizeof n), std::make_reverse_iterator(bytes)};
}

template <class T>
std::string little_bytes(T n) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &n, sizeof n);
  return {bytes, sizeof n};
}

std::string cdf_element(CdfType type, double value) {
  switch (type) {
    case CdfType::i8:
      return big_bytes(static_cast<std::int8_t>(value));
    case CdfType::text:
    case CdfType::u8:
      return big_bytes(static_cast<std::uint8_t>(value));
    case CdfType::i16:
      return big_bytes(static_cast<std::int16_t>(value));
    case CdfType::u16:
      return big_bytes(static_cast<std::uint16_t>(value));
    case CdfType::i32:
      return big_bytes(static_cast<std::int32_t>(value));
    case CdfType::u32:
      return big_bytes(static_cast<std::uint32_t>(value));
    case CdfType::i64:
      return big_bytes(static_cast<std::int64_t>(value));
    case CdfType::u64:
      return big_bytes(static_cast<std::uint64_t>(value));
    case CdfType::f32:
      return big_bytes(static_cast<float>(value));
    case CdfType::f64:
      return big_bytes(value);
  }
  return {};
}

std::string cdf_elements(CdfType type, const double* values, std::int64_t n) {
  std::string bytes;
  for (std::int64_t i = 0; i < n; ++i) bytes += cdf_element(type, values[i]);
  return bytes;
}

std::string filled_up(std::string bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4, '\0');
  return bytes;
}

/// Writes a header with given places of the variables.
class CdfHeader {
 public:
  explicit CdfHeader(int version) : version_(version) {}

  std::string count(std::int64_t n) const {
    return version_ == 5 ? big_bytes(n) : big_bytes(static_cast<std::int32_t>(n));
  }
  std::string list(std::uint32_t tag, std::size_t n) const {
    return big_bytes(n == 0 ? 0u : tag) + count(static_cast<std::int64_t>(n));
  }
  std::string name(const std::string& n) const { return count(std::ssize(n)) + filled_up(n); }
  std::string attributes(const std::vector<CdfAttribute>& all) const {
    std::string bytes = list(12, all.size());
    for (const auto& a : all) {
      const bool is_text = a.type == CdfType::text;
      bytes += name(a.name) + big_bytes(static_cast<std::uint32_t>(a.type)) +
               count(is_text ? std::ssize(a.text) : std::ssize(a.numbers)) +
               filled_up(is_text ? a.text : cdf_elements(a.type, a.numbers.data(), std::ssize(a.numbers)));
    }
    return bytes;
  }

 private:
  int version_;
};

}  // namespace

std::string netcdf_of(int version, const std::vector<CdfDimension>& dimensions,
                      const std::vector<CdfVariable>& variables, std::int64_t records, bool streaming) {
  const CdfHeader h(version);
  const auto is_record = [&](const CdfVariable& v) {
    return !v.dimensions.empty() && dimensions[static_cast<std::size_t>(v.dimensions[0])].length == 0;
  };
  const auto elements = [&](const CdfVariable& v) {  // of the whole variable, or of a record
    std::int64_t n = 1;
    for (const int d : v.dimensions)
      if (const auto length = dimensions[static_cast<std::size_t>(d)].length; length > 0) n *= length;
    return n;
  };
  std::int64_t record_variables = 0;
  for (const auto& v : variables) record_variables += is_record(v) ? 1 : 0;

  std::vector<std::int64_t> begins(variables.size());
  const auto header = [&] {
    std::string bytes = fmt::format("CDF{}", static_cast<char>(version));
    bytes += streaming ? h.count(-1) : h.count(records);
    bytes += h.list(10, dimensions.size());
    for (const auto& d : dimensions) bytes += h.name(d.name) + h.count(d.length);
    bytes += h.attributes({{.name = "title", .text = "a test"}});
    bytes += h.list(11, variables.size());
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const auto& v = variables[i];
      bytes += h.name(v.name) + h.count(std::ssize(v.dimensions));
      for (const int d : v.dimensions) bytes += h.count(d);
      bytes += h.attributes(v.attributes) + big_bytes(static_cast<std::uint32_t>(v.type));
      bytes += h.count(0);  // the size, which readers do not need
      bytes += version == 1 ? big_bytes(static_cast<std::int32_t>(begins[i])) : big_bytes(begins[i]);
    }
    return bytes;
  };
  std::int64_t at = std::ssize(header());
  std::string data;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto& v = variables[i];
    if (is_record(v)) continue;
    begins[i] = at + std::ssize(data);
    data += filled_up(cdf_elements(v.type, v.values.data(), elements(v)));
  }
  for (std::int64_t r = 0; r < std::max<std::int64_t>(1, records); ++r) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const auto& v = variables[i];
      if (!is_record(v)) continue;
      if (r == 0) begins[i] = at + std::ssize(data);
      if (r == records) continue;
      const auto part = cdf_elements(v.type, v.values.data() + r * elements(v), elements(v));
      data += record_variables == 1 ? part : filled_up(part);
    }
  }
  return header() + data;
}

std::string npy_of(const std::string& descr, const std::string& shape, const std::string& elements, int version,
                   bool fortran_order) {
  std::string header =
      fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}",
                  descr.starts_with('[') ? descr : "'" + descr + "'", fortran_order ? "True" : "False", shape);
  const std::size_t prefix = version == 1 ? 10 : 12;
  header.resize((prefix + header.size() + 64) / 64 * 64 - prefix, ' ');
  header.back() = '\n';
  std::string bytes = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  bytes += version == 1 ? little_bytes(static_cast<std::uint16_t>(header.size()))
                        : little_bytes(static_cast<std::uint32_t>(header.size()));
  return bytes + header + elements;
}

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& files, bool deflated) {
  std::string bytes, directory;
  for (const auto& [name, content] : files) {
    std::string packed = content;
    if (deflated) {
      z_stream stream{};
      deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&stream, content.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
      stream.avail_in = static_cast<uInt>(content.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const auto facts = little_bytes(std::uint16_t{20}) + little_bytes(std::uint16_t{0}) +
                       little_bytes(static_cast<std::uint16_t>(deflated ? 8 : 0)) + little_bytes(std::uint32_t{0}) +
                       little_bytes(static_cast<std::uint32_t>(crc)) +
                       little_bytes(static_cast<std::uint32_t>(packed.size())) +
                       little_bytes(static_cast<std::uint32_t>(content.size())) +
                       little_bytes(static_cast<std::uint16_t>(name.size())) + little_bytes(std::uint16_t{0});
    const auto place = little_bytes(static_cast<std::uint32_t>(bytes.size()));
    directory += "PK\x01\x02" + little_bytes(std::uint16_t{20}) + facts + std::string(10, '\0') + place + name;
    bytes += "PK\x03\x04" + facts + name + packed;
  }
  const auto n = little_bytes(static_cast<std::uint16_t>(files.size()));
  return bytes + directory + "PK\x05\x06" + std::string(4, '\0') + n + n +
         little_bytes(static_cast<std::uint32_t>(directory.size())) +
         little_bytes(static_cast<std::uint32_t>(bytes.size())) + std::string(2, '\0');
}

}  // namespace keelson::testing
