#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// The bytes of NetCDF and NumPy files, written by the formats' specifications alone.
namespace keelson::testing {

/// The element types of NetCDF's classic format, by their numbers.
enum class CdfType : std::uint8_t { i8 = 1, text, i16, i32, f32, f64, u8, u16, u32, i64, u64 };

/// A text, or numbers.
struct CdfAttribute {
  std::string name;
  CdfType type = CdfType::text;
  std::vector<double> numbers = {};
  std::string text = {};
};

struct CdfDimension {
  std::string name;
  std::int64_t length = 0;  ///< 0: unlimited
};

struct CdfVariable {
  std::string name;
  std::vector<int> dimensions;  ///< numbers of dimensions
  CdfType type = CdfType::f32;
  std::vector<double> values;  ///< in row-major order; of text, the codes of the characters
  std::vector<CdfAttribute> attributes = {};
};

/// A file of CDF-1, CDF-2 or CDF-5 (`version`) with so many records. `streaming`: the number of records in the header
/// says that it is not known.
std::string netcdf_of(int version, const std::vector<CdfDimension>& dimensions,
                      const std::vector<CdfVariable>& variables, std::int64_t records = 0, bool streaming = false);

/// The bytes of numbers, one after the other.
template <class T>
std::string bytes_of_numbers(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

/// A file of NumPy's .npy format of version 1, 2 or 3. `shape`: "(3, 4)".
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& elements, int version = 1,
                   bool fortran_order = false);

/// A zip file of these files (name, content), stored or deflated.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& files, bool deflated);

}  // namespace keelson::testing
