#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.hpp"

namespace keelson::label {

/// Where images are: arrays in files of any form that the engine reads (HDF5, NetCDF, NumPy).
struct ImageSource {
  std::string path;             ///< a file, a folder or a pattern
  std::string array = "x";      ///< (images, H, W), (images, H, W, C) or (images, C, H, W); of .npy files not used
  std::string layout = "auto";  ///< "none", "channels-last", "channels-first"; "auto": by the shape
  bool one_per_file = false;    ///< each file is one image
  double mask_below = -1e30;    ///< smaller values mark pixels without a measurement, as NaN does
};

/// One image in memory.
struct Image {
  std::int64_t height = 0, width = 0, channels = 1;
  std::vector<float> values;  ///< (height, width, channels); NaN: nothing was measured there
  float at(std::int64_t y, std::int64_t x, std::int64_t c) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

/// Images by their numbers. Any thread may call.
class Images {
 public:
  /// Throws InputError, naming the file, for files and arrays that cannot be read as images.
  explicit Images(const ImageSource& source);
  std::int64_t size() const { return data_->size(); }
  Image read(std::int64_t number) const;  ///< throws InputError
  /// The path of the file that holds an image.
  const std::string& file_of(std::int64_t number) const;
  /// The image's number in its file, from 0.
  std::int64_t index_in_file(std::int64_t number) const { return places_.at(static_cast<std::size_t>(number)).index; }
  std::int64_t channels() const { return channels_; }
  std::string describe() const { return data_->describe(); }
  std::uint64_t digest() const { return data_->digest(); }

 private:
  struct Place {
    std::int32_t file;
    std::int64_t index;
  };
  std::unique_ptr<Dataset> data_;
  double mask_below_;
  std::int64_t height_ = 0, width_ = 0, channels_ = 1;
  std::vector<std::string> files_;
  std::vector<Place> places_;
};

/// Calls work(i) for i in [0, count), in all cores' threads; `done` is called by the calling thread now and then with
/// how many have ended. Rethrows the first exception.
void in_threads(std::int64_t count, const std::function<void(std::int64_t i)>& work,
                const std::function<void(std::int64_t ended)>& done = {});

}  // namespace keelson::label
