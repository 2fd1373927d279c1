#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keelson::universe {

/// The part of HDF5 that universes need: plain arrays and attributes of the root group. Errors are keelson::Error with
/// the file's name and HDF5's own reason.
class Hdf5File {
 public:
  /// Creates the file or empties an existing one.
  static Hdf5File create(const std::filesystem::path& path);
  /// Opens for reading; nothing if there is no file or it is not a readable HDF5 file (e.g. truncated).
  static std::optional<Hdf5File> open(const std::filesystem::path& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&& other) noexcept;
  Hdf5File& operator=(Hdf5File&&) = delete;

  /// Writes everything out; reports the errors that a destructor could not.
  void close();

  using Extents = std::vector<std::uint64_t>;
  void create_int16(const std::string& name, const Extents& extents);
  /// Fills row `row` (along the first extent) of an array of rank > 1 that create_int16 made; the whole array if `row`
  /// is negative.
  void write_int16(const std::string& name, std::int64_t row, std::span<const std::int16_t> values);
  void write(const std::string& name, const Extents& extents, std::span<const float> values);
  void write(const std::string& name, const Extents& extents, std::span<const double> values);
  void write(const std::string& name, std::span<const std::string> values);

  void attribute(const std::string& name, const std::string& value);
  void attribute(const std::string& name, std::int64_t value);
  void attribute(const std::string& name, double value);
  void attribute(const std::string& name, std::span<const double> values);
  void attribute(const std::string& name, std::span<const std::string> values);

  /// Extents of an array; nothing if it is missing.
  std::optional<Extents> extents(const std::string& name) const;
  std::vector<std::int16_t> read_int16(const std::string& name) const;
  std::vector<float> read_float(const std::string& name) const;
  std::vector<double> read_double(const std::string& name) const;
  std::optional<std::string> text_attribute(const std::string& name) const;
  std::vector<double> double_attribute(const std::string& name) const;  ///< numbers of any kind, converted
  std::vector<std::string> texts_attribute(const std::string& name) const;

 private:
  Hdf5File(std::filesystem::path path, std::int64_t id) : path_(std::move(path)), id_(id) {}

  std::filesystem::path path_;
  std::int64_t id_;  // hid_t; negative when closed
};

}  // namespace keelson::universe
