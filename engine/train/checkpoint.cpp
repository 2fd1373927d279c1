#include "engine/train/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "engine/base/atomic_file.hpp"
#include "engine/base/utc_time.hpp"
#include "engine/data/hdf5.hpp"
#include "engine/train/detail/checkpoint_layout.hpp"

namespace keelson {
using namespace detail;
namespace fs = std::filesystem;
namespace {

/// An empty list has no attribute.
template <class T>
void set_list(hdf5::File& file, const std::string& object, const std::string& name, const std::vector<T>& list) {
  if (!list.empty()) file.set_attribute(object, name, list);
}

template <class T>
void write_field(hdf5::File& f, const char* name, const T& v) {
  f.set_attribute("/", name, v);
}

void write_state(hdf5::File& file, const RunState& s) {
  file.set_attribute("/", "format", std::string("keelson checkpoint"));
  file.set_attribute("/", "format_version", checkpoint_format);
  const auto write = [&](const char* name, const auto& field) { write_field(file, name, field); };
  visit_fields(s, write);
  if (s.part_step > 0) visit_part(s, write);
  std::vector<std::string> keys;
  for (const auto& [key, value] : s.config) {
    file.set_attribute("/", "config." + key, value);
    keys.push_back(key);
  }
  set_list(file, "/", "config_keys", keys);
  std::vector<std::string> observed;
  for (const auto& [name, values] : s.observed) {
    set_list(file, "/", name, values);
    observed.push_back(name);
  }
  set_list(file, "/", "observed_names", observed);
}

}  // namespace

std::vector<std::string> moment_names(const Optimizer& optimizer) {
  auto names = optimizer.state_names();
  for (auto& name : names) name = stored_state_name(name);
  return names;
}

void write_checkpoint(const fs::path& path, const RunState& given, const Parameters& parameters,
                      const std::vector<std::string>& moments) {
  auto state = given;
  state.version = KEELSON_VERSION;
  state.created = utc_now();
  StateChecksum sum(state);
  std::vector<std::string> names;
  std::vector<std::string> statistics;
  for (const auto& p : parameters.all()) {
    names.push_back(p.name);
    if (p.kind == ParameterKind::statistic) statistics.push_back(p.name);
  }
  AtomicFile atomic(path);
  try {
    auto file = hdf5::File::create(atomic.temporary().string());
    const auto write_bytes = [&](const std::string& where, const hdf5::Dims& dims, const auto* values,
                                 std::size_t bytes) {
      const auto checksum = fnv1a(values, bytes);
      file.write(where, values, dims);
      file.set_attribute(where, "checksum", checksum);
      sum.add(where, dims, checksum);
    };
    const auto write = [&](const std::string& where, const Shape& shape, const std::vector<float>& values) {
      if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        fail("{} holds a value that is not finite after step {}", where, state.step);
      write_bytes(where, dims_of(shape), values.data(), values.size() * sizeof(float));
    };
    for (const auto& p : parameters.all()) write(parameter_path(p.name), p.shape, parameters.get(p));
    for (std::size_t m = 0; m < moments.size(); ++m)
      for (const auto& p : parameters.all())
        if (p.kind == ParameterKind::trained)
          write(moment_path(moments[m], p.name), p.shape, parameters.get(p, static_cast<int>(m)));
    std::vector<std::string> carried;
    for (const auto& [name, c] : state.carried) {
      write(carried_path(name), c.shape, c.values);
      carried.push_back(name);
    }
    if (!carried.empty()) set_list(file, "/state", "names", carried);
    const auto write_text = [&](const std::string& where, const std::string& text) {
      const std::vector<std::uint8_t> bytes(text.begin(), text.end());
      write_bytes(where, {static_cast<std::int64_t>(bytes.size())}, bytes.data(), bytes.size());
    };
    std::vector<std::string> text_names;
    for (const auto& [name, text] : state.texts) {
      write_text(text_path(name), text);
      text_names.push_back(name);
    }
    if (!state.topology.empty()) write_text(topology_path, state.topology);
    if (!text_names.empty()) set_list(file, "/texts", "names", text_names);
    file.make_group("/optimizer");
    set_list(file, "/parameters", "names", names);
    if (!statistics.empty()) set_list(file, "/parameters", "statistics", statistics);
    set_list(file, "/optimizer", "moments", moments);
    write_state(file, state);
    file.set_attribute("/", "checksum", sum.value());
    file.close();
  } catch (const Error& e) {
    fail("cannot write the checkpoint {}: {}; earlier checkpoints are untouched", path.string(), e.what());
  }
  atomic.commit();
}

}  // namespace keelson
