#include "apps/label/project/options.hpp"

#include <algorithm>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::label {

void declare_images(ProjectSettings& s, app::Subcommand& v) {
  ImageSource& i = s.images;
  FeatureOptions& f = s.features;
  v.option_without_default("--images", i.path, "Images: a file, folder or pattern (HDF5, NetCDF, NumPy)", "PATH");
  v.option("--array", i.array, "Array of the images in HDF5 and NetCDF files", "NAME");
  v.option("--layout", i.layout, "Where the channels of an image are; auto: as its shape says")
      .one_of({"auto", "none", "channels-last", "channels-first"});
  v.flag("--one-per-file", i.one_per_file, "Each file is one image");
  v.option("--mask-below", i.mask_below, "Smaller values mark pixels without a measurement, as NaN does", "VALUE");
  v.option("--features", f.kind,
           "What the networks see: radial: means, deviations and maxima of 32 rings around the centre; pixels: a small "
           "image")
      .one_of({"radial", "pixels"});
  v.option(
       "--camera-length", f.camera_length,
       "Distance of the sample from a flat detector, in pixels: rings then have equal widths in the momentum transfer; "
       "0: in the radius",
       "PIXELS")
      .non_negative();
  v.flag("--log", f.log, "Of log(1 + value): for counts");
  v.option("--pixels", f.pixels, "Edge of the small image", "N").between(8, 256);
}

void declare_networks(EnsembleOptions& o, app::Subcommand& v) {
  v.option("--members", o.members, "Networks; 2 or more say what they do not agree on", "M").between(1, 100);
  v.option("--units", o.units, "Units of a hidden layer", "N").between(1, 4096);
  v.option("--epochs", o.epochs, "Epochs of each round", "N").between(1, 10000);
  v.option("--batch-size", o.batch, "Images of a step", "N").between(1, 4096);
  v.option("--lr", o.lr, "Learning rate at the beginning of a round", "RATE").positive();
  v.option("--weight-decay", o.weight_decay, "Of AdamW", "RATE").non_negative();
  v.option("--dropout", o.dropout, "Behind hidden layers", "PART").between(0, 0.9);
  v.flag("--warm", o.warm, "A round begins with the weights of the round before");
}

void declare_batch(BatchOptions& o, app::Subcommand& v) {
  v.option("--batch", o.count, "Images of a batch", "B").positive();
  v.option(
       "--audit", o.audit,
       "Part of a batch that is drawn at random from all that are left: it tells how good the networks are there. 1: "
       "the whole batch",
       "PART")
      .between(0, 1);
  v.flag("--spread", o.spread, "Take images that differ, of the 4 B most uncertain (greedy k-centre)");
}

void check_keys(const std::string& keys, std::size_t classes) {
  const std::set<char> different(keys.begin(), keys.end());
  const bool printable = std::ranges::all_of(keys, [](char c) { return c > ' ' && c < 127; });
  if (keys.size() != classes + 1 || different.size() != keys.size() || !printable)
    refuse("keys '{}': expected {} different ASCII characters, one for each class and then one for unsure", keys,
           classes + 1);
}

std::optional<std::array<double, 2>> parse_centre(const std::vector<std::string>& texts) {
  if (texts.empty()) return std::nullopt;
  const auto x = texts.size() == 2 ? parse_number<double>(texts[0]) : std::nullopt;
  const auto y = texts.size() == 2 ? parse_number<double>(texts[1]) : std::nullopt;
  if (!x || !y) refuse("--centre: expected two numbers, column and row, e.g. --centre 31.5,31.5");
  return std::array<double, 2>{*x, *y};
}

}  // namespace keelson::label
