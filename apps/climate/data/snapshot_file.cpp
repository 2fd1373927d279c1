#include "apps/climate/data/snapshot_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/data/raw_file.hpp"

namespace keelson::climate {
namespace {

constexpr const char *kDataName = "climate/data", *kChannelsName = "climate/channels", *kLabelsName = "climate/labels";
constexpr std::int64_t kBlockBytes =
    1 << 20;  // bytes of stored numbers in a block, which stay in a cache until they are decoded

std::vector<int> stored_channels(const hdf5::File& file) {
  std::vector<int> channels(kChannels);
  std::iota(channels.begin(), channels.end(), 0);
  if (!file.has(kChannelsName)) return channels;
  channels = file.read<int>(kChannelsName);
  std::vector<bool> seen(kChannels);
  for (const int c : channels) {
    if (c < 0 || c >= kChannels || seen[static_cast<std::size_t>(c)]) {
      refuse("{}: '{}' is {}. Expected different numbers from 0 to {}: those of the channels in '{}'", file.path(),
             kChannelsName, fmt::join(channels, ", "), kChannels - 1, kDataName);
    }
    seen[static_cast<std::size_t>(c)] = true;
  }
  return channels;
}

SnapshotLayout layout_of(const hdf5::File& file, const hdf5::DatasetInfo& data) {
  SnapshotLayout layout;
  layout.channels = stored_channels(file);
  const auto n = static_cast<std::int64_t>(layout.channels.size());
  const auto& s = data.shape;
  if (data.type == hdf5::Type::other || s.size() != 3 || data.elements() == 0 || (s[2] != n && s[0] != n)) {
    refuse("{}: '{}' is {} {}. Expected numbers of {} channels, (H, W, {}) or ({}, H, W){}", file.path(), kDataName,
           data.type_name, hdf5::to_string(s), n, n, n,
           file.has(kChannelsName)
               ? fmt::format(", since '{}' names {}", kChannelsName, n)
               : fmt::format("; if channels are left out, '{}' must list the numbers of the others", kChannelsName));
  }
  layout.channels_last = s[2] == n;
  layout.rows = layout.channels_last ? s[0] : s[1];
  layout.columns = layout.channels_last ? s[1] : s[2];
  return layout;
}

/// Memory of this thread for `elements` numbers that are not yet decoded.
float* snapshot_scratch(std::int64_t elements) {
  thread_local std::vector<float> memory;
  if (memory.size() < static_cast<std::size_t>(elements)) memory.resize(static_cast<std::size_t>(elements));
  return memory.data();
}

/// Whether the elements lie in the file as f32 in memory, so that HDF5 and its lock are not needed.
bool is_plain(const hdf5::DatasetInfo& info) { return info.type == hdf5::Type::f32 && info.raw_offset >= 0; }

}  // namespace

std::string to_string(const SnapshotLayout& l) {
  const auto n = static_cast<std::int64_t>(l.channels.size());
  return hdf5::to_string(l.channels_last ? hdf5::Dims{l.rows, l.columns, n} : hdf5::Dims{n, l.rows, l.columns});
}

std::string names_of(std::span<const int> channels) {
  std::vector<std::string> names;
  for (const int c : channels) names.emplace_back(kChannelNames.at(static_cast<std::size_t>(c)));
  return fmt::format("{}", fmt::join(names, ", "));
}

SnapshotFile::SnapshotFile(const std::string& path, const std::string& folder) : file_(hdf5::File::open(path, folder)) {
  if (!file_.has(kDataName)) {
    refuse(
        "{}: has no '{}'. Expected a climate snapshot with this array (docs/file-formats.md); move the file, or name "
        "a folder of snapshots",
        path, kDataName);
  }
  data_ = file_.info(kDataName);
  layout_ = layout_of(file_, data_);
}

std::optional<SnapshotFile::Labels> SnapshotFile::find_labels(int map) const {
  for (const std::string& name : {fmt::format("{}_{}", kLabelsName, map), std::string(kLabelsName)}) {
    if (!file_.has(name)) continue;
    Labels found{file_.info(name)};
    const auto& s = found.info.shape;
    const bool own = name != kLabelsName;  // an HDF5 data set with only this map
    const bool axis = s.size() == 3;
    if (found.info.type == hdf5::Type::other || s.size() < 2 || s.size() > 3 || s[s.size() - 2] != layout_.rows ||
        s[s.size() - 1] != layout_.columns) {
      refuse("{}: '{}' is {} {}. Expected a class for each of the {} x {} points of '{}'; remake the file", path(),
             name, found.info.type_name, hdf5::to_string(s), layout_.rows, layout_.columns, kDataName);
    }
    if (axis) found.map = own && s[0] == 1 ? 0 : map;
    if (axis ? found.map >= s[0] : !own && map != 0) continue;
    return found;
  }
  return std::nullopt;
}

/// Some rows of a snapshot as stored.
struct SnapshotFile::Block {
  const float* src = nullptr;
  std::int64_t row_step = 0, column_step = 0, channel_step = 0;  ///< in elements
  bool chosen = false;                                           ///< src has only the chosen channels
  std::int64_t first = 0, rows = 0;                              ///< of the snapshot
};

/// `dst` may be src if all channels are chosen in their order.
void SnapshotFile::decode(const Block& b, const Values& values, float* dst) const {
  const auto n = static_cast<std::int64_t>(values.positions.size());
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 0; k < n; ++k)
    steps.push_back((b.chosen ? k : values.positions[static_cast<std::size_t>(k)]) * b.channel_step);
  const auto stored = [&](std::int64_t row, std::int64_t column, std::int64_t k) {
    return b.src[row * b.row_step + column * b.column_step + steps[static_cast<std::size_t>(k)]];
  };
  const float *shift = values.shift.data(), *scale = values.scale.data();
  for (std::int64_t row = 0; row < b.rows; ++row) {
    std::uint32_t largest = 0;  // largest magnitude, as bits
    float* to = dst + row * layout_.columns * n;
    for (std::int64_t column = 0; column < layout_.columns; ++column, to += n) {
      for (std::int64_t k = 0; k < n; ++k) {
        const float value = stored(row, column, k);
        largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
        to[k] = (value - shift[k]) * scale[k];
      }
    }
    if (largest < 0x7f800000u) continue;
    to = dst + row * layout_.columns * n;
    for (std::int64_t column = 0; column < layout_.columns; ++column) {
      for (std::int64_t k = 0; k < n; ++k) {
        // In place, the stored number is overwritten; but a number that is not finite stays so.
        const float value = b.src == dst ? to[column * n + k] : stored(row, column, k);
        if (!std::isfinite(value))
          refuse_value(value, b.first + row, column, values.positions[static_cast<std::size_t>(k)]);
      }
    }
  }
}

void SnapshotFile::refuse_value(double value, std::int64_t row, std::int64_t column, std::int64_t position) const {
  const hdf5::Dims at = layout_.channels_last ? hdf5::Dims{row, column, position} : hdf5::Dims{position, row, column};
  refuse("{}: '{}' holds {} at {}, in channel {}. Expected finite numbers; move or remake the file", path(), kDataName,
         value, hdf5::to_string(at),
         kChannelNames[static_cast<std::size_t>(layout_.channels[static_cast<std::size_t>(position)])]);
}

/// Reads and decodes in blocks of rows. `read(dst, rows, position)` reads stored numbers of these rows: of the channel
/// at this position, or of all channels if they come last.
template <class Read>
void SnapshotFile::read_blocks(const Values& values, const Rows& wanted_rows, const Read& read, float* dst) const {
  const auto stored = static_cast<std::int64_t>(layout_.channels.size());
  const auto wanted = static_cast<std::int64_t>(values.positions.size());
  const std::int64_t width = layout_.columns;
  bool in_place = layout_.channels_last && wanted == stored;
  for (std::int64_t k = 0; k < wanted; ++k) in_place = in_place && values.positions[static_cast<std::size_t>(k)] == k;
  const std::int64_t some = std::max<std::int64_t>(1, kBlockBytes / (4 * width * stored));
  for (std::int64_t first = wanted_rows.begin; first < wanted_rows.end; first += some) {
    const Rows block{first, std::min(first + some, wanted_rows.end)};
    const std::int64_t rows = block.size();
    float* const values_of_block = dst + (first - wanted_rows.begin) * width * wanted;
    if (layout_.channels_last) {
      float* const to = in_place ? values_of_block : snapshot_scratch(rows * width * stored);
      read(to, block, 0);
      decode({to, width * stored, stored, 1, false, first, rows}, values, values_of_block);
      continue;
    }
    float* const to = snapshot_scratch(rows * width * wanted);
    for (std::int64_t k = 0; k < wanted; ++k)
      read(to + k * rows * width, block, values.positions[static_cast<std::size_t>(k)]);
    decode({to, width, 1, rows * width, true, first, rows}, values, values_of_block);
  }
}

void SnapshotFile::read_data(const Values& values, const Rows& rows, float* dst) const {
  const auto channels = static_cast<std::int64_t>(layout_.channels.size()), width = layout_.columns;
  // Elements of a row; place of the first row of a channel, or of all channels, among `of` rows that are there.
  const std::int64_t row = layout_.channels_last ? width * channels : width;
  const auto place = [&](std::int64_t first, std::int64_t position, std::int64_t of) {
    return (layout_.channels_last ? first : position * of + first) * row;
  };
  if (is_plain(data_)) {
    const RawFile raw(data_.file);
    const auto read = [&](float* to, const Rows& block, std::int64_t position) {
      raw.read(to, block.size() * row * 4, data_.raw_offset + place(block.begin, position, layout_.rows) * 4);
    };
    return read_blocks(values, rows, read, dst);
  }
  // E.g. compressed data: all rows that are wanted are read at once.
  std::vector<float> all(static_cast<std::size_t>(rows.size() * width * channels));
  if (layout_.channels_last)
    file_.read_box(kDataName, {rows.begin, 0, 0}, {rows.size(), width, channels}, all.data());
  else
    file_.read_box(kDataName, {0, rows.begin, 0}, {channels, rows.size(), width}, all.data());
  const auto read = [&](float* to, const Rows& block, std::int64_t position) {
    std::copy_n(all.data() + place(block.begin - rows.begin, position, rows.size()), block.size() * row, to);
  };
  read_blocks(values, rows, read, dst);
}

void SnapshotFile::read_labels(int map, const Rows& rows, std::int32_t* dst) const {
  const auto labels = find_labels(map);
  if (!labels) {
    refuse(
        "{}: has no labels {}. Expected '{}_{}' (H, W), or '{}' (maps, H, W) with so many maps; choose the other map",
        path(), map, kLabelsName, map, kLabelsName);
  }
  const std::int64_t n = rows.size() * layout_.columns,
                     skipped = (std::max<std::int64_t>(0, labels->map) * layout_.rows + rows.begin) * layout_.columns;
  float* const stored = snapshot_scratch(n);
  if (is_plain(labels->info)) {
    RawFile(labels->info.file).read(stored, n * 4, labels->info.raw_offset + skipped * 4);
  } else if (labels->map < 0) {
    file_.read_box(labels->info.name, {rows.begin, 0}, {rows.size(), layout_.columns}, stored);
  } else {
    file_.read_box(labels->info.name, {labels->map, rows.begin, 0}, {1, rows.size(), layout_.columns}, stored);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = stored[i];
    if (!(value == 0 || value == 1 || value == 2)) {
      const std::int64_t row = rows.begin + i / layout_.columns, column = i % layout_.columns;
      refuse(
          "{}: '{}' holds {} at {}. Expected 0 (background), 1 (tropical cyclone) or 2 (atmospheric river); remake "
          "the file",
          path(), labels->info.name, value,
          hdf5::to_string(labels->map < 0 ? hdf5::Dims{row, column} : hdf5::Dims{labels->map, row, column}));
    }
    dst[i] = static_cast<std::int32_t>(value);
  }
}

}  // namespace keelson::climate
