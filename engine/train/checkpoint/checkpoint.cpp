#include "engine/train/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "engine/base/atomic_file.hpp"
#include "engine/base/utc_time.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "engine/train/checkpoint/detail/checkpoint_layout.hpp"

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
  if (s.epoch_samples > 0) visit_epoch(s, write);
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

void check_finite(const std::string& path, const std::vector<float>& values, std::int64_t step) {
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
    fail("{} holds a value that is not finite after step {}", path, step);
}

}  // namespace

void detail::write_contents(hdf5::File& file, const CheckpointCopy& copy) {
  auto state = copy.state;
  state.version = KEELSON_VERSION;
  state.created = utc_now();
  StateChecksum sum(state);
  const auto write = [&](const std::string& where, const hdf5::Dims& dims, const auto* values, std::size_t bytes) {
    const auto checksum = fnv1a(values, bytes);
    file.write(where, values, dims);
    file.set_attribute(where, "checksum", checksum);
    sum.add(where, dims, checksum);
  };
  const auto write_floats = [&](const std::string& where, const Shape& shape, const std::vector<float>& values) {
    write(where, dims_of(shape), values.data(), values.size() * sizeof(float));
  };
  const auto write_text = [&](const std::string& where, const std::string& text) {
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    write(where, {static_cast<std::int64_t>(bytes.size())}, bytes.data(), bytes.size());
  };
  for (const auto& a : copy.arrays) write_floats(a.path, a.shape, a.values);
  std::vector<std::string> carried, of_samples, texts;
  for (const auto& [name, c] : state.carried) {
    write_floats(carried_path(name), c.shape, c.values);
    carried.push_back(name);
  }
  for (const auto& [name, values] : state.of_samples) {
    write_floats(of_samples_path(name), {static_cast<std::int64_t>(values.size())}, values);
    of_samples.push_back(name);
  }
  std::vector<std::string> before;
  if (state.before)
    for (const auto& [name, a] : state.before->arrays) {
      write_floats(before_path(name), a.shape, a.values);
      before.push_back(name);
    }
  for (const auto& [name, text] : state.texts) {
    write_text(text_path(name), text);
    texts.push_back(name);
  }
  if (!state.topology.empty()) write_text(topology_path, state.topology);
  if (state.before) write_text(topology_before_path, state.before->topology);
  file.make_group("/optimizer");
  if (!carried.empty()) set_list(file, "/state", "names", carried);
  if (!of_samples.empty()) set_list(file, "/samples", "names", of_samples);
  if (!before.empty()) set_list(file, "/before", "names", before);
  if (!texts.empty()) set_list(file, "/texts", "names", texts);
  set_list(file, "/parameters", "names", copy.parameters);
  set_list(file, "/parameters", "statistics", copy.statistics);
  set_list(file, "/optimizer", "moments", copy.moments);
  write_state(file, state);
  file.set_attribute("/", "checksum", sum.value());
}

std::vector<std::string> moment_names(const Optimizer& optimizer) {
  auto names = optimizer.state_names();
  for (auto& name : names) name = stored_state_name(name);
  return names;
}

CheckpointCopy copy_run(const RunState& state, const Parameters& parameters, const std::vector<std::string>& moments,
                        Communicator* ranks) {
  CheckpointCopy copy{.state = state, .moments = moments};
  const auto add = [&](const std::string& path, const Shape& shape, std::vector<float> values) {
    copy.arrays.push_back({path, shape, std::move(values)});
  };
  for (const auto& p : parameters.all()) {
    copy.parameters.push_back(p.name);
    if (p.kind == ParameterKind::statistic) copy.statistics.push_back(p.name);
    add(parameter_path(p.name), p.shape, parameters.gather(p, -1, ranks));
  }
  for (std::size_t m = 0; m < moments.size(); ++m)
    for (const auto& p : parameters.all())
      if (const auto which = static_cast<int>(m); p.kind == ParameterKind::trained && p.has(which))
        add(moment_path(moments[m], p.name), p.shape_of(which), parameters.gather(p, which, ranks));
  // Behind the gathering, in which all ranks take part.
  for (const auto& a : copy.arrays) check_finite(a.path, a.values, state.step);
  for (const auto& [name, c] : state.carried) check_finite(carried_path(name), c.values, state.step);
  return copy;
}

void write_checkpoint(const fs::path& path, const CheckpointCopy& copy, const std::function<void()>& progress) {
  AtomicFile atomic(path, Target::hdf5);
  try {
    auto file = hdf5::File::create(atomic.temporary().string());
    write_contents(file, copy);
    file.close(true, progress);
  } catch (const Error& e) {
    fail("cannot write the checkpoint {}: {}; earlier checkpoints are untouched", path.string(), e.what());
  }
  atomic.commit();
}

}  // namespace keelson
