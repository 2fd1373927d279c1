#include "apps/climate/data/snapshot_dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/file_samples.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/good_samples.hpp"

namespace keelson::climate {
namespace {

void require_multiple(const SnapshotLayout& l, std::int64_t multiple, const std::string& path) {
  if (l.rows % multiple == 0 && l.columns % multiple == 0) return;
  const auto fitting = [&](std::int64_t n) { return std::max(multiple, n / multiple * multiple); };
  refuse(
      "{}: has {} x {} points (latitudes x longitudes), and the network takes multiples of {}. Choose another network, "
      "or bring the snapshots to a grid such as {} x {}",
      path, l.rows, l.columns, multiple, fitting(l.rows), fitting(l.columns));
}

}  // namespace

std::vector<std::string> find_snapshots(const std::string& path) {
  auto files = find_files(path, snapshot_forms());
  std::erase_if(files, [](const std::string& f) { return std::filesystem::path(f).filename() == "stats.h5"; });
  if (files.empty()) refuse("{}: holds statistics, but no snapshots; name the folder of the snapshots", path);
  return files;
}

struct SnapshotDataset::Impl {
  std::string path;
  SnapshotOptions options;
  std::shared_ptr<const FileList> files;
  std::shared_ptr<const FileSamples> samples;
  std::int64_t first_file = 0;  ///< decides what all others must be: the first one that is not broken
  std::vector<std::string> broken;
  SnapshotLayout layout;
  std::optional<hdf5::DatasetInfo> first;  ///< array of all channels in the first file, if that is HDF5
  std::vector<int> channels;
  SnapshotFile::Values values;
  ChannelRanges ranges;
  std::vector<Field> fields;

  SnapshotFile open(std::int64_t file) const;
  void open_first(std::int64_t file);
  void open_all(Communicator* world);
  void choose_channels(const std::string& file);
};

/// Opens a file and checks that it fits the first one.
SnapshotFile SnapshotDataset::Impl::open(std::int64_t which) const {
  SnapshotFile file(files->path(which), files->folder_of(which));
  if (!(file.layout() == layout)) {
    const auto text = [](const SnapshotLayout& l) {
      return fmt::format("{} with the channels {}", to_string(l), names_of(l.channels));
    };
    refuse("{}: holds {}\n  expected: {}, as {} has it\nmove the file, or name a folder or pattern of equal files",
           file.path(), text(file.layout()), text(layout), files->path(first_file));
  }
  if (samples && file.size() != samples->size_of(which))
    refuse("{}: holds {} now. Expected {}, as when the data were opened; leave the files alone while they are in use",
           file.path(), counted(file.size(), "snapshot"), samples->size_of(which));
  if (options.needs_labels && !file.has_labels(options.labels)) {
    refuse(
        "{}: has no labels {}. {}; choose other labels, move the file, or label the snapshots with keelson-climate "
        "label --with-data",
        file.path(), options.labels, file.labels_expected(options.labels));
  }
  return file;
}

void SnapshotDataset::Impl::open_first(std::int64_t which) {
  const SnapshotFile file(files->path(which), files->folder_of(which));
  layout = file.layout();
  first = file.data();
  require_multiple(layout, options.multiple, file.path());
  choose_channels(file.path());
}

void SnapshotDataset::Impl::open_all(Communicator* world) {
  on_each_rank(world, [&] {
    first_file = find_good_file(files->size(), options.skip_broken, [&](std::int64_t i) { open_first(i); });
  });
  std::vector<std::string> of_rank;
  samples = std::make_shared<const FileSamples>(files->size(), world, [&](std::int64_t i) -> std::int64_t {
    try {
      return open(i).size();
    } catch (const InputError& e) {
      if (options.skip_broken == 0) throw;
      of_rank.emplace_back(e.what());
      return 0;
    }
  });
  if (options.skip_broken > 0) add_broken_files(broken, of_rank, options.skip_broken, world);
  if (samples->size() == 0) refuse("{}: holds no snapshots: the arrays have no time. Expected at least one", path);
}

void SnapshotDataset::Impl::choose_channels(const std::string& file) {
  values = {};
  channels = options.channels;
  if (channels.empty()) {
    channels.resize(kChannels);
    std::iota(channels.begin(), channels.end(), 0);
  }
  std::vector<int> missing;
  for (const int c : channels) {
    if (c < 0 || c >= kChannels) refuse("channel {}: expected numbers from 0 to {}", c, kChannels - 1);
    const auto at = std::ranges::find(layout.channels, c);
    if (at == layout.channels.end())
      missing.push_back(c);
    else
      values.positions.push_back(at - layout.channels.begin());
  }
  if (!missing.empty()) {
    refuse("{}: lacks the channels {}. It holds {}: choose among these ({})", file, names_of(missing),
           names_of(layout.channels), fmt::join(layout.channels, ","));
  }
  values.shift.assign(channels.size(), 0);
  values.scale.assign(channels.size(), 1);
}

SnapshotDataset::SnapshotDataset(const std::string& path, const SnapshotOptions& options, Communicator* world)
    : impl_(new Impl{path, options, std::make_shared<const FileList>(path, world, find_snapshots, options.copies)}) {
  KEELSON_EXPECT(options.multiple > 0);
  impl_->open_all(world);
  const auto& l = impl_->layout;
  impl_->fields = {{"x", {static_cast<std::int64_t>(impl_->channels.size()), l.rows, l.columns}},
                   {"y", {l.rows, l.columns}, DType::s32}};
}

SnapshotDataset::SnapshotDataset(const SnapshotDataset& opened, const ChannelRanges& ranges, const std::string& source)
    : impl_(new Impl(*opened.impl_)) {
  normalise(ranges, source);
}

SnapshotDataset::~SnapshotDataset() = default;

void SnapshotDataset::normalise(const ChannelRanges& ranges, const std::string& source) {
  auto& d = *impl_;
  KEELSON_EXPECT(d.ranges.empty());
  const auto chosen = d.channels.size(), stored = d.layout.channels.size();
  if (ranges.chosen ? ranges.size() != chosen : ranges.size() != kChannels && ranges.size() != stored) {
    const auto more = ranges.chosen || stored == kChannels ? "" : fmt::format(" or {}", stored);
    refuse(
        "{}: has statistics of {} channels. Expected {}{}, as {} has; name the statistics of these data, or leave them "
        "out: then they are computed from the training data",
        source, ranges.size(), ranges.chosen ? chosen : std::size_t{kChannels}, more, d.path);
  }
  d.ranges = {.chosen = true};
  for (std::size_t k = 0; k < chosen; ++k) {
    const auto c = ranges.chosen                ? k
                   : ranges.size() == kChannels ? static_cast<std::size_t>(d.channels[k])
                                                : static_cast<std::size_t>(d.values.positions[k]);
    const float least = ranges.least[c], most = ranges.most[c];
    d.ranges.least.push_back(least);
    d.ranges.most.push_back(most);
    d.values.shift[k] = least;
    d.values.scale[k] = most > least ? 1 / (most - least) : 1;  // a channel that does not vary becomes 0
  }
}

std::int64_t SnapshotDataset::size() const { return impl_->samples->size(); }
const std::vector<Field>& SnapshotDataset::fields() const { return impl_->fields; }

void SnapshotDataset::read(std::int64_t index, void* const* dst) const {
  const auto [which, snapshot] = impl_->samples->locate(index);
  const auto file = impl_->open(which);
  file.read_data(impl_->values, snapshot, file.layout().all_rows(), static_cast<float*>(dst[0]));
  file.read_labels(impl_->options.labels, snapshot, file.layout().all_rows(), static_cast<std::int32_t*>(dst[1]));
}

void SnapshotDataset::read_sample(const SampleRequest& request, void* const* dst) const {
  const auto& rows = request.rows;
  if (request.transform || rows.empty()) return Dataset::read_sample(request, dst);
  const auto place = impl_->samples->locate(request.id.index);
  const auto file = impl_->open(place.file);
  const Rows all = file.layout().all_rows();
  // Rows beyond the edges become zeros.
  const auto read = [&](std::size_t field, auto* to, const auto& read_inside) {
    const Rows wanted = rows[field].value_or(all), inside = wanted.common(all);
    const std::int64_t row = impl_->fields[field].shape.elements() / all.size();
    std::fill_n(to, wanted.size() * row, 0);
    if (!inside.empty()) read_inside(inside, to + (inside.begin - wanted.begin) * row);
  };
  read(0, static_cast<float*>(dst[0]),
       [&](const Rows& inside, float* to) { file.read_data(impl_->values, place.sample, inside, to); });
  read(1, static_cast<std::int32_t*>(dst[1]), [&](const Rows& inside, std::int32_t* to) {
    file.read_labels(impl_->options.labels, place.sample, inside, to);
  });
}

void SnapshotDataset::read_data(std::int64_t index, float* dst) const {
  const auto [which, snapshot] = impl_->samples->locate(index);
  const auto file = impl_->open(which);
  file.read_data(impl_->values, snapshot, file.layout().all_rows(), dst);
}

void SnapshotDataset::read_all_channels(std::int64_t index, float* dst) const {
  const auto [which, snapshot] = impl_->samples->locate(index);
  const auto file = impl_->open(which);
  SnapshotFile::Values values{{}, std::vector<float>(kChannels, 0), std::vector<float>(kChannels, 1)};
  for (int c = 0; c < kChannels; ++c) {
    const auto at = std::ranges::find(file.layout().channels, c);
    KEELSON_EXPECT(at != file.layout().channels.end());
    values.positions.push_back(at - file.layout().channels.begin());
  }
  file.read_data(values, snapshot, file.layout().all_rows(), dst);
}

void SnapshotDataset::read_labels(std::int64_t index, std::int32_t* dst) const {
  const auto [which, snapshot] = impl_->samples->locate(index);
  const auto file = impl_->open(which);
  file.read_labels(impl_->options.labels, snapshot, file.layout().all_rows(), dst);
}

bool SnapshotDataset::has_labels(std::int64_t index) const {
  return impl_->open(impl_->samples->locate(index).file).has_labels(impl_->options.labels);
}

std::string SnapshotDataset::describe() const {
  const auto& d = *impl_;
  return fmt::format("{} of {}{} under {}", counted(size(), "snapshot"), to_string(d.fields[0].shape),
                     d.options.needs_labels ? fmt::format(" with labels {}", d.options.labels) : "", d.path);
}

std::optional<ReadCost> SnapshotDataset::read_cost() const {
  if (!impl_->first) return std::nullopt;
  return cost_of_samples(impl_->path, *impl_->first, impl_->first->shape);
}

std::uint64_t SnapshotDataset::digest() const {
  const auto& d = *impl_;
  Digest digest;
  digest.add(d.files->digest())
      .add(d.samples->digest())
      .add(d.layout.rows)
      .add(d.layout.columns)
      .add(d.layout.channels_last);
  digest.add(d.layout.channels).add(d.channels).add(d.options.labels).add(d.ranges.least).add(d.ranges.most);
  return digest.value();
}

const SnapshotLayout& SnapshotDataset::layout() const { return impl_->layout; }
const std::vector<int>& SnapshotDataset::channels() const { return impl_->channels; }
const ChannelRanges& SnapshotDataset::ranges() const { return impl_->ranges; }
const std::vector<std::string>& SnapshotDataset::broken_files() const { return impl_->broken; }
std::int64_t SnapshotDataset::file_number_of(std::int64_t index) const { return impl_->samples->locate(index).file; }
std::string SnapshotDataset::file_of(std::int64_t index) const {
  return impl_->files->path(impl_->samples->locate(index).file);
}
std::int64_t SnapshotDataset::row_of(std::int64_t index) const { return impl_->samples->locate(index).sample; }

std::string SnapshotDataset::name_of(std::int64_t index) const {
  const auto [file, snapshot] = impl_->samples->locate(index);
  std::string name = impl_->files->name(file);
  const bool has_several = impl_->samples->size_of(file) > 1;
  if (!has_several && !netcdf_form().has_name(name) && !numpy_form().has_name(name)) return name;
  const auto stem = std::filesystem::path(name).replace_extension().string();
  return has_several ? fmt::format("{}-{:04}.h5", stem, snapshot) : stem + ".h5";
}

}  // namespace keelson::climate
