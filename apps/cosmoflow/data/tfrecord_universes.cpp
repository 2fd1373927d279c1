#include <algorithm>
#include <cmath>

#include "apps/cosmoflow/data/detail/universe_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/tfrecord/tf_example.hpp"
#include "engine/data/tfrecord/tfrecord.hpp"

namespace keelson::cosmoflow::detail {
namespace {

/// MLPerf HPC's records: each an example with the bytes x, int16 (D, H, W, channels) in C order, and the floats y.
class TfRecordUniverses final : public UniverseFile {
 public:
  explicit TfRecordUniverses(const std::string& path);

  const UniverseContent& content() const override { return content_; }
  std::vector<float> targets() const override { return targets_; }
  void read(const VoxelBox& box, void* dst, const Visit& visit) const override;
  std::int64_t memory() const override { return file_.memory(); }

 private:
  struct Places {
    std::int64_t volume = 0, bytes = 0;  ///< of x, in the record
    std::vector<float> targets;
  };
  Places places_in(std::int64_t record) const;
  TfExampleBytes example(std::int64_t record) const;
  void set_layout(const Places& first);

  TfRecordFile file_;
  UniverseContent content_;
  std::vector<std::int64_t> volumes_;  ///< per record: where x begins
  std::vector<float> targets_;
};

constexpr std::int64_t published_channels = 4, most_channels = 16;

/// The edge of a cube of so many voxels; 0 if there is none.
std::int64_t edge_of(std::int64_t voxels) {
  const auto edge = static_cast<std::int64_t>(std::llround(std::cbrt(static_cast<double>(voxels))));
  return edge > 0 && edge * edge * edge == voxels ? edge : 0;
}

TfRecordUniverses::TfRecordUniverses(const std::string& path) : file_(path) {
  if (file_.size() == 0) refuse("{}: holds no records. Expected universes; fetch or make the file again", path);
  for (std::int64_t i = 0; i < file_.size(); ++i) {
    const Places p = places_in(i);
    if (i == 0) set_layout(p);
    const auto wanted = content_.layout.volume_elements() * element_bytes(content_.layout.type);
    if (p.bytes != wanted || std::ssize(p.targets) != content_.layout.columns)
      refuse("{}: record {} has {} bytes in 'x' and {} numbers in 'y'. Expected {} and {}, as in the first record",
             path, i, p.bytes, p.targets.size(), wanted, content_.layout.columns);
    volumes_.push_back(p.volume);
    targets_.insert(targets_.end(), p.targets.begin(), p.targets.end());
  }
  content_.samples = file_.size();
  content_.targets.shape = {content_.samples, content_.layout.columns};
}

TfExampleBytes TfRecordUniverses::example(std::int64_t record) const {
  return {
      file_.record(record).bytes,
      [this, record](std::int64_t offset, std::int64_t bytes, void* dst) { file_.read(record, offset, bytes, dst); },
      fmt::format("{}: record {}", file_.path(), record)};
}

TfRecordUniverses::Places TfRecordUniverses::places_in(std::int64_t record) const {
  const TfExampleBytes bytes = example(record);
  Places p;
  std::string names;
  bool has_x = false, has_y = false;
  for (const TfFeature& f : parse_tf_example(bytes)) {
    names += (names.empty() ? "'" : ", '") + f.name + "'";
    if (f.name == "y") {
      p.targets = floats_of(bytes, f);
      has_y = true;
    }
    if (f.name != "x") continue;
    if (f.kind != TfFeature::Kind::bytes || f.values.size() != 1)
      refuse("{}: the feature 'x' has {} {}. Expected one string of bytes, with int16 (D, H, W, channels)", bytes.where,
             f.values.size(), to_string(f.kind));
    p.volume = f.values[0].offset;
    p.bytes = f.values[0].bytes;
    has_x = true;
  }
  if (!has_x || !has_y || p.targets.empty())
    refuse("{}: has the features {}. Expected 'x', bytes, and 'y', floats", bytes.where,
           names.empty() ? "none" : names);
  return p;
}

/// The published data have 4 channels; others have the fewest with which the voxels make a cube.
void TfRecordUniverses::set_layout(const Places& first) {
  UniverseLayout& l = content_.layout;
  l.volume = "x";
  l.targets = "y";
  l.type = hdf5::Type::i16;
  l.type_name = hdf5::to_string(l.type);
  l.many = true;
  l.channel_axis = true;
  const std::int64_t elements = first.bytes / element_bytes(l.type);
  l.channels = published_channels;
  if (elements % l.channels != 0 || edge_of(elements / l.channels) == 0)
    for (l.channels = 1; l.channels <= most_channels; ++l.channels)
      if (elements % l.channels == 0 && edge_of(elements / l.channels) > 0) break;
  l.edge = l.channels <= most_channels ? edge_of(elements / l.channels) : 0;
  if (l.edge == 0 || first.bytes % element_bytes(l.type) != 0)
    refuse(
        "{}: record 0: the feature 'x' has {} bytes. Expected a cube of int16, (D, D, D, channels), with up to {} "
        "channels",
        file_.path(), first.bytes, most_channels);
  l.columns = std::ssize(first.targets);
  content_.path = file_.path();
  content_.volume = {
      .name = "x", .shape = l.volume_shape(), .type = l.type, .type_name = l.type_name, .file = file_.path()};
  content_.targets = {
      .name = "y", .shape = {l.columns}, .type = hdf5::Type::f32, .type_name = "float32", .file = file_.path()};
  for (std::int64_t i = 0; i < l.columns; ++i) content_.parameters.push_back({.name = fmt::format("y{}", i)});
}

/// Reads the whole record, whose checksum covers all of its bytes.
void TfRecordUniverses::read(const VoxelBox& box, void* dst, const Visit& visit) const {
  constexpr std::int64_t part_bytes = 1 << 20, least_planes = 8;
  const UniverseLayout& l = content_.layout;
  const std::int64_t row = l.edge * l.channels, plane = l.edge * row, element = element_bytes(l.type);
  const std::int64_t step = std::max(least_planes, part_bytes / (plane * element));
  const Rows wanted{box.first[0], box.first[0] + box.planes};
  TfRecordFile::Reader reader(file_, box.sample);
  reader.skip_to(volumes_[static_cast<std::size_t>(box.sample)]);
  for (std::int64_t d = 0; d < l.edge; d += step) {
    const Rows planes{d, std::min(l.edge, d + step)}, take = planes.common(wanted);
    const std::int64_t bytes = planes.size() * plane * element;
    const bool stays = dst && box.edge == l.edge && take == planes;
    char* const to = stays ? static_cast<char*>(dst) + (d - wanted.begin) * plane * element : thread_memory(bytes);
    reader.read(to, bytes);
    if (take.empty()) continue;
    const std::int64_t first = (take.begin - d) * plane + box.first[1] * row + box.first[2] * l.channels;
    visit({to + first * element, l.type, {take.size(), box.edge, box.edge}, {plane, row, l.channels}},
          take.begin - wanted.begin);
  }
  reader.finish();
}

}  // namespace

std::unique_ptr<const UniverseFile> open_tfrecord_universes(const std::string& path) {
  return std::make_unique<TfRecordUniverses>(path);
}

}  // namespace keelson::cosmoflow::detail
