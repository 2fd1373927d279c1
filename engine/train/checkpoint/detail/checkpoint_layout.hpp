#pragma once

#include <string>

#include "engine/base/fnv1a.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "engine/tensor/shape.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/checkpoint/state_text.hpp"

/// Where things lie in a checkpoint, for those who write and read it.
namespace keelson::detail {

inline std::string parameter_path(const std::string& name) { return "/parameters/" + name; }
inline std::string moment_path(const std::string& moment, const std::string& name) {
  return "/optimizer/" + moment + "/" + name;
}
/// Format 2 is older than the names of Optimizer::state_names(): it has names of its own for these three.
inline std::string stored_state_name(const std::string& name) {
  if (name == "momentum_buffer") return "momentum";
  if (name == "exp_avg") return "m";
  return name == "exp_avg_sq" ? "v" : name;
}
inline std::string carried_path(const std::string& name) { return "/state/" + name; }
inline std::string of_samples_path(const std::string& name) { return "/samples/" + name; }
inline std::string text_path(const std::string& name) { return "/texts/" + name; }

inline std::string before_path(const std::string& name) { return "/before/" + name; }

inline constexpr const char* topology_before_path = "/topology_before";
inline constexpr const char* topology_path = "/topology";

inline hdf5::Dims dims_of(const Shape& s) { return {s.begin(), s.end()}; }

/// Writes all of a checkpoint.
void write_contents(hdf5::File& file, const CheckpointCopy& copy);

/// Checksum over the whole state: its text, then each array's path, shape and own checksum.
class StateChecksum {
 public:
  explicit StateChecksum(const RunState& s) { add(to_text(s)); }
  void add(const std::string& path, const hdf5::Dims& shape, std::uint64_t checksum) {
    add(fmt::format("{} {} {:016x}\n", path, hdf5::to_string(shape), checksum));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add(const std::string& text) { hash_ = fnv1a(text.data(), text.size(), hash_); }
  std::uint64_t hash_ = fnv1a(nullptr, 0);
};

}  // namespace keelson::detail
