#include "apps/label/images/features.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

float scaled(float value, bool log) { return log ? std::log1p(std::max(0.0f, value)) : value; }

/// Count, sum, sum of squares and maximum of the pixels of a ring.
struct PixelRing {
  double count = 0, sum = 0, squares = 0, most = 0;
  void add(double v) {
    most = count == 0 ? v : std::max(most, v);
    count += 1;
    sum += v;
    squares += v * v;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
  double deviation() const { return count > 0 ? std::sqrt(std::max(0.0, squares / count - mean() * mean())) : 0; }
};

std::vector<PixelRing> rings_of(const Image& image, const FeatureOptions& o, std::int64_t channel) {
  const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  const auto centre = o.centre.value_or(std::array<double, 2>{(w - 1) / 2, (h - 1) / 2});
  const double far_x = std::max(centre[0], w - 1 - centre[0]), far_y = std::max(centre[1], h - 1 - centre[1]);
  const auto scale = [&](double radius) {
    return o.camera_length > 0 ? std::sin(std::atan(radius / o.camera_length) / 2) : radius;
  };
  const double width = scale(std::hypot(far_x, far_y) + 1e-6) / radial_bins;
  std::vector<PixelRing> rings(radial_bins);
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const float v = image.at(y, x, channel);
      if (!std::isfinite(v)) continue;
      const double radius = std::hypot(static_cast<double>(x) - centre[0], static_cast<double>(y) - centre[1]);
      const auto bin = std::min(radial_bins - 1, static_cast<std::int64_t>(scale(radius) / width));
      rings[static_cast<std::size_t>(bin)].add(static_cast<double>(scaled(v, o.log)));
    }
  return rings;
}

/// The features of a channel. How bright the whole image is, is one feature and not part of the others; the differences
/// of neighbours show sharp rings.
void append_radial(const std::vector<PixelRing>& rings, std::vector<float>& to) {
  double level = 0, seen = 0;
  for (const PixelRing& r : rings)
    if (r.count > 0) {
      level += r.mean();
      seen += 1;
    }
  level = seen > 0 ? level / seen : 0;
  const PixelRing* inside = nullptr;
  std::vector<float> means, differences, deviations, maxima;
  for (const PixelRing& r : rings) {
    const bool both = inside != nullptr && inside->count > 0 && r.count > 0;
    means.push_back(static_cast<float>(r.count > 0 ? r.mean() - level : 0));
    differences.push_back(static_cast<float>(both ? r.mean() - inside->mean() : 0));
    deviations.push_back(static_cast<float>(r.deviation()));
    maxima.push_back(static_cast<float>(r.count > 0 ? r.most - r.mean() : 0));
    inside = &r;
  }
  for (const auto* block : {&means, &differences, &deviations, &maxima})
    to.insert(to.end(), block->begin(), block->end());
  to.push_back(static_cast<float>(level));
}

/// The mean of the measured pixels of a rectangle, of all channels if `channel` < 0; NaN if there are none.
double mean_of_box(const Image& image, std::int64_t y0, std::int64_t y1, std::int64_t x0, std::int64_t x1,
                   std::int64_t channel, bool log) {
  double sum = 0, count = 0;
  for (std::int64_t y = y0; y < y1; ++y)
    for (std::int64_t x = x0; x < x1; ++x)
      for (std::int64_t c = std::max<std::int64_t>(0, channel); c < (channel < 0 ? image.channels : channel + 1); ++c) {
        const float v = image.at(y, x, c);
        if (!std::isfinite(v)) continue;
        sum += static_cast<double>(scaled(v, log));
        count += 1;
      }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

/// The image with `edge` x `edge` pixels: means of boxes, which overlap if the image is smaller.
std::vector<double> resized(const Image& image, std::int64_t edge, std::int64_t channel, bool log) {
  std::vector<double> small(static_cast<std::size_t>(edge * edge));
  for (std::int64_t i = 0; i < edge; ++i)
    for (std::int64_t j = 0; j < edge; ++j) {
      const std::int64_t y0 = i * image.height / edge, x0 = j * image.width / edge;
      small[static_cast<std::size_t>(i * edge + j)] =
          mean_of_box(image, y0, std::max(y0 + 1, (i + 1) * image.height / edge), x0,
                      std::max(x0 + 1, (j + 1) * image.width / edge), channel, log);
    }
  return small;
}

void standardise(Features& f, std::int64_t groups) {
  const std::int64_t n = f.images(), of_group = f.shape.elements() / groups;
  for (std::int64_t g = 0; g < groups; ++g) {
    double sum = 0, squares = 0;
    const auto each = [&](const auto& use) {
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = g * of_group; k < (g + 1) * of_group; ++k)
          use(f.values[static_cast<std::size_t>(i * f.shape.elements() + k)]);
    };
    each([&](float v) { sum += static_cast<double>(v); });
    const auto count = static_cast<double>(n * of_group);
    const double mean = sum / count;
    each([&](float v) { squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean); });
    const double deviation = std::sqrt(squares / count);
    each([&](float& v) { v = deviation > 0 ? static_cast<float>((static_cast<double>(v) - mean) / deviation) : 0; });
  }
}

}  // namespace

Shape feature_shape(const FeatureOptions& o, std::int64_t channels) {
  if (o.kind == "radial") return {radial_features * channels};
  if (o.kind == "pixels") return {channels, o.pixels, o.pixels};
  refuse("--features {}: expected radial or pixels", o.kind);
}

std::vector<float> features_of(const Image& image, const FeatureOptions& o) {
  std::vector<float> all;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    if (o.kind == "pixels") {
      for (const double v : resized(image, o.pixels, c, o.log))
        all.push_back(std::isfinite(v) ? static_cast<float>(v) : 0);
      continue;
    }
    append_radial(rings_of(image, o, c), all);
  }
  return all;
}

Features read_features(const Images& images, const FeatureOptions& o, const std::function<void(std::int64_t)>& done) {
  Features f{feature_shape(o, images.channels()), {}};
  const std::int64_t n = f.shape.elements();
  f.values.resize(static_cast<std::size_t>(images.size() * n));
  in_threads(
      images.size(),
      [&](std::int64_t i) { std::ranges::copy(features_of(images.read(i), o), f.values.begin() + i * n); }, done);
  standardise(f, o.kind == "pixels" ? images.channels() : n);
  return f;
}

std::vector<std::uint8_t> thumbnail(const Image& image, std::int64_t edge, bool log) {
  const auto small = resized(image, edge, -1, log);
  std::vector<double> sorted;
  std::ranges::copy_if(small, std::back_inserter(sorted), [](double v) { return std::isfinite(v); });
  std::ranges::sort(sorted);
  std::vector<std::uint8_t> grey(small.size());
  if (sorted.empty()) return grey;
  const auto at = [&](double part) {
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
  };
  const double low = at(0.01), high = std::max(at(0.995), low + 1e-12);
  for (std::size_t i = 0; i < small.size(); ++i)
    if (std::isfinite(small[i]))
      grey[i] = static_cast<std::uint8_t>(std::lround(255 * std::clamp((small[i] - low) / (high - low), 0.0, 1.0)));
  return grey;
}

std::vector<double> radial_profile(const Image& image, const FeatureOptions& o) {
  std::vector<double> means;
  for (const PixelRing& r : rings_of(image, o, 0))
    means.push_back(r.count > 0 ? r.mean() : std::numeric_limits<double>::quiet_NaN());
  return means;
}

}  // namespace keelson::label
