#include "apps/cosmoflow/universe/generate.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <system_error>

#include "apps/cosmoflow/universe/hdf5_file.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;  // raise it when the same options give other numbers
constexpr std::int64_t kMaxUniverses = std::int64_t{1} << 40;

std::uint64_t universe_id(Split split, std::int64_t index) {
  return static_cast<std::uint64_t>(split) << 48 | static_cast<std::uint64_t>(index);
}

/// Everything that determines the content of a file, but for the number of its samples.
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

Hdf5File::Extents extents_of(const GenerateOptions& o, std::int64_t samples) {
  const auto n = static_cast<std::uint64_t>(o.grid);
  Hdf5File::Extents e{n, n, n, o.prior.redshifts.size()};
  if (o.samples_per_file > 1) e.insert(e.begin(), static_cast<std::uint64_t>(samples));
  return e;
}

const char* counts_name(const GenerateOptions& o) { return o.layout == FileLayout::kRaw ? "full" : "x"; }

/// True if the file is there, whole and of this configuration; false if it has to be made.
bool is_complete(const fs::path& path, const GenerateOptions& o, Split split, std::int64_t first,
                 std::int64_t samples) {
  if (!fs::exists(path)) return false;
  const auto file = Hdf5File::open(path);
  const auto found = file ? file->text_attribute("configuration") : std::nullopt;
  const std::string expected = configuration(o, split, first);
  if (found != expected) {
    refuse(
        "{} exists with other contents\n  found:    {}\n  expected: {}\nuse another directory, or remove the old files",
        path.string(), found.value_or("no universe of this program"), expected);
  }
  return file->extents(counts_name(o)) == extents_of(o, samples);
}

void write_attributes(Hdf5File& file, const GenerateOptions& o, Split split, std::int64_t first) {
  const std::vector<std::string> names(kParameterNames.begin(), kParameterNames.end());
  file.attribute("parameter_names", names);
  file.attribute("parameter_minimum", o.prior.minimum);
  file.attribute("parameter_maximum", o.prior.maximum);
  file.attribute("redshifts", o.prior.redshifts);
  file.attribute("seed", fmt::to_string(o.seed));  // text: HDF5 readers differ on unsigned 64-bit numbers
  file.attribute("split", split_name(split));
  file.attribute("first_universe", first);
  file.attribute("omega_b", o.prior.omega_b);
  file.attribute("particles_per_side", std::int64_t{o.grid} * o.particles_per_cell_side);
  file.attribute("lpt_order", static_cast<std::int64_t>(o.order));
  file.attribute("configuration", configuration(o, split, first));
}

void write_file(const fs::path& path, const GenerateOptions& o, Split split, std::int64_t first, std::int64_t samples,
                UniverseMaker& maker, Universe& universe) {
  Hdf5File file = Hdf5File::create(path);
  write_attributes(file, o, split, first);
  file.create_int16(counts_name(o), extents_of(o, samples));

  const bool many = o.samples_per_file > 1;
  std::vector<float> unit;
  std::vector<double> physical, boxes;
  for (std::int64_t i = 0; i < samples; ++i) {
    maker.make(split, first + i, universe);
    file.write_int16(counts_name(o), many ? i : -1, universe.counts);
    unit.insert(unit.end(), universe.unit.begin(), universe.unit.end());
    physical.insert(physical.end(), universe.physical.begin(), universe.physical.end());
    boxes.push_back(universe.box_size);
  }
  const auto count = static_cast<std::uint64_t>(samples);
  const Hdf5File::Extents vectors = many ? Hdf5File::Extents{count, kParameters} : Hdf5File::Extents{kParameters};
  if (o.layout == FileLayout::kRaw) {
    const std::vector<std::string> names(kParameterNames.begin(), kParameterNames.end());
    file.write("unitPar", vectors, unit);
    file.write("physPar", vectors, physical);
    file.write("redshifts", {o.prior.redshifts.size()}, o.prior.redshifts);
    file.write("namePar", names);
  } else {
    file.write("y", vectors, unit);
  }
  if (many) {
    file.write("physical_parameters", vectors, physical);
    file.write("box_size", {count}, boxes);
  } else {
    file.attribute("physical_parameters", physical);
    file.attribute("box_size", boxes.front());
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

/// Files are written as path.part: readers look for .h5, and a rerun overwrites what an interrupted one left.
void write_atomically(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  const fs::path temporary = path.string() + ".part";
  try {
    write(temporary);
    fs::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
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
  if (first < last) make_directory(o.directory / split_name(split));
  Universe universe;
  for (std::int64_t begin = first; begin < last; begin += o.samples_per_file) {
    if (begin / o.samples_per_file % o.ranks != o.rank) continue;
    const std::int64_t samples = std::min<std::int64_t>(o.samples_per_file, last - begin);
    const fs::path path = file_of(o, split, begin);
    const bool complete = is_complete(path, o, split, begin, samples);
    if (!complete) {
      if (!maker) maker.emplace(o);  // its grids may be large: not where all is done already
      write_atomically(path, [&](const fs::path& p) { write_file(p, o, split, begin, samples, *maker, universe); });
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
      fail(
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
    refuse("no universes asked for: give a number of training, validation or test universes");
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
