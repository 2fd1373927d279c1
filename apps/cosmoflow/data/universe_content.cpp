#include "apps/cosmoflow/data/detail/universe_content.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson::cosmoflow::detail {

hdf5::Dims UniverseLayout::volume_shape() const {
  hdf5::Dims dims{edge, edge, edge};
  if (channel_axis) dims.push_back(channels);
  return dims;
}

namespace {

constexpr std::int64_t most_around = 1 << 16;

bool is_number(hdf5::Type type) { return type != hdf5::Type::other; }

template <class T>
std::vector<T> per_column(const hdf5::File& file, const char* attribute, std::vector<T> values, std::int64_t columns) {
  if (static_cast<std::int64_t>(values.size()) == columns) return values;
  refuse("{}: the attribute '{}' has {} values. Expected {}, one per target", file.path(), attribute, values.size(),
         columns);
}

std::vector<UniverseParameter> read_parameters(const hdf5::File& file, std::int64_t columns) {
  std::vector<UniverseParameter> parameters(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < columns; ++i) parameters[i].name = fmt::format("y{}", i);
  if (file.has_attribute("/", "parameter_names")) {
    const auto names = per_column(file, "parameter_names", file.texts_attribute("/", "parameter_names"), columns);
    for (std::int64_t i = 0; i < columns; ++i) parameters[i].name = names[i];
  }
  if (file.has_attribute("/", "parameter_minimum") && file.has_attribute("/", "parameter_maximum")) {
    const auto read = [&](const char* name) {
      return per_column(file, name, file.numbers_attribute<double>("/", name), columns);
    };
    const auto minimum = read("parameter_minimum"), maximum = read("parameter_maximum");
    for (std::int64_t i = 0; i < columns; ++i) {
      if (!std::isfinite(minimum[i]) || !std::isfinite(maximum[i]) || !(minimum[i] < maximum[i])) {
        refuse("{}: gives {} the range {} ... {}. Expected parameter_minimum < parameter_maximum", file.path(),
               parameters[i].name, minimum[i], maximum[i]);
      }
      parameters[i] = {parameters[i].name, true, minimum[i], maximum[i]};
    }
  }
  return parameters;
}

}  // namespace

void set_layout(UniverseContent& c) {
  const std::string& path = c.path;
  if (!is_number(c.volume.type))
    refuse("{}: '{}' holds {}. Expected int16, uint16, float32 or other numbers", path, c.volume.name,
           c.volume.type_name);
  if (!is_number(c.targets.type))
    refuse("{}: '{}' holds {}. Expected float32 or other numbers", path, c.targets.name, c.targets.type_name);

  const hdf5::Dims &v = c.volume.shape, &t = c.targets.shape;
  const bool many = t.size() == 2;
  const auto rank = v.size() - (many ? 1 : 0);
  if ((t.size() != 1 && !many) || v.size() < 3 || (rank != 3 && rank != 4)) {
    refuse(
        "{}: '{}' has the shape {} and '{}' {}. Expected (D, H, W, channels) with (targets), or (samples, D, H, W, "
        "channels) with "
        "(samples, targets)",
        path, c.volume.name, hdf5::to_string(v), c.targets.name, hdf5::to_string(t));
  }
  if (many && v[0] != t[0])
    refuse("{}: '{}' has {} samples but '{}' has {}. Expected as many; make the file again", path, c.volume.name, v[0],
           c.targets.name, t[0]);
  if (c.volume.elements() == 0 || c.targets.elements() == 0)
    refuse("{}: holds no samples: '{}' has the shape {}, '{}' {}", path, c.volume.name, hdf5::to_string(v),
           c.targets.name, hdf5::to_string(t));
  const std::int64_t* cube = v.data() + (many ? 1 : 0);
  if (cube[0] != cube[1] || cube[1] != cube[2])
    refuse("{}: '{}' has the shape {}. Expected a cube, D = H = W; cut it into cubes first", path, c.volume.name,
           hdf5::to_string(v));
  c.layout.volume = c.volume.name;
  c.layout.targets = c.targets.name;
  c.layout.type = c.volume.type;
  c.layout.type_name = hdf5::to_string(c.volume.type);
  c.layout.many = many;
  c.layout.channel_axis = rank == 4;
  c.layout.edge = cube[0];
  c.layout.channels = rank == 4 ? cube[3] : 1;
  c.layout.columns = t.back();
  c.samples = many ? t[0] : 1;
}

UniverseContent inspect(const hdf5::File& file) {
  UniverseContent c;
  c.path = file.path();
  const bool raw = !file.has("x") && file.has("full");
  c.volume = file.info(raw ? "full" : "x");
  c.targets = file.info(raw ? "unitPar" : "y");
  set_layout(c);
  file.require_written(c.volume.name);
  file.require_written(c.targets.name);
  c.parameters = read_parameters(file, c.layout.columns);
  if (file.has_attribute("/", "redshifts")) c.redshifts = file.numbers_attribute<double>("/", "redshifts");
  return c;
}

void require_same(const UniverseContent& first_content, const UniverseContent& c) {
  const UniverseLayout &l = c.layout, &first = first_content.layout;
  const auto describe = [](const UniverseLayout& u) {
    return fmt::format("'{}' of {} {} and '{}' of {} numbers, {} per file", u.volume, hdf5::to_string(u.volume_shape()),
                       u.type_name, u.targets, u.columns, u.many ? "many" : "one");
  };
  if (l.volume != first.volume || l.type != first.type || l.many != first.many ||
      l.volume_shape() != first.volume_shape() || l.columns != first.columns) {
    refuse("{}: holds {}. Expected {} as in {}; move or remake the file that is wrong", c.path, describe(l),
           describe(first), first_content.path);
  }
  if (c.parameters == first_content.parameters) return;
  refuse(
      "{}: has other parameter_names, parameter_minimum or parameter_maximum than {}. Expected one scaling of the "
      "targets; generate all files with the same priors",
      c.path, first_content.path);
}

void require_finite(const std::vector<float>& targets, const UniverseLayout& layout, const std::string& path) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (std::isfinite(targets[i])) continue;
    const auto row = static_cast<std::int64_t>(i) / layout.columns,
               column = static_cast<std::int64_t>(i) % layout.columns;
    refuse("{}: '{}' holds {} at {}. Expected finite numbers; move or remake the file", path, layout.targets,
           targets[i], hdf5::to_string(layout.many ? hdf5::Dims{row, column} : hdf5::Dims{column}));
  }
}

bool is_native(hdf5::Type stored) {
  return stored == hdf5::Type::i16 || stored == hdf5::Type::u16 || stored == hdf5::Type::f32;
}

std::int64_t element_bytes(hdf5::Type stored) { return stored == hdf5::Type::i16 || stored == hdf5::Type::u16 ? 2 : 4; }

std::int64_t volume_offset(const UniverseContent& c) {
  return is_native(c.volume.type) && c.volume.file == c.path ? c.volume.raw_offset : -1;
}

Surroundings Surroundings::read(const RawFile& file, std::int64_t size, std::int64_t offset, std::int64_t length) {
  const std::int64_t head = std::min(offset, most_around), end = offset + length;
  const std::int64_t tail = std::clamp<std::int64_t>(size - end, 0, most_around - head);
  Surroundings s;
  s.bytes.resize(static_cast<std::size_t>(head + tail));
  file.read(s.bytes.data(), head, 0);
  file.read(s.bytes.data() + head, tail, end);
  s.whole = head == offset && end + tail == size;
  return s;
}

std::uint64_t Surroundings::hash() const { return fnv1a(bytes.data(), bytes.size()); }

}  // namespace keelson::cosmoflow::detail
