#include "apps/climate/weather/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>

#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::climate {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;                          // increase it when the same options give other numbers than before
constexpr std::int64_t kMaxSnapshots = 10'000'000;  // snapshots of a split: names have seven digits
constexpr double kMostObjects = 100;                // objects of one kind in a snapshot, on average

std::string name_of(std::int64_t index) { return fmt::format("data-{:07d}.h5", index); }

/// The inverse of name_of(): the index of the snapshot with this file name.
std::optional<std::int64_t> index_of(const std::string& name) {
  const std::string digits = name.substr(std::min<std::size_t>(5, name.size()), 7);
  if (digits.size() != 7 || !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return {};
  const std::int64_t index = std::stoll(digits);
  return name == name_of(index) ? std::optional(index) : std::nullopt;
}

std::vector<std::string> channel_names() { return {kChannelNames.begin(), kChannelNames.end()}; }

template <class Range>
auto list(const Range& values) {
  return std::vector(values.begin(), values.end());
}

/// The options that determine the contents of all files.
std::string settings(const GenerateOptions& o) {
  return fmt::format("format {}; seed {}; {} x {} points; {} cyclones, {} rivers on average; noise {}", kFormat, o.seed,
                     o.grid.rows, o.grid.columns, o.rates.cyclones, o.rates.rivers, o.noise);
}

[[noreturn]] void refuse_contents(const fs::path& path, const std::string& found, const std::string& expected) {
  refuse(
      "{} exists with other contents\n  found:    {}\n  expected: {}\nchoose another --out, or replace with "
      "--overwrite",
      path.string(), found, expected);
}

/// Writes rows of mean, largest, smallest, standard deviation.
void write_data_statistics(hdf5::File& file, const ChannelStatistics& s) {
  std::vector<float> table;
  for (const auto* row : {&s.mean, &s.most, &s.least, &s.deviation})
    table.insert(table.end(), row->begin(), row->end());
  file.write("climate/data_stats", table.data(), {4, kChannels});
}

/// Writes mean, largest, smallest, standard deviation, and the shares of background, cyclones and rivers.
void write_label_statistics(hdf5::File& file, const std::array<std::int64_t, kClasses>& pixels, double points) {
  double mean = 0, square = 0, least = kClasses, most = 0;
  for (int k = 0; k < kClasses; ++k) {
    const double share = static_cast<double>(pixels[k]) / points;
    mean += k * share;
    square += k * k * share;
    if (pixels[k] > 0) {
      least = std::min<double>(least, k);
      most = k;
    }
  }
  std::vector<float> column;
  for (const double x : {mean, most, least, std::sqrt(std::max(0.0, square - mean * mean))})
    column.push_back(static_cast<float>(x));
  for (const std::int64_t n : pixels) column.push_back(static_cast<float>(static_cast<double>(n) / points));
  file.write("climate/labels_0_stats", column.data(), {4 + kClasses, 1});
}

}  // namespace

void check(const GenerateOptions& o) {
  check(o.grid);
  std::int64_t all = 0;
  for (int s = 0; s < 3; ++s) {
    if (o.snapshots[s] < 0 || o.snapshots[s] > kMaxSnapshots)
      refuse("--{} {}: expected a number of snapshots from 0 to {}", kSplits[s], o.snapshots[s], kMaxSnapshots);
    all += o.snapshots[s];
  }
  if (all == 0)
    refuse("no snapshots to make: give a number of training, validation or test snapshots, for example --train 100");
  const auto check_rate = [](const char* name, double rate) {
    if (!(rate >= 0 && rate <= kMostObjects))
      refuse("--{} {}: expected 0 to {} per snapshot on average", name, rate, kMostObjects);
  };
  check_rate("cyclones", o.rates.cyclones);
  check_rate("rivers", o.rates.rivers);
  if (!(o.noise >= 0 && o.noise <= 1))
    refuse("--noise {}: expected 0 to 1 standard deviations of each channel", o.noise);
}

SnapshotKey key_of(std::uint64_t seed, int split, std::int64_t index) {
  return {seed, static_cast<std::uint64_t>(split) << 48 | static_cast<std::uint64_t>(index)};
}

Generator::Generator(const GenerateOptions& options, Communicator& world, int threads)
    : options_((check(options), options)), world_(world), threads_(threads) {}

fs::path Generator::path(const File& file) const {
  return options_.directory / kSplits[file.split] / name_of(file.index);
}

std::string Generator::configuration(const File& file) const {
  return fmt::format("{} snapshot {}; {}", kSplits[file.split], file.index, settings(options_));
}

void Generator::check_statistics() const {
  const fs::path path = options_.directory / "stats.h5";
  if (options_.overwrite || !fs::exists(path)) return;
  std::string found;
  try {
    found = hdf5::File::open(path.string()).text_attribute("/", "configuration");
  } catch (const InputError& e) {
    found = e.what();
  }
  if (!found.ends_with(settings(options_))) refuse_contents(path, found, settings(options_));
}

void Generator::make_folders() {
  check_statistics();
  for (int split = 0; split < 3; ++split) {
    const fs::path folder = options_.directory / kSplits[split];
    if (options_.snapshots[split] > 0) {
      std::error_code error;
      fs::create_directories(folder, error);
      if (error || !fs::is_directory(folder)) {
        refuse("cannot create the output directory {}: {}; choose an --out that can be written", folder.string(),
               error ? error.message() : "there is a file of that name");
      }
      remove_temporaries(folder);
    }
    check_others(split);
  }
}

/// A training program reads all files in a folder, so other files are refused. With --overwrite, files that this
/// generator may have made are removed.
void Generator::check_others(int split) {
  const fs::path folder = options_.directory / kSplits[split];
  if (!fs::is_directory(folder)) return;
  std::set<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".h5" || name.starts_with('.')) continue;
    const auto index = index_of(name);
    if (index && *index < options_.snapshots[split])
      ++present_[split];
    else if (index && options_.overwrite)
      fs::remove(entry.path());
    else
      others.insert(entry.path());
  }
  if (others.empty()) return;
  refuse("{} holds {} ({}{}) besides the {} to make; choose another --out, or remove {}{}", folder.string(),
         counted(static_cast<std::int64_t>(others.size()), "other file"), others.begin()->filename().string(),
         others.size() == 1 ? "" : " and more", counted(options_.snapshots[split], "snapshot"),
         others.size() == 1 ? "it" : "them",
         options_.overwrite ? "" : " (--overwrite removes files named data-<number>.h5)");
}

void Generator::count(const File& file, const ChannelSums& sums, const std::array<std::int64_t, kClasses>& pixels) {
  if (file.split == 0) training_.add(sums, pixels);
}

/// Whether the file exists, is complete and has this configuration. If so, its snapshot is added to the statistics.
bool Generator::is_complete(const File& file) {
  const fs::path path = this->path(file);
  if (present_[file.split] == 0 || !fs::exists(path)) return false;
  const std::string expected = configuration(file);
  std::string found;
  try {
    const auto f = hdf5::File::open(path.string());
    found = f.text_attribute("/", "configuration");
    if (found == expected) {
      ChannelSums sums;
      std::array<std::int64_t, kClasses> pixels;
      const auto copy = [](const auto& from, std::size_t first, auto& to) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first), to.size(), to.begin());
      };
      const auto table = f.read<float>("climate/data_stats");
      const auto sum = f.numbers_attribute<double>("/", "channel_sums");
      const auto squares = f.numbers_attribute<double>("/", "channel_square_sums");
      const auto counts = f.numbers_attribute<std::int64_t>("/", "class_pixels");
      if (table.size() != 4 * kChannels || sum.size() != kChannels || squares.size() != kChannels ||
          counts.size() != kClasses)
        refuse("{}: statistics of another number of channels or classes", path.string());
      copy(table, kChannels, sums.most);
      copy(table, 2 * kChannels, sums.least);
      copy(sum, 0, sums.sum);
      copy(squares, 0, sums.squares);
      copy(counts, 0, pixels);
      count(file, sums, pixels);
      return true;
    }
  } catch (const InputError& e) {
    found = e.what();
  }
  if (!options_.overwrite) refuse_contents(path, found, expected);
  return false;
}

void Generator::survey() {
  for (int split = 0; split < 3; ++split) {
    for (std::int64_t i = world_.rank(); i < options_.snapshots[split]; i += world_.size()) {
      if (is_complete({split, i}))
        ++found_;
      else
        missing_.push_back({split, i});
    }
  }
}

void Generator::check_space() const {
  std::int64_t missing = 0;
  for (int split = 0; split < 3; ++split) missing += options_.snapshots[split] - present_[split];
  const double needed =
      static_cast<double>(missing) * (static_cast<double>(options_.grid.points()) * 4 * (kChannels + 1) + 65536);
  std::error_code error;
  const auto space = fs::space(options_.directory, error);
  if (error || needed <= static_cast<double>(space.available)) return;
  refuse(
      "{} of {} x {} points need {:.1f} GB, but {} has {:.1f} GB free; make fewer snapshots or a smaller grid, or "
      "choose another --out",
      counted(missing, "snapshot"), options_.grid.rows, options_.grid.columns, needed * 1e-9,
      options_.directory.string(), static_cast<double>(space.available) * 1e-9);
}

void Generator::prepare() {
  on_first_rank(&world_, [&] {
    make_folders();
    check_space();
  });
  world_.broadcast(present_.data(), sizeof present_, 0);
  on_each_rank(&world_, [&] { survey(); });
  auto missing = static_cast<std::int64_t>(missing_.size());
  world_.allreduce(&missing, 1, Reduction::sum);
  on_first_rank(&world_, [&] {  // no reader may take the statistics for complete before all files exist
    if (missing > 0) fs::remove(options_.directory / "stats.h5");
  });
}

void Generator::write(const File& file, const Snapshot& s) const {
  AtomicFile target(path(file), Target::hdf5);
  auto f = hdf5::File::create(target.temporary().string());
  const std::int64_t rows = s.grid.rows, columns = s.grid.columns;
  f.write("climate/data", s.data.data(), {rows, columns, kChannels});
  f.write("climate/labels_0", s.labels.data(), {rows, columns});
  write_data_statistics(f, channel_statistics(s.sums, rows * columns));
  write_label_statistics(f, s.pixels, static_cast<double>(rows * columns));
  f.set_attribute("/", "channel_names", channel_names());
  f.set_attribute("/", "seed", fmt::to_string(options_.seed));  // text: HDF5 readers differ on unsigned 64-bit numbers
  f.set_attribute("/", "split", kSplits[file.split]);
  f.set_attribute("/", "snapshot", file.index);
  f.set_attribute("/", "cyclones", s.cyclones);
  f.set_attribute("/", "rivers", s.rivers);
  f.set_attribute("/", "channel_sums", list(s.sums.sum));
  f.set_attribute("/", "channel_square_sums", list(s.sums.squares));
  f.set_attribute("/", "class_pixels", list(s.pixels));
  f.set_attribute("/", "configuration", configuration(file));
  f.close();
  target.commit();
}

void Generator::make(const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Snapshot snapshot;
  for (const File& file : missing_) {
    const SnapshotKey key = key_of(options_.seed, file.split, file.index);
    make_snapshot(Weather(options_.grid, key, options_.rates), key, options_.noise, threads_, snapshot);
    write(file, snapshot);
    count(file, snapshot.sums, snapshot.pixels);
    progress(++written_, static_cast<std::int64_t>(missing_.size()));
  }
}

Statistics Generator::write_statistics() {
  const Statistics s = training_.reduce(world_);
  on_first_rank(&world_, [&] {
    if (s.snapshots > 0)
      climate::write_statistics(options_.directory / "stats.h5", s,
                                fmt::format("{} training snapshots; {}", s.snapshots, settings(options_)));
  });
  return s;
}

}  // namespace keelson::climate
