#include "apps/cosmoflow/data/universe_dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "apps/cosmoflow/data/detail/decode.hpp"
#include "apps/cosmoflow/data/detail/universe_files.hpp"
#include "apps/cosmoflow/data/symmetry.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/data/coded_voxels.hpp"
#include "engine/data/files/find_files.hpp"

namespace keelson::cosmoflow {

namespace {

/// Least bytes that a thread reads at once; small enough to stay in a cache until they are decoded.
constexpr std::int64_t read_bytes = 1 << 20;
constexpr std::int64_t least_planes = 8;  ///< edge of the decoder's tiles

/// One cube of a volume of a file.
struct CubeLocation {
  std::int64_t file = 0, sample_of_file = 0, row = 0;  ///< row of the targets
  std::array<std::int64_t, 3> corner{};                ///< first voxel, in the volume
};

/// Whether samples are left as they are, or turned, which is done while they are decoded.
bool knows(const SampleTransform* transform) {
  return !transform || dynamic_cast<const RandomCubeSymmetry*>(transform) != nullptr;
}

/// By which the transform turns the sample; 0 for other transforms, and for none.
int symmetry_of(const SampleId& id, const SampleTransform* transform) {
  const auto* turn = dynamic_cast<const RandomCubeSymmetry*>(transform);
  return turn ? turn->draw(id) : 0;
}

std::vector<int> chosen(const std::vector<int>& wanted, std::int64_t available, const char* what, const char* option,
                        const std::string& path) {
  std::vector<int> all(static_cast<std::size_t>(available));
  std::iota(all.begin(), all.end(), 0);
  for (int i : wanted) {
    if (i < 0 || i >= available) {
      refuse("{}: has {} {}. Expected {} of 0 ... {}, found {}", path, available, what, option, available - 1, i);
    }
  }
  return wanted.empty() ? all : wanted;
}

std::int64_t chosen_size(std::int64_t wanted, const detail::UniverseLayout& layout, const std::string& path) {
  const std::int64_t stored = layout.edge;
  if (wanted == 0) return layout.volume == "full" && stored % 128 == 0 ? 128 : stored;
  if (wanted < 0 || stored % wanted != 0) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 8; d <= stored; ++d)
      if (stored % d == 0) divisors.push_back(d);
    refuse("{}: '{}' has the edge {}, which cubes of {} do not fill. Try a size of {}", path, layout.volume, stored,
           wanted, divisors.empty() ? std::to_string(stored) : fmt::format("{}", fmt::join(divisors, ", ")));
  }
  return wanted;
}

}  // namespace

struct UniverseDataset::Impl {
  Impl(std::string path_, std::shared_ptr<const detail::UniverseFiles> files_, const UniverseOptions& options_);

  std::string path;
  std::shared_ptr<const detail::UniverseFiles> files;
  UniverseOptions options;
  std::int64_t edge = 0, cubes_per_edge = 1;
  std::vector<int> channels;
  std::vector<UniverseParameter> parameters;
  std::vector<Field> fields;
  std::optional<CodedVoxels> codes;  ///< of x, if the files hold integers

  void prepare_targets();
  CubeLocation locate(std::int64_t index) const;
  // `stored`: the voxels of the cube (Dataset::read_stored); null: they are read from the file.
  void read_x(const CubeLocation& cube, int symmetry, const std::byte* stored, float* dst) const;
  void read_x_rows(const CubeLocation& cube, int symmetry, const Rows& rows, const std::byte* stored, float* dst) const;
  /// Returns the divisor of the values.
  float read_codes(const CubeLocation& cube, const std::byte* stored, void* dst) const;
  void read_stored(const CubeLocation& cube, std::byte* dst) const;
  bool reads_rows(const SampleRequest& request) const;
  void read_y(const CubeLocation& cube, float* dst) const;
  void read_sample(const SampleRequest& request, const std::byte* stored, void* const* dst) const;
  template <class Read>
  void with_file(const CubeLocation& cube, const Read& read) const;
  Rows all_planes() const { return {0, edge}; }
  detail::VoxelBox box_of(const CubeLocation& cube, const Rows& planes) const {
    return {cube.sample_of_file, {cube.corner[0] + planes.begin, cube.corner[1], cube.corner[2]}, planes.size(), edge};
  }
  /// Whether caches keep the voxels as stored; else the decoded fields.
  bool keeps_voxels() const {
    return detail::has_codes(files->layout().type) || files->layout().type == hdf5::Type::f32;
  }
  std::int64_t plane_bytes() const {
    return edge * edge * files->layout().channels * detail::element_bytes(files->layout().type);
  }
  template <class Visit>
  void visit_voxels(const CubeLocation& cube, const Rows& planes, const std::byte* stored, void* room,
                    const Visit& visit) const;
  template <class Target, class Visit>
  void read_planes(const detail::OpenUniverse& file, const CubeLocation& cube, const Rows& planes, const Target& target,
                   const Visit& visit) const;
  void decode(const detail::Voxels& voxels, std::int64_t first_plane, const CubeLocation& cube, const VoxelMap& map,
              float* dst) const;
  float divisor(const CubeLocation& cube, double sum) const;
  [[noreturn]] void refuse_value(const detail::Voxels& voxels, std::int64_t first_plane,
                                 const CubeLocation& cube) const;
};

UniverseDataset::Impl::Impl(std::string path_, std::shared_ptr<const detail::UniverseFiles> files_,
                            const UniverseOptions& options_)
    : path(std::move(path_)), files(std::move(files_)), options(options_) {
  const auto& layout = files->layout();
  const auto first = files->first_path();
  edge = chosen_size(options.size, layout, first);
  cubes_per_edge = layout.edge / edge;
  channels = chosen(options.channels, layout.channels, "channels", "channels", first);
  options.targets = chosen(options.targets, layout.columns, "targets", "targets", first);
  prepare_targets();
  fields = {{"x", {static_cast<std::int64_t>(channels.size()), edge, edge, edge}},
            {"y", {static_cast<std::int64_t>(options.targets.size())}}};
  if (detail::has_codes(layout.type))
    codes.emplace(0, fields[0].shape,
                  CodedVoxels::Codes{.stored_channels = layout.channels,
                                     .channels = {channels.begin(), channels.end()},
                                     .table = detail::table_of_codes(layout.type, options.normalisation)});
}

UniverseDataset::UniverseDataset(const std::string& path, const UniverseOptions& options, Communicator* communicator)
    : impl_(new Impl(
          path, std::make_shared<const detail::UniverseFiles>(path, options.skip_broken, options.copies, communicator),
          options)) {}

UniverseDataset::UniverseDataset(const UniverseDataset& opened, const UniverseOptions& options)
    : impl_(new Impl(opened.impl_->path, opened.impl_->files, options)) {}

UniverseDataset::~UniverseDataset() = default;

void UniverseDataset::Impl::prepare_targets() {
  const auto columns = options.targets.size();
  const auto require_one_per_target = [&](const std::vector<float>& values, const char* what) {
    if (values.empty() || values.size() == columns) return;
    refuse("{} values were given for {}. Expected {}, one per target", values.size(), what, columns);
  };
  require_one_per_target(options.target_mean, "the targets' mean");
  require_one_per_target(options.target_std, "the targets' standard deviation");
  for (float s : options.target_std)
    if (!(s > 0) || !std::isfinite(s)) refuse("A target's standard deviation is {}. Expected a positive number", s);
  for (int c : options.targets) {
    parameters.push_back(files->parameters()[static_cast<std::size_t>(c)]);
    if (options.physical_targets && !parameters.back().has_range) {
      refuse(
          "{}: lacks the attributes parameter_minimum and parameter_maximum. Expected them, to bring the targets back "
          "to physical units: add them (docs/file-formats.md shows how), or train a network that takes the targets as "
          "stored",
          files->first_path());
    }
  }
}

CubeLocation UniverseDataset::Impl::locate(std::int64_t index) const {
  const std::int64_t n = cubes_per_edge, cubes = n * n * n;
  if (index < 0 || index >= files->rows() * cubes)
    fail("internal error: sample {} of {}", index, files->rows() * cubes);
  CubeLocation p;
  p.row = index / cubes;
  const auto in_files = files->locate(p.row);
  p.file = in_files.file;
  p.sample_of_file = in_files.sample;
  const std::int64_t cube = index % cubes;
  p.corner = {cube / (n * n) * edge, cube / n % n * edge, cube % n * edge};
  return p;
}

void UniverseDataset::Impl::read_y(const CubeLocation& cube, float* dst) const {
  const float* stored = files->targets(cube.row);
  for (std::size_t i = 0; i < options.targets.size(); ++i) {
    double v = stored[options.targets[i]];
    const UniverseParameter& p = parameters[i];
    if (options.physical_targets) v = p.minimum + (v + 1) / 2 * (p.maximum - p.minimum);
    if (!options.target_mean.empty()) v -= options.target_mean[i];
    if (!options.target_std.empty()) v /= options.target_std[i];
    dst[i] = static_cast<float>(v);
  }
}

template <class Read>
void UniverseDataset::Impl::with_file(const CubeLocation& cube, const Read& read) const {
  const auto file = files->open(cube.file);
  try {
    read(*file);
  } catch (...) {
    files->close(cube.file);  // the file may have been replaced
    throw;
  }
}

/// Calls visit(voxels, first plane) for a few planes of the cube at a time, in order, while they are in a cache.
/// `room`: null, or memory for the whole cube, where the voxels may be left.
template <class Visit>
void UniverseDataset::Impl::visit_voxels(const CubeLocation& cube, const Rows& planes, const std::byte* stored,
                                         void* room, const Visit& visit) const {
  const auto& layout = files->layout();
  if (stored) {
    const std::int64_t row = edge * layout.channels, some = std::max(least_planes, read_bytes / plane_bytes());
    for (std::int64_t d = planes.begin; d < planes.end; d += some)
      visit(detail::Voxels{stored + d * plane_bytes(),
                           layout.type,
                           {std::min(some, planes.end - d), edge, edge},
                           {edge * row, row, layout.channels}},
            d);
    return;
  }
  with_file(cube, [&](const detail::OpenUniverse& file) {
    if (!file.raw)
      return file.file->read(box_of(cube, planes), room,
                             [&](const detail::Voxels& v, std::int64_t d) { visit(v, planes.begin + d); });
    const bool whole = room && edge == layout.edge;
    const auto memory = [&](std::int64_t d, std::int64_t bytes) {
      return whole ? static_cast<char*>(room) + d * plane_bytes() : detail::thread_memory(bytes);
    };
    read_planes(file, cube, planes, memory, visit);
  });
}

void UniverseDataset::Impl::read_x(const CubeLocation& cube, int symmetry, const std::byte* stored, float* dst) const {
  const VoxelMap map = voxel_map(symmetry, edge, static_cast<std::int64_t>(channels.size()));
  visit_voxels(cube, all_planes(), stored, nullptr,
               [&](const detail::Voxels& v, std::int64_t d) { decode(v, d, cube, map, dst); });
  if (options.normalisation != Normalisation::mean) return;
  const std::int64_t n = fields[0].shape.elements();
  double sum[4] = {};  // counts are summed exactly, so a turned sample has the same mean
  for (std::int64_t i = 0; i < n; ++i) sum[i & 3] += dst[i];
  const float all = divisor(cube, sum[0] + sum[1] + sum[2] + sum[3]);
  for (std::int64_t i = 0; i < n; ++i) dst[i] /= all;
}

/// Whether only some planes of x are needed to read these rows.
bool UniverseDataset::Impl::reads_rows(const SampleRequest& request) const {
  if (request.rows.empty() || !request.rows[0] || request.rows[1] || !knows(request.transform)) return false;
  return options.normalisation != Normalisation::mean && symmetry_of(request.id, request.transform) < plane_symmetries;
}

/// Rows of the turned sample, by a symmetry that keeps the dimension D. Without division by the mean, which all planes
/// decide.
void UniverseDataset::Impl::read_x_rows(const CubeLocation& cube, int symmetry, const Rows& rows,
                                        const std::byte* stored, float* dst) const {
  const auto channels_of_voxel = static_cast<std::int64_t>(channels.size()), plane = edge * edge * channels_of_voxel;
  std::fill_n(dst, rows.size() * plane, 0.0f);
  const bool mirrored = cube_symmetry(symmetry).flip[0];
  const Rows planes = (mirrored ? Rows{edge - rows.end, edge - rows.begin} : rows).common(all_planes());
  if (planes.empty()) return;
  VoxelMap map = voxel_map(symmetry, edge, channels_of_voxel);
  map.offset -= rows.begin * plane;
  visit_voxels(cube, planes, stored, nullptr,
               [&](const detail::Voxels& v, std::int64_t d) { decode(v, d, cube, map, dst); });
}

float UniverseDataset::Impl::read_codes(const CubeLocation& cube, const std::byte* stored, void* dst) const {
  auto* codes = static_cast<char*>(dst);
  std::int64_t sum = 0;
  visit_voxels(cube, all_planes(), stored, dst, [&](const detail::Voxels& v, std::int64_t d) {
    const auto facts =
        detail::take_codes(v, {channels, files->layout().channels, options.normalisation}, codes + d * plane_bytes());
    if (!facts.valid) refuse_value(v, d, cube);
    sum += facts.sum;
  });
  return options.normalisation == Normalisation::mean ? divisor(cube, static_cast<double>(sum)) : 1.0f;
}

void UniverseDataset::Impl::read_stored(const CubeLocation& cube, std::byte* dst) const {
  const std::int64_t element = detail::element_bytes(files->layout().type), row = plane_bytes() / edge;
  visit_voxels(cube, all_planes(), nullptr, dst, [&](const detail::Voxels& v, std::int64_t first) {
    const auto* src = static_cast<const std::byte*>(v.src);
    std::byte* to = dst + first * plane_bytes();
    if (src == to) return;
    for (std::int64_t d = 0; d < v.extent[0]; ++d)
      for (std::int64_t h = 0; h < v.extent[1]; ++h, to += row)
        std::memcpy(to, src + (d * v.stride[0] + h * v.stride[1]) * element, static_cast<std::size_t>(row));
  });
}

/// Reads the wanted planes, a few at a time, from the first needed voxel to the last, to the memory target(first plane,
/// bytes). Calls visit(voxels, first plane) while the planes are in the cache.
template <class Target, class Visit>
void UniverseDataset::Impl::read_planes(const detail::OpenUniverse& file, const CubeLocation& cube, const Rows& wanted,
                                        const Target& target, const Visit& visit) const {
  const auto& layout = files->layout();
  const std::int64_t element = detail::element_bytes(layout.type);
  const std::int64_t row = layout.edge * layout.channels;                 // elements in the file
  const std::int64_t needed = (edge - 1) * row + edge * layout.channels;  // elements of a plane, first to last needed
  const bool whole = edge == layout.edge;
  const std::int64_t planes = std::min(edge, std::max(least_planes, read_bytes / (needed * element)));
  const auto& [d0, h0, w0] = cube.corner;
  const std::int64_t volume_offset = file.volume_offset + cube.sample_of_file * layout.volume_elements() * element;
  for (std::int64_t d = wanted.begin; d < wanted.end; d += planes) {
    const std::int64_t n = std::min(planes, wanted.end - d);
    auto* const to = static_cast<char*>(static_cast<void*>(target(d, planes * needed * element)));
    const auto offset_of = [&](std::int64_t plane) {
      return volume_offset + ((d0 + plane) * layout.edge * row + h0 * row + w0 * layout.channels) * element;
    };
    if (whole) {
      file.raw->read(to, n * needed * element, offset_of(d));
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        file.raw->read(to + i * needed * element, needed * element, offset_of(d + i));
    }
    visit(detail::Voxels{to, layout.type, {n, edge, edge}, {needed, row, layout.channels}}, d);
  }
}

void UniverseDataset::Impl::decode(const detail::Voxels& voxels, std::int64_t first_plane, const CubeLocation& cube,
                                   const VoxelMap& map, float* dst) const {
  const detail::VoxelFormat format{channels, files->layout().channels, options.normalisation};
  if (!detail::decode(voxels, format, {map.offset + first_plane * map.step[0], map.step}, dst))
    refuse_value(voxels, first_plane, cube);
}

void UniverseDataset::Impl::refuse_value(const detail::Voxels& v, std::int64_t first_plane,
                                         const CubeLocation& cube) const {
  const std::string file = files->path(cube.file);
  const bool logarithm = options.normalisation == Normalisation::log1p;
  for (std::int64_t d = 0; d < v.extent[0]; ++d)
    for (std::int64_t h = 0; h < v.extent[1]; ++h)
      for (std::int64_t w = 0; w < v.extent[2]; ++w)
        for (int c : channels) {
          const double value = detail::stored_value(v, d, h, w, c);
          const bool finite = std::isfinite(value);
          if (finite && (!logarithm || std::isfinite(detail::log1p_of(value)))) continue;
          hdf5::Dims at{cube.corner[0] + first_plane + d, cube.corner[1] + h, cube.corner[2] + w};
          if (files->layout().channel_axis) at.push_back(c);
          if (files->layout().many) at.insert(at.begin(), cube.sample_of_file);
          if (!finite) {
            refuse("{}: '{}' holds {} at {}. Expected finite numbers; move or remake the file", file,
                   files->layout().volume, value, hdf5::to_string(at));
          }
          refuse(
              "{}: '{}' holds {} at {}, which has no log(x + 1). Expected counts of 0 or more; remake the file, or "
              "choose another "
              "normalisation",
              file, files->layout().volume, value, hdf5::to_string(at));
        }
  fail("internal error: no value of {} explains what was decoded", file);
}

/// The mean of the chosen channels, of which `sum` is the sum.
float UniverseDataset::Impl::divisor(const CubeLocation& cube, double sum) const {
  const double mean = sum / static_cast<double>(fields[0].shape.elements());
  const auto value = static_cast<float>(mean);
  if (value > 0 && std::isfinite(value)) return value;
  refuse(
      "{}: '{}' has the mean {} in the cube at {}. Expected a positive one to divide by; remake the file, or choose "
      "another "
      "normalisation",
      files->path(cube.file), files->layout().volume, mean,
      hdf5::to_string(hdf5::Dims(cube.corner.begin(), cube.corner.end())));
}

std::int64_t UniverseDataset::size() const {
  const std::int64_t n = impl_->cubes_per_edge;
  return impl_->files->rows() * n * n * n;
}

const std::vector<Field>& UniverseDataset::fields() const { return impl_->fields; }

void UniverseDataset::read(std::int64_t index, void* const* dst) const { read_turned(index, 0, dst); }

/// `stored`: the voxels of the sample; null: they are read from the file.
void UniverseDataset::Impl::read_sample(const SampleRequest& request, const std::byte* stored, void* const* dst) const {
  const CubeLocation cube = locate(request.id.index);
  const int symmetry = symmetry_of(request.id, request.transform);
  auto* const y = static_cast<float*>(dst[1]);
  if (request.encoding) {
    auto sample = turned_voxels(symmetry, edge);
    sample.divisor = read_codes(cube, stored, dst[0]);
    std::memcpy(request.encoding, &sample, sizeof sample);
    return read_y(cube, y);
  }
  if (request.rows.empty())
    read_x(cube, symmetry, stored, static_cast<float*>(dst[0]));
  else
    read_x_rows(cube, symmetry, *request.rows[0], stored, static_cast<float*>(dst[0]));
  read_y(cube, y);
}

/// `stored`: as for Impl::read_sample().
void UniverseDataset::produce(const SampleRequest& request, const std::byte* stored, void* const* dst) const {
  if (request.encoding || impl_->reads_rows(request)) return impl_->read_sample(request, stored, dst);
  const bool turns = knows(request.transform);  // while it decodes
  const SampleRequest whole{.id = request.id, .transform = turns ? request.transform : nullptr};
  const auto read_whole = [&](void* const* to) {
    impl_->read_sample(whole, stored, to);
    if (!turns) request.transform->apply(request.id, fields(), to);
  };
  take_rows(request.rows, read_whole, dst);
}

void UniverseDataset::read_sample(const SampleRequest& request, void* const* dst) const {
  produce(request, nullptr, dst);
}

const FieldEncoding* UniverseDataset::encoding(const SampleTransform* transform) const {
  return knows(transform) && impl_->codes ? &*impl_->codes : nullptr;
}

void UniverseDataset::read_turned(std::int64_t index, int symmetry, void* const* dst) const {
  const CubeLocation cube = impl_->locate(index);
  impl_->read_x(cube, symmetry, nullptr, static_cast<float*>(dst[0]));
  impl_->read_y(cube, static_cast<float*>(dst[1]));
}

bool UniverseDataset::has_stored_form() const { return impl_->keeps_voxels(); }

std::int64_t UniverseDataset::stored_bytes() const {
  return impl_->keeps_voxels() ? impl_->edge * impl_->plane_bytes() : Dataset::stored_bytes();
}

void UniverseDataset::read_stored(std::int64_t index, std::byte* dst) const {
  impl_->keeps_voxels() ? impl_->read_stored(impl_->locate(index), dst) : Dataset::read_stored(index, dst);
}

void UniverseDataset::decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const {
  if (!impl_->keeps_voxels()) return Dataset::decode(request, stored, dst);
  produce(request, stored, dst);
}

std::string UniverseDataset::describe() const {
  const Impl& d = *impl_;
  const bool cut = d.cubes_per_edge > 1;
  return fmt::format("{} of {}{} with {} in {} under {}", counted(size(), "sample"), to_string(d.fields[0].shape),
                     cut ? fmt::format(" (cut from {}^3)", stored_size()) : "",
                     counted(d.options.targets.size(), "target"), counted(d.files->size(), "file"), d.path);
}

std::optional<ReadCost> UniverseDataset::read_cost() const {
  const auto& layout = impl_->files->layout();
  const hdf5::DatasetInfo& volume = impl_->files->first_volume();
  const std::int64_t edge = impl_->edge;
  hdf5::Dims sample{edge, edge, edge};
  if (layout.channel_axis) sample.push_back(layout.channels);
  if (layout.many) sample.insert(sample.begin(), 1);
  if (is_tfrecord_name(volume.file)) return std::nullopt;
  auto cost = cost_of_samples(impl_->path, volume, sample);
  // Contiguous planes are read from the first needed voxel to the last (read_planes).
  if (volume.raw_offset >= 0 && detail::is_native(layout.type))
    cost.read_bytes = static_cast<double>(edge * ((edge - 1) * layout.edge + edge) * layout.channels *
                                          detail::element_bytes(layout.type));
  return cost;
}

std::uint64_t UniverseDataset::digest() const {
  const auto& o = impl_->options;
  Digest digest;
  digest.add(impl_->files->digest()).add(impl_->edge).add(impl_->channels).add(o.normalisation);
  digest.add(o.targets).add(o.physical_targets).add(o.target_mean).add(o.target_std);
  return digest.value();
}

const std::vector<UniverseParameter>& UniverseDataset::parameters() const { return impl_->parameters; }

std::int64_t UniverseDataset::file_number_of(std::int64_t index) const { return impl_->locate(index).file; }

std::string UniverseDataset::file_of(std::int64_t index) const { return impl_->files->path(impl_->locate(index).file); }
std::int64_t UniverseDataset::row_of(std::int64_t index) const { return impl_->locate(index).sample_of_file; }

const std::vector<std::string>& UniverseDataset::broken_files() const { return impl_->files->broken(); }

bool UniverseDataset::stores_floating_point() const {
  const hdf5::Type type = impl_->files->layout().type;
  return type == hdf5::Type::f16 || type == hdf5::Type::f32 || type == hdf5::Type::f64;
}

std::vector<double> UniverseDataset::redshifts() const { return impl_->files->redshifts(); }

std::int64_t UniverseDataset::stored_size() const { return impl_->files->layout().edge; }

UniverseDataset::Memory UniverseDataset::memory() const {
  const auto& f = *impl_->files;
  return {f.rank_bytes() + std::int64_t{sizeof(Impl)}, f.shared_bytes()};
}

std::int64_t UniverseDataset::files_opened() const { return impl_->files->opened(); }

}  // namespace keelson::cosmoflow
