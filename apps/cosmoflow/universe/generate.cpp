#include "apps/cosmoflow/universe/generate.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <system_error>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::universe {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;  // increase it when the same options give other numbers than before
constexpr std::int64_t kMaxUniverses = std::int64_t{1} << 40;

std::uint64_t universe_id(Split split, std::int64_t index) {
  return static_cast<std::uint64_t>(split) << 48 | static_cast<std::uint64_t>(index);
}

/// All options that determine the content of a file, except for the number of its samples.
std::string configuration(const GenerateOptions& o, Split split, std::int64_t first) {
  const Prior& p = o.prior;
  return fmt::format(
      "format {}; {} universes {} from {}; seed {}; prior {} [{}] to [{}], Omega_b {}; box {} Mpc/h at h {}; redshifts "
      "[{}]; "
      "{} cells, {} particles per side, LPT order {}; {} per file",
      kFormat, o.layout == FileLayout::kRaw ? "raw" : "sample", split_name(split), first, o.seed, p.name,
      fmt::join(p.minimum, ", "), fmt::join(p.maximum, ", "), p.omega_b, p.box_size,
      p.reference_h > 0 ? fmt::to_string(p.reference_h) : "any", fmt::join(p.redshifts, ", "), o.grid,
      o.grid * o.particles_per_cell_side, static_cast<int>(o.order), o.samples_per_file);
}

fs::path file_of(const GenerateOptions& o, Split split, std::int64_t first) {
  return o.directory / split_name(split) / fmt::format("univ_{:06d}.h5", first);
}

hdf5::Dims shape_of(const GenerateOptions& o, std::int64_t samples) {
  const std::int64_t n = o.grid;
  hdf5::Dims shape{n, n, n, static_cast<std::int64_t>(o.prior.redshifts.size())};
  if (o.samples_per_file > 1) shape.insert(shape.begin(), samples);
  return shape;
}

const char* counts_name(const GenerateOptions& o) { return o.layout == FileLayout::kRaw ? "full" : "x"; }

[[noreturn]] void refuse_contents(const fs::path& path, const std::string& found, const std::string& expected) {
  refuse(
      "{} exists with other contents\n  found:    {}\n  expected: {}\nuse another directory, or remove the old files",
      path.string(), found, expected);
}

/// True if the file exists, is complete and has this configuration; false if it must be made.
bool is_complete(const fs::path& path, const GenerateOptions& o, Split split, std::int64_t first,
                 std::int64_t samples) {
  if (!fs::exists(path)) return false;
  const std::string expected = configuration(o, split, first);
  std::string found;
  hdf5::Dims shape;
  try {
    const auto file = hdf5::File::open(path.string());
    found = file.text_attribute("/", "configuration");
    if (found == expected) shape = file.info(counts_name(o)).shape;
  } catch (const InputError& e) {
    refuse_contents(path, e.what(), expected);
  }
  if (found != expected) refuse_contents(path, found, expected);
  return shape == shape_of(o, samples);
}

template <class Range>
std::vector<typename Range::value_type> list(const Range& values) {
  return {values.begin(), values.end()};
}

std::vector<std::string> parameter_names() { return {kParameterNames.begin(), kParameterNames.end()}; }

void write_attributes(hdf5::File& file, const GenerateOptions& o, Split split, std::int64_t first) {
  file.set_attribute("/", "parameter_names", parameter_names());
  file.set_attribute("/", "parameter_minimum", list(o.prior.minimum));
  file.set_attribute("/", "parameter_maximum", list(o.prior.maximum));
  file.set_attribute("/", "redshifts", o.prior.redshifts);
  file.set_attribute("/", "seed", fmt::to_string(o.seed));  // text: HDF5 readers differ on unsigned 64-bit numbers
  file.set_attribute("/", "split", split_name(split));
  file.set_attribute("/", "first_universe", first);
  file.set_attribute("/", "omega_b", o.prior.omega_b);
  file.set_attribute("/", "particles_per_side", std::int64_t{o.grid} * o.particles_per_cell_side);
  file.set_attribute("/", "lpt_order", static_cast<std::int64_t>(o.order));
  file.set_attribute("/", "configuration", configuration(o, split, first));
}

void write_file(const fs::path& path, const GenerateOptions& o, Split split, std::int64_t first, std::int64_t samples,
                UniverseMaker& maker, Universe& universe) {
  auto file = hdf5::File::create(path.string());
  write_attributes(file, o, split, first);
  file.make_dataset<std::int16_t>(counts_name(o), shape_of(o, samples));

  const bool many = o.samples_per_file > 1;
  std::vector<float> unit;
  std::vector<double> physical, boxes;
  hdf5::Dims offset(many ? 5 : 4, 0);
  for (std::int64_t i = 0; i < samples; ++i) {
    maker.make(split, first + i, universe);
    offset[0] = i;
    file.write_box(counts_name(o), offset, shape_of(o, 1), universe.counts.data());
    unit.insert(unit.end(), universe.unit.begin(), universe.unit.end());
    physical.insert(physical.end(), universe.physical.begin(), universe.physical.end());
    boxes.push_back(universe.box_size);
  }
  const hdf5::Dims vectors = many ? hdf5::Dims{samples, kParameters} : hdf5::Dims{kParameters};
  if (o.layout == FileLayout::kRaw) {
    file.write("unitPar", unit.data(), vectors);
    file.write("physPar", physical.data(), vectors);
    file.write("redshifts", o.prior.redshifts.data(), {static_cast<std::int64_t>(o.prior.redshifts.size())});
    file.write("namePar", parameter_names());
  } else {
    file.write("y", unit.data(), vectors);
  }
  if (many) {
    file.write("physical_parameters", physical.data(), vectors);
    file.write("box_size", boxes.data(), {samples});
  } else {
    file.set_attribute("/", "physical_parameters", physical);
    file.set_attribute("/", "box_size", boxes.front());
  }
  file.close();
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    refuse("cannot create the output directory {}: {}; choose one that can be written", path.string(),
           error ? error.message() : "there is a file of that name");
  }
}

std::int64_t universes_of_rank(const GenerateOptions& o, std::int64_t first, std::int64_t last) {
  std::int64_t n = 0;
  for (std::int64_t begin = first; begin < last; begin += o.samples_per_file) {
    if (begin / o.samples_per_file % o.ranks == o.rank) n += std::min<std::int64_t>(o.samples_per_file, last - begin);
  }
  return n;
}

GenerateReport run(const GenerateOptions& o, Split split, std::int64_t first, std::int64_t last, std::int64_t total,
                   GenerateReport report, std::optional<UniverseMaker>& maker, const ProgressFunction& progress) {
  if (first < last) {
    make_directory(o.directory / split_name(split));
    remove_temporaries(o.directory / split_name(split));
  }
  Universe universe;
  for (std::int64_t begin = first; begin < last; begin += o.samples_per_file) {
    if (begin / o.samples_per_file % o.ranks != o.rank) continue;
    const std::int64_t samples = std::min<std::int64_t>(o.samples_per_file, last - begin);
    const fs::path path = file_of(o, split, begin);
    const bool complete = is_complete(path, o, split, begin, samples);
    if (!complete) {
      if (!maker) maker.emplace(o);  // its grids may be large, so it is made only if a file is missing
      AtomicFile file(path, Target::hdf5);
      write_file(file.temporary(), o, split, begin, samples, *maker, universe);
      file.commit();
    }
    (complete ? report.skipped : report.written) += samples;
    if (progress) progress({split, report.written + report.skipped, total, path, complete});
  }
  return report;
}

}  // namespace

const char* split_name(Split split) {
  constexpr const char* names[] = {"train", "validation", "test"};
  return names[static_cast<std::uint32_t>(split)];
}

void check(const GenerateOptions& o) {
  check(o.prior);
  if (o.train < 0 || o.validation < 0 || o.test < 0 || std::max({o.train, o.validation, o.test}) > kMaxUniverses) {
    refuse("{} training, {} validation and {} test universes: expected numbers from 0 to {}", o.train, o.validation,
           o.test, kMaxUniverses);
  }
  if (o.grid < 4 || o.grid > 4096) refuse("grid of {} cells per side: expected 4 to 4096", o.grid);
  if (o.particles_per_cell_side < 1 || o.particles_per_cell_side > 31) {
    refuse("{} particles per cell side: expected 1 to 31 (the mean count, its cube, must fit 16 bits)",
           o.particles_per_cell_side);
  }
  if (o.samples_per_file < 1) refuse("{} samples per file: expected at least 1", o.samples_per_file);
  if (o.layout == FileLayout::kRaw && o.samples_per_file != 1) {
    refuse("{} samples per file in the raw layout: it holds one universe per file", o.samples_per_file);
  }
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks)
    refuse("rank {} of {}: expected 0 <= rank < ranks", o.rank, o.ranks);
}

UniverseMaker::UniverseMaker(const GenerateOptions& options)
    : options_((check(options), options)),
      particles_(options.grid * options.particles_per_cell_side, options.order),
      counts_(static_cast<std::size_t>(options.grid) * options.grid * options.grid) {}

void UniverseMaker::make(Split split, std::int64_t index, Universe& u) {
  const Prior& prior = options_.prior;
  const std::uint64_t id = universe_id(split, index);
  u.physical = prior.draw(options_.seed, id);
  u.unit = prior.unit(u.physical);
  const Cosmology cosmology(prior.cosmology(u.physical));
  u.box_size = prior.box_side(cosmology.parameters().h);
  particles_.realise(cosmology, u.box_size, options_.seed, id);

  const std::size_t channels = prior.redshifts.size();
  u.counts.resize(counts_.size() * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    particles_.count(cosmology, prior.redshifts[c], options_.grid, counts_);
    const std::int32_t largest = *std::ranges::max_element(counts_);
    if (largest > std::numeric_limits<std::int16_t>::max()) {
      refuse(
          "{} universe {}: {} particles in one cell at redshift {} do not fit 16 bits; use fewer particles per cell or "
          "more cells",
          split_name(split), index, largest, prior.redshifts[c]);
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) u.counts[i * channels + c] = static_cast<std::int16_t>(counts_[i]);
  }
}

GenerateReport generate_range(const GenerateOptions& o, Split split, std::int64_t first, std::int64_t last,
                              const ProgressFunction& progress) {
  check(o);
  if (first < 0 || last < first || last > kMaxUniverses || first % o.samples_per_file != 0) {
    refuse("universes {} to {}: expected 0 <= first <= last, and first a multiple of the {} samples per file", first,
           last, o.samples_per_file);
  }
  std::optional<UniverseMaker> maker;
  return run(o, split, first, last, universes_of_rank(o, first, last), {}, maker, progress);
}

GenerateReport generate(const GenerateOptions& o, const ProgressFunction& progress) {
  check(o);
  if (o.train + o.validation + o.test == 0)
    refuse("no universes to make: give a number of training, validation or test universes");
  const std::pair<Split, std::int64_t> splits[] = {
      {Split::kTrain, o.train}, {Split::kValidation, o.validation}, {Split::kTest, o.test}};
  std::int64_t total = 0;
  for (const auto& [split, count] : splits) total += universes_of_rank(o, 0, count);
  std::optional<UniverseMaker> maker;
  GenerateReport report;
  for (const auto& [split, count] : splits) report = run(o, split, 0, count, total, report, maker, progress);
  return report;
}

}  // namespace keelson::universe
