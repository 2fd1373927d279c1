#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "apps/cosmoflow/data/detail/universe_files.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/data/raw_file.hpp"

namespace keelson::cosmoflow::detail {

hdf5::Dims UniverseLayout::volume_shape() const {
  hdf5::Dims dims{edge, edge, edge};
  if (channel_axis) dims.push_back(channels);
  return dims;
}

namespace {

constexpr std::int64_t max_metadata_bytes = 1 << 16;

/// What one file holds, by HDF5.
struct Content {
  UniverseLayout layout;
  UniverseFile file;
  hdf5::DatasetInfo volume, targets;
  std::vector<UniverseParameter> parameters;
};

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

Content inspect(const hdf5::File& file) {
  const std::string& path = file.path();
  Content c;
  const bool raw = !file.has("x") && file.has("full");
  c.layout.volume = raw ? "full" : "x";
  c.layout.targets = raw ? "unitPar" : "y";
  c.volume = file.info(c.layout.volume);
  c.targets = file.info(c.layout.targets);
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
  file.require_written(c.volume.name);
  file.require_written(c.targets.name);
  c.layout.type = c.volume.type;
  c.layout.type_name = hdf5::to_string(c.volume.type);
  c.layout.many = many;
  c.layout.channel_axis = rank == 4;
  c.layout.edge = cube[0];
  c.layout.channels = rank == 4 ? cube[3] : 1;
  c.layout.columns = t.back();
  c.file = {path, many ? t[0] : 1, c.volume.raw_offset, c.volume.file};
  c.parameters = read_parameters(file, c.layout.columns);
  return c;
}

void require_same(const Content& first_content, const Content& c) {
  const UniverseLayout &l = c.layout, &first = first_content.layout;
  const std::string& first_path = first_content.file.path;
  const auto describe = [](const UniverseLayout& u) {
    return fmt::format("'{}' of {} {} and '{}' of {} numbers, {} per file", u.volume, hdf5::to_string(u.volume_shape()),
                       u.type_name, u.targets, u.columns, u.many ? "many" : "one");
  };
  if (l.volume != first.volume || l.type != first.type || l.many != first.many ||
      l.volume_shape() != first.volume_shape() || l.columns != first.columns) {
    refuse("{}: holds {}. Expected {} as in {}; move or remake the file that is wrong", c.file.path, describe(l),
           describe(first), first_path);
  }
}

void require_same_scaling(const Content& first, const Content& c) {
  if (c.parameters == first.parameters) return;
  refuse(
      "{}: has other parameter_names, parameter_minimum or parameter_maximum than {}. Expected one scaling of the "
      "targets; generate all files with the same priors",
      c.file.path, first.file.path);
}

void require_finite(const std::vector<float>& values, const Content& c, const std::string& path) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const auto row = static_cast<std::int64_t>(i) / c.layout.columns,
               column = static_cast<std::int64_t>(i) % c.layout.columns;
    refuse("{}: '{}' holds {} at {}. Expected finite numbers; move or remake the file", path, c.layout.targets,
           values[i], hdf5::to_string(c.layout.many ? hdf5::Dims{row, column} : hdf5::Dims{column}));
  }
}

/// All bytes of a file but the elements of its two datasets. A file of the same size with the same such bytes has the
/// same structure, which can so be found without HDF5: many small files, written by one program, open several times
/// faster and in parallel.
class Structure {
 public:
  static std::optional<Structure> of(const Content& c) {
    if (c.volume.raw_offset < 0 || c.targets.raw_offset < 0 || c.targets.type != hdf5::Type::f32) return {};
    if (c.volume.file != c.file.path || c.targets.file != c.file.path) return {};
    const RawFile file(c.file.path);
    Structure s;
    s.size_ = file.size();
    s.targets_offset_ = c.targets.raw_offset;
    const std::int64_t element = c.volume.type == hdf5::Type::i16 || c.volume.type == hdf5::Type::u16 ? 2 : 4;
    if (element == 4 && c.volume.type != hdf5::Type::f32) return {};
    std::pair<std::int64_t, std::int64_t> data[2] = {
        {c.volume.raw_offset, c.volume.raw_offset + c.volume.elements() * element},
        {c.targets.raw_offset, c.targets.raw_offset + c.targets.elements() * 4}};
    std::sort(std::begin(data), std::end(data));
    s.gaps_ = {{0, data[0].first, {}}, {data[0].second, data[1].first, {}}, {data[1].second, s.size_, {}}};
    std::int64_t total = 0;
    for (const Gap& g : s.gaps_) {
      if (g.begin > g.end) return {};
      total += g.end - g.begin;
    }
    if (total > max_metadata_bytes) return {};
    for (Gap& g : s.gaps_) g.bytes = s.read_gap(file, g);
    return s;
  }

  bool matches(const RawFile& file) const {
    return file.size() == size_ &&
           std::all_of(gaps_.begin(), gaps_.end(), [&](const Gap& g) { return read_gap(file, g) == g.bytes; });
  }
  void read_targets(const RawFile& file, std::vector<float>& values) const {
    file.read(values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)), targets_offset_);
  }

 private:
  struct Gap {
    std::int64_t begin, end;
    std::string bytes;
  };
  static std::string read_gap(const RawFile& file, const Gap& g) {
    std::string bytes(static_cast<std::size_t>(g.end - g.begin), '\0');
    file.read(bytes.data(), g.end - g.begin, g.begin);
    return bytes;
  }
  std::int64_t size_ = 0, targets_offset_ = 0;
  std::vector<Gap> gaps_;
};

struct Checked {
  UniverseFile file;
  std::int64_t bytes = 0;  ///< of the file
  std::vector<float> targets;
};

Checked check_one(const std::string& path, const std::string& folder, const Content& first,
                  const std::optional<Structure>& structure) {
  if (structure) {
    const RawFile raw(path);
    if (structure->matches(raw)) {
      Checked same{first.file, raw.size(), std::vector<float>(static_cast<std::size_t>(first.targets.elements()))};
      same.file.path = same.file.raw_path = path;
      structure->read_targets(raw, same.targets);
      require_finite(same.targets, first, path);
      return same;
    }
  }
  const auto file = hdf5::File::open(path, folder);
  const Content c = inspect(file);
  require_same(first, c);
  require_same_scaling(first, c);
  Checked checked{c.file, RawFile(path).size(), file.read<float>(c.layout.targets)};
  require_finite(checked.targets, c, path);
  return checked;
}

}  // namespace

UniverseFiles check_universe_files(const std::vector<std::string>& paths, const std::string& folder) {
  KEELSON_EXPECT(!paths.empty());
  const Content first = inspect(hdf5::File::open(paths[0], folder));
  const auto structure = Structure::of(first);
  std::vector<Checked> checked(paths.size());

  // Indices are handed out in order, so when one fails all before it are done or under way: the lowest failure is the
  // first file's.
  std::atomic<std::size_t> next = 0, failed = paths.size();
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < failed;) {
      try {
        checked[i] = check_one(paths[i], folder, first, structure);
      } catch (...) {
        const std::lock_guard guard(error_mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
      }
    }
  };
  // More threads than cores: the time goes into waiting for the file system.
  std::vector<std::jthread> threads;
  try {
    for (std::size_t t = 1; t < std::min<std::size_t>(8, paths.size() / 16); ++t) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  work();
  threads.clear();
  if (error) std::rethrow_exception(error);

  UniverseFiles all;
  all.layout = first.layout;
  all.parameters = first.parameters;
  all.files.reserve(paths.size());
  const auto& l = all.layout;
  Digest digest;
  digest.add(l.volume).add(l.type).add(l.many).add(l.edge).add(l.channels).add(l.columns);
  for (Checked& c : checked) {
    const auto name = std::filesystem::path(c.file.path).lexically_relative(folder);
    digest.add(name.string()).add(c.bytes).add(c.file.samples).add(c.targets);
    all.files.push_back(std::move(c.file));
    all.targets.insert(all.targets.end(), c.targets.begin(), c.targets.end());
  }
  all.digest = digest.value();
  return all;
}

}  // namespace keelson::cosmoflow::detail
