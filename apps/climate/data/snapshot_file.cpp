#include "apps/climate/data/snapshot_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::climate {
namespace {

constexpr const char *kDataName = "climate/data", *kChannelsName = "climate/channels", *kLabelsName = "climate/labels";
/// Bytes of stored numbers in a block, which stay in a cache until they are decoded.
constexpr std::int64_t kBlockBytes = 1 << 20;

std::vector<int> all_channels() {
  std::vector<int> channels(kChannels);
  std::iota(channels.begin(), channels.end(), 0);
  return channels;
}

std::vector<int> stored_channels(const ArrayFile& file) {
  if (!file.has(kChannelsName)) return all_channels();
  const auto stored = file.read<std::int32_t>(kChannelsName);
  const std::vector<int> channels(stored.begin(), stored.end());
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

/// "float32 (4, 6, 3)"
std::string text_of(const ArrayInfo& array) {
  return fmt::format("{} {}", array.type_name, hdf5::to_string(array.shape));
}

/// Memory of this thread for `elements` numbers that are not yet decoded.
float* snapshot_scratch(std::int64_t elements) {
  thread_local std::vector<float> memory;
  if (memory.size() < static_cast<std::size_t>(elements)) memory.resize(static_cast<std::size_t>(elements));
  return memory.data();
}

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

std::vector<FileForm> snapshot_forms() { return array_forms(); }

SnapshotFile::SnapshotFile(const std::string& path, const std::string& folder) : file_(ArrayFile::open(path, folder)) {
  if (file_->has(kDataName))
    open_public();
  else if (file_->form() == "NumPy (.npy)")
    open_numpy();
  else
    open_variables();
}

void SnapshotFile::open_public() {
  const ArrayInfo data = file_->info(kDataName);
  layout_.channels = stored_channels(*file_);
  const auto n = static_cast<std::int64_t>(layout_.channels.size());
  const auto& s = data.shape;
  if (!data.is_numeric() || s.size() != 3 || data.elements() == 0 || (s[2] != n && s[0] != n)) {
    refuse("{}: '{}' is {}. Expected numbers of {} channels, (H, W, {}) or ({}, H, W){}", path(), kDataName,
           text_of(data), n, n, n,
           file_->has(kChannelsName)
               ? fmt::format(", since '{}' names {}", kChannelsName, n)
               : fmt::format("; if channels are left out, '{}' must list the numbers of the others", kChannelsName));
  }
  layout_.channels_last = s[2] == n;
  layout_.rows = layout_.channels_last ? s[0] : s[1];
  layout_.columns = layout_.channels_last ? s[1] : s[2];
  stored_ = n;
  data_ = {data};
}

void SnapshotFile::open_numpy() {
  const ArrayInfo data = file_->info(file_->names().front());
  const auto& s = data.shape;
  if (s.size() != 3 || data.elements() == 0 || (s[2] != kChannels && s[2] != kChannels + 1))
    refuse("{}: is {}. Expected (H, W, {}), the {} channels of a snapshot and the labels, or (H, W, {}) without labels",
           path(), text_of(data), kChannels + 1, kChannels, kChannels);
  layout_ = {.rows = s[0], .columns = s[1], .channels_last = true, .channels = all_channels()};
  stored_ = s[2];
  data_ = {data};
}

void SnapshotFile::open_variables() {
  one_for_each_ = true;
  layout_.channels_last = false;
  for (int c = 0; c < kChannels; ++c) {
    const char* const name = kChannelNames[static_cast<std::size_t>(c)];
    if (!file_->has(name)) continue;
    layout_.channels.push_back(c);
    data_.push_back(file_->info(name));
    const ArrayInfo& array = data_.back();
    const auto& s = array.shape;
    if (!array.is_numeric() || (s.size() != 2 && s.size() != 3) || (s.back() == 0 || s[s.size() - 2] == 0))
      refuse("{}: '{}' is {}. Expected numbers (time, lat, lon) or (lat, lon)", path(), name, text_of(array));
    if (s != data_[0].shape)
      refuse("{}: '{}' is {}, and '{}' is {}. Expected the same grid and times for all channels", path(), data_[0].name,
             text_of(data_[0]), name, text_of(array));
  }
  if (data_.empty())
    refuse(
        "{}: has no '{}', and no variables named as channels ({}, ...). Expected a climate snapshot with such arrays "
        "(docs/file-formats.md); move the file, or name a folder of snapshots",
        path(), kDataName, kChannelNames[0]);
  const auto& s = data_[0].shape;
  layout_.rows = s[s.size() - 2];
  layout_.columns = s.back();
  if (s.size() == 3) time_ = s[0];
}

/// Whether an array that may have labels has this map. `is_own`: its name is that of the map.
bool SnapshotFile::fits(Labels& found, int map, bool is_own) const {
  const auto& s = found.array.shape;
  const bool has_axis = s.size() == 3;
  if (!found.array.is_numeric() || s.size() < 2 || s.size() > 3 || s[s.size() - 2] != layout_.rows ||
      s.back() != layout_.columns || (time_ && (!has_axis || s[0] != *time_)))
    refuse("{}: '{}' is {}. Expected a class for each of the {}{} x {} points of '{}'; remake the file", path(),
           found.array.name, text_of(found.array), time_ ? fmt::format("{} x ", *time_) : "", layout_.rows,
           layout_.columns, data_[0].name);
  if (time_ || !has_axis) return is_own || map == 0;
  found.map = is_own && s[0] == 1 ? 0 : map;
  return *found.map < s[0];
}

std::optional<SnapshotFile::Labels> SnapshotFile::find_labels(int map) const {
  if (!one_for_each_ && stored_ > std::ssize(layout_.channels))
    return map == 0 ? std::optional(Labels{data_[0], {}, true}) : std::nullopt;
  std::vector<std::pair<std::string, bool>> names{{fmt::format("{}_{}", kLabelsName, map), true}, {kLabelsName, false}};
  if (one_for_each_) names = {{fmt::format("labels_{}", map), true}, {"labels", false}, {"LABELS", false}};
  for (const auto& [name, is_own] : names) {
    if (!file_->has(name)) continue;
    Labels found{file_->info(name), {}};
    if (fits(found, map, is_own)) return found;
  }
  return std::nullopt;
}

std::string SnapshotFile::labels_expected(int map) const {
  if (!one_for_each_ && stored_ > std::ssize(layout_.channels)) return "Expected labels 0, the last channel";
  if (one_for_each_) return fmt::format("Expected 'labels_{}', 'labels' or 'LABELS' beside the channels", map);
  return fmt::format("Expected '{}_{}' (H, W), or '{}' (maps, H, W) with so many maps", kLabelsName, map, kLabelsName);
}

/// Some rows of a snapshot as stored.
struct SnapshotFile::Block {
  const float* src = nullptr;
  std::int64_t row_step = 0, column_step = 0, channel_step = 0;  ///< in elements
  bool chosen = false;                                           ///< src has only the chosen channels
  std::int64_t snapshot = 0;
  Rows rows;  ///< of the snapshot
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
  for (std::int64_t row = 0; row < b.rows.size(); ++row) {
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
        if (!std::isfinite(value)) refuse_value(value, b, row, column, values.positions[static_cast<std::size_t>(k)]);
      }
    }
  }
}

/// Where a number is in its array.
hdf5::Dims SnapshotFile::place(std::int64_t position, std::int64_t snapshot, std::int64_t row,
                               std::int64_t column) const {
  if (layout_.channels_last) return {row, column, position};
  if (!one_for_each_) return {position, row, column};
  return time_ ? hdf5::Dims{snapshot, row, column} : hdf5::Dims{row, column};
}

void SnapshotFile::refuse_value(double value, const Block& block, std::int64_t row, std::int64_t column,
                                std::int64_t position) const {
  const bool is_label = position >= std::ssize(layout_.channels);
  refuse("{}: '{}' holds {} at {}, in {}. Expected finite numbers; move or remake the file", path(),
         data_[one_for_each_ ? static_cast<std::size_t>(position) : 0].name, value,
         hdf5::to_string(place(position, block.snapshot, block.rows.begin + row, column)),
         is_label ? "the labels"
                  : fmt::format(
                        "channel {}",
                        kChannelNames[static_cast<std::size_t>(layout_.channels[static_cast<std::size_t>(position)])]));
}

/// Reads the stored numbers of these rows, to `in_place` if that is not null.
SnapshotFile::Block SnapshotFile::read_block(const Values& values, std::int64_t snapshot, const Rows& rows,
                                             float* in_place) const {
  const std::int64_t width = layout_.columns, n = rows.size(), wanted = std::ssize(values.positions);
  if (layout_.channels_last) {
    float* const to = in_place ? in_place : snapshot_scratch(n * width * stored_);
    file_->read_box(data_[0], {rows.begin, 0, 0}, {n, width, stored_}, to);
    return {to, width * stored_, stored_, 1, false, snapshot, rows};
  }
  if (!one_for_each_ && !data_[0].is_direct()) {  // HDF5 may have to unpack all channels for one of them
    float* const to = snapshot_scratch(n * width * stored_);
    file_->read_box(data_[0], {0, rows.begin, 0}, {stored_, n, width}, to);
    return {to, width, 1, n * width, false, snapshot, rows};
  }
  float* const to = snapshot_scratch(n * width * wanted);
  for (std::int64_t k = 0; k < wanted; ++k) {
    const std::int64_t position = values.positions[static_cast<std::size_t>(k)];
    const hdf5::Dims offset = place(position, snapshot, rows.begin, 0);
    hdf5::Dims count(offset.size(), 1);
    count[count.size() - 2] = n;
    count.back() = width;
    file_->read_box(data_[one_for_each_ ? static_cast<std::size_t>(position) : 0], offset, count, to + k * n * width);
  }
  return {to, width, 1, n * width, true, snapshot, rows};
}

void SnapshotFile::read_data(const Values& values, std::int64_t snapshot, const Rows& rows, float* dst) const {
  KEELSON_EXPECT(snapshot >= 0 && snapshot < size());
  const std::int64_t width = layout_.columns, wanted = std::ssize(values.positions),
                     stored = one_for_each_ ? wanted : stored_;
  bool in_place = layout_.channels_last && wanted == stored;
  for (std::int64_t k = 0; k < wanted; ++k) in_place = in_place && values.positions[static_cast<std::size_t>(k)] == k;
  // What HDF5 must read, it reads at once: it unpacks whole chunks.
  const bool is_direct = std::ranges::all_of(data_, &ArrayInfo::is_direct);
  const std::int64_t some = is_direct ? std::max<std::int64_t>(1, kBlockBytes / (4 * width * stored))
                                      : std::max<std::int64_t>(1, rows.size());
  for (std::int64_t first = rows.begin; first < rows.end; first += some) {
    float* const to = dst + (first - rows.begin) * width * wanted;
    decode(read_block(values, snapshot, {first, std::min(first + some, rows.end)}, in_place ? to : nullptr), values,
           to);
  }
}

void SnapshotFile::read_labels(int map, std::int64_t snapshot, const Rows& rows, std::int32_t* dst) const {
  KEELSON_EXPECT(snapshot >= 0 && snapshot < size());
  const auto labels = find_labels(map);
  if (!labels) refuse("{}: has no labels {}. {}; choose the other map", path(), map, labels_expected(map));
  const std::int64_t width = layout_.columns, n = rows.size() * width;
  thread_local std::vector<float> stored;
  stored.resize(static_cast<std::size_t>(n));
  hdf5::Dims offset{rows.begin, 0}, count{rows.size(), width};
  if (labels->is_channel) {
    read_data({{stored_ - 1}, {0}, {1}}, snapshot, rows, stored.data());
    offset.push_back(stored_ - 1);
    count.push_back(1);
  } else {
    if (time_ || labels->map) {
      offset.insert(offset.begin(), time_ ? snapshot : *labels->map);
      count.insert(count.begin(), 1);
    }
    file_->read_box(labels->array, offset, count, stored.data());
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = stored[static_cast<std::size_t>(i)];
    if (!(value == 0 || value == 1 || value == 2))
      refuse(
          "{}: '{}' holds {} at {}. Expected 0 (background), 1 (tropical cyclone) or 2 (atmospheric river); remake "
          "the file",
          path(), labels->array.name, value, hdf5::to_string(place_in_box(offset, count, i)));
    dst[i] = static_cast<std::int32_t>(value);
  }
}

}  // namespace keelson::climate
