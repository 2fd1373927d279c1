#include "tests/fuzz/forge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/detail/checkpoint_layout.hpp"
#include "engine/train/checkpoint/state_text.hpp"

namespace keelson::fuzz {
namespace {

using Array = CheckpointCopy::Array;

template <class List>
auto& any_of(List& list, Random& random) {
  return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(random() % std::size(list)));
}

template <class T>
T extreme(Random& random) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    const std::array<T, 11> values{0,
                                   -1,
                                   1,
                                   T(1e30),
                                   Limits::max(),
                                   Limits::lowest(),
                                   Limits::denorm_min(),
                                   Limits::infinity(),
                                   -Limits::infinity(),
                                   Limits::quiet_NaN(),
                                   T(0.5)};
    return any_of(values, random);
  } else {
    const std::array<T, 9> values{0, 1, T(-1), 2, 1000, T(0x7fffffff), T(0x80000000), Limits::max(), Limits::min()};
    return any_of(values, random);
  }
}

CheckpointCopy copy_of(const std::filesystem::path& path) {
  const auto file = hdf5::File::open(path.string());
  const auto list = [&](const char* object, const char* name) {
    return file.has(object) && file.has_attribute(object, name) ? file.texts_attribute(object, name)
                                                                : std::vector<std::string>();
  };
  CheckpointCopy c{.state = read_run_state(path),
                   .parameters = list("/parameters", "names"),
                   .moments = list("/optimizer", "moments"),
                   .statistics = list("/parameters", "statistics")};
  const auto add = [&](const std::string& array) {
    const auto dims = file.info(array).shape;
    c.arrays.push_back({array, Shape(dims), file.read<float>(array)});
  };
  for (const auto& p : c.parameters) add(detail::parameter_path(p));
  for (const auto& m : c.moments)
    for (const auto& p : c.parameters)
      if (std::ranges::find(c.statistics, p) == c.statistics.end()) add(detail::moment_path(m, p));
  for (const auto& name : list("/state", "names")) {
    const auto array = detail::carried_path(name);
    c.state.carried[name] = {Shape(file.info(array).shape), file.read<float>(array)};
  }
  for (const auto& name : list("/samples", "names"))
    c.state.of_samples[name] = file.read<float>(detail::of_samples_path(name));
  return c;
}

void forge_number(CheckpointCopy& c, Random& random) {
  std::size_t at = random() % 20;  // about as many as there are
  const auto set = [&]<class T>(const char*, T& field) {
    if constexpr (std::is_arithmetic_v<T>)
      if (at-- == 0) field = extreme<T>(random);
  };
  visit_fields(c.state, set);
  visit_part(c.state, set);
  visit_epoch(c.state, set);
}

void forge_value(CheckpointCopy& c, Random& random) {
  auto& values = any_of(c.arrays, random).values;
  const auto value = extreme<float>(random);
  if (random() % 4 == 0)
    std::ranges::fill(values, value);
  else if (!values.empty())
    any_of(values, random) = value;
}

void reshape(Shape& shape, std::vector<float>& values, Random& random) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  switch (random() % 4) {
    case 0:
      std::ranges::reverse(dims);
      break;
    case 1:
      dims = {shape.elements()};
      break;
    case 2:
      if (dims.size() < max_rank) dims.push_back(1);
      break;
    default:
      if (!dims.empty()) any_of(dims, random) = static_cast<std::int64_t>(random() % 8);
  }
  shape = Shape(dims);
  values.resize(static_cast<std::size_t>(shape.elements()), 0.25F);
}

void forge_shape(CheckpointCopy& c, Random& random) {
  auto& array = any_of(c.arrays, random);
  reshape(array.shape, array.values, random);
}

/// Renames, or removes, a parameter with its moments.
void forge_names(CheckpointCopy& c, Random& random) {
  auto& name = any_of(c.parameters, random);
  const auto old = name;
  const bool remove = random() % 2 == 0;
  const std::array<std::string, 5> names{"x", old + "x", "a/b/c/d", "\xff", old + " "};
  const auto other = any_of(names, random);
  const auto path_ends = [&](const Array& a) { return a.path.ends_with("/" + old); };
  if (remove) {
    std::erase_if(c.arrays, path_ends);
    std::erase(c.parameters, old);
    return;
  }
  for (auto& a : c.arrays)
    if (path_ends(a)) a.path.replace(a.path.size() - old.size(), old.size(), other);
  name = other;
}

void forge_moments(CheckpointCopy& c, Random& random) {
  if (c.moments.empty()) return;
  const auto gone = c.moments.back();
  c.moments.pop_back();
  std::erase_if(c.arrays, [&](const Array& a) { return a.path.starts_with("/optimizer/" + gone + "/"); });
  if (random() % 2 == 0) c.state.optimizer = "adam";
}

std::string word(Random& random) {
  const std::array<std::string, 16> words{"",
                                          "0",
                                          "-1",
                                          "1e999",
                                          "nan",
                                          "9223372036854775807",
                                          "99999999999999999999",
                                          "true",
                                          "x",
                                          "1,2,3",
                                          "-1,-1",
                                          "[]",
                                          "\xff",
                                          "/dev/null",
                                          "128",
                                          "sgd"};
  return any_of(words, random);
}

void forge_config(CheckpointCopy& c, Random& random) {
  if (c.state.config.empty()) return;
  auto& [key, value] = any_of(c.state.config, random);
  if (random() % 4 == 0)
    c.state.config.erase(std::string(key));
  else
    value = word(random);
}

void forge_text(CheckpointCopy& c, Random& random) {
  auto& s = c.state;
  const std::array<std::string*, 4> lines{&s.network, &s.optimizer, &s.schedule, &s.topology};
  if (!s.texts.empty() && random() % 2 == 0) {
    auto& text = any_of(s.texts, random).second;
    text = damage_text(text, random);
  } else if (random() % 2 == 0) {
    s.topology = damage_text(s.topology, random);
  } else {
    *any_of(lines, random) = word(random);
  }
  // HDF5 has no attributes with zeros in them.
  for (auto* line : lines)
    if (line != &s.topology) std::erase(*line, '\0');
}

void forge_state(CheckpointCopy& c, Random& random) {
  auto& carried = c.state.carried;
  if (carried.empty()) carried["lstm1_h"] = {{2, 3}, std::vector<float>(6)};
  auto& one = any_of(carried, random).second;
  if (random() % 2 == 0)
    reshape(one.shape, one.values, random);
  else if (!one.values.empty())
    any_of(one.values, random) = extreme<float>(random);
  c.state.step_in_epoch = static_cast<std::int64_t>(random() % 3);
}

void forge_observed(CheckpointCopy& c, Random& random) {
  auto& all = c.state.observed;
  if (all.empty()) all["target_sum"] = {1};
  auto& values = any_of(all, random).second;
  if (random() % 3 == 0)
    values.push_back(extreme<double>(random));
  else if (!values.empty() && random() % 2 == 0)
    values.pop_back();
  else
    values.assign(values.size() + 1, extreme<double>(random));
}

}  // namespace

void forge_checkpoint(const std::filesystem::path& original, const std::filesystem::path& path, Random& random) {
  constexpr std::array ways{forge_number, forge_number,  forge_number, forge_value, forge_value, forge_shape,
                            forge_names,  forge_moments, forge_config, forge_text,  forge_state, forge_observed};
  auto copy = copy_of(original);
  for (auto n = 1 + random() % 2; n > 0; --n) any_of(ways, random)(copy, random);
  auto file = hdf5::File::create(path.string());
  detail::write_contents(file, copy);
  // The checksum covers these where there is a part: where there is none, anybody can set them.
  if (copy.state.part_step <= 0 && random() % 4 == 0) {
    file.set_attribute("/", "part_step", std::min<std::int64_t>(0, extreme<std::int64_t>(random)));
    file.set_attribute("/", "part_sample", extreme<std::int64_t>(random));
    file.set_attribute("/", "part_position", extreme<double>(random));
  }
  file.close();
}

}  // namespace keelson::fuzz
