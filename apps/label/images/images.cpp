#include "apps/label/images/images.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"

namespace keelson::label {
namespace {

constexpr std::int64_t most_channels = 4;
constexpr float unmeasured = std::numeric_limits<float>::lowest();

ArrayLayout layout_by_shape(const std::string& file, const std::string& array, bool one_per_file) {
  const auto info = ArrayFile::open(file)->info(array);
  const hdf5::Dims sample(info.shape.begin() + (one_per_file || info.shape.empty() ? 0 : 1), info.shape.end());
  if (sample.size() == 2) return ArrayLayout::none;
  if (sample.size() == 3 && sample[2] <= most_channels) return ArrayLayout::channels_last;
  if (sample.size() == 3 && sample[0] <= most_channels) return ArrayLayout::channels_first;
  refuse(
      "{}: the array '{}' has the shape {}. Expected images: (images, height, width), or with up to {} channels in "
      "front of or behind height and width; --layout says which of the two",
      file, array, hdf5::to_string(info.shape), most_channels);
}

/// The path and the name of the array as ArrayFileDataset wants them: of .npy files, the array's name is the file's.
std::pair<std::string, std::string> path_and_array(const ImageSource& s) {
  namespace fs = std::filesystem;
  const fs::path path = s.path;
  if (path.extension() == ".npy")
    return {path.parent_path().empty() ? "." : path.parent_path().string(), path.filename()};
  std::error_code none;
  if (!fs::is_directory(path, none)) return {s.path, s.array};
  const auto files = find_files(s.path, array_forms());
  const bool numpy = std::ranges::all_of(files, [](const auto& f) { return fs::path(f).extension() == ".npy"; });
  return {s.path, numpy ? "*.npy" : s.array};
}

ArrayLayout layout_of(const ImageSource& s, const std::string& path, const std::string& array) {
  if (s.layout == "none") return ArrayLayout::none;
  if (s.layout == "channels-last") return ArrayLayout::channels_last;
  if (s.layout == "channels-first") return ArrayLayout::channels_first;
  if (s.layout != "auto") refuse("--layout {}: expected auto, none, channels-last or channels-first", s.layout);
  if (!array.ends_with(".npy")) return layout_by_shape(find_files(path, array_forms()).front(), array, s.one_per_file);
  const auto file = find_files((std::filesystem::path(path) / array).string(), array_forms()).front();
  return layout_by_shape(file, ArrayFile::open(file)->names().front(), s.one_per_file);
}

}  // namespace

Images::Images(const ImageSource& s) : mask_below_(s.mask_below) {
  const auto [path, array] = path_and_array(s);
  ArrayFileOptions o;
  o.x = array;
  o.y = "";
  o.one_per_file = s.one_per_file;
  o.layout = layout_of(s, path, array);
  o.missing = unmeasured;
  data_ = std::make_unique<ArrayFileDataset>(path, o);
  const Shape& shape = data_->fields().at(0).shape;
  if (shape.rank() != 3)
    refuse("{}: the array '{}' has samples of {} dimensions. Expected images of height and width", s.path, array,
           shape.rank());
  channels_ = shape[0];
  height_ = shape[1];
  width_ = shape[2];
  std::map<std::string, std::int32_t> numbers;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < data_->size(); ++i) {
    std::string file = data_->file_of(i);
    const auto [found, fresh] = numbers.try_emplace(file, static_cast<std::int32_t>(files_.size()));
    if (fresh) {
      files_.push_back(std::move(file));
      counts.push_back(0);
    }
    places_.push_back({found->second, counts[static_cast<std::size_t>(found->second)]++});
  }
}

const std::string& Images::file_of(std::int64_t number) const {
  return files_[static_cast<std::size_t>(places_.at(static_cast<std::size_t>(number)).file)];
}

Image Images::read(std::int64_t number) const {
  Image image{height_, width_, channels_, std::vector<float>(static_cast<std::size_t>(height_ * width_ * channels_))};
  void* dst[] = {image.values.data()};
  data_->read(number, dst);
  for (float& v : image.values)
    if (v == unmeasured || static_cast<double>(v) < mask_below_) v = std::numeric_limits<float>::quiet_NaN();
  return image;
}

void in_threads(std::int64_t count, const std::function<void(std::int64_t)>& work,
                const std::function<void(std::int64_t)>& done) {
  std::atomic<std::int64_t> next = 0, ended = 0;
  std::mutex lock;
  std::exception_ptr error;
  const auto loop = [&](bool reports) {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard guard(lock);
        if (!error) error = std::current_exception();
        next = count;
      }
      ++ended;
      if (reports && done && ended < count) done(ended);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] { loop(false); });
  loop(true);
  threads.clear();
  if (error) std::rethrow_exception(error);
  if (done) done(count);
}

}  // namespace keelson::label
