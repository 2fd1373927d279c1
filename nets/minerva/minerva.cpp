#include "nets/minerva/minerva.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"

namespace keelson::nets {
namespace {

constexpr std::array views{"x", "u", "v"};

/// The smallest image of the view x that a network takes.
struct SmallestImage {
  const char* network;
  std::int64_t strips, planes;
};

void require_images(const MinervaOptions& o, const SmallestImage& smallest) {
  if (o.planes % 2 != 0)
    refuse(
        "images of {} planes in the view x: the views u and v have half as many; expected an even number, 50 or 94 in "
        "the experiment's files",
        o.planes);
  if (o.strips < smallest.strips || o.planes < smallest.planes)
    refuse("{} on images of {} strips and {} planes: expected at least {} and {}; the experiment's have 127 strips",
           smallest.network, o.strips, o.planes, smallest.strips, smallest.planes);
  if (o.channels < 1 || o.classes < 2)
    refuse("{} with {} channels and {} classes: expected at least 1 and 2", smallest.network, o.channels, o.classes);
}

/// A graph with its inputs.
struct Events {
  Graph graph;
  std::vector<Var> images;
  Var label;
};

void add_inputs(Events& e, const MinervaOptions& o) {
  for (const char* view : views)
    e.images.push_back(e.graph.input(view, {o.channels, o.strips, *view == 'x' ? o.planes : o.planes / 2}));
  e.label = e.graph.input("y", {}, DType::s32);
}

std::int64_t scaled(const MinervaOptions& o, std::int64_t width) {
  return std::max<std::int64_t>(2, std::lround(o.width_multiplier * static_cast<double>(width)));
}

Var valid_conv(Var v, std::int64_t filters, const Shape& kernel, std::int64_t stride, const std::string& name) {
  // Strides differ by dimension: planes are never skipped.
  return relu(conv(v, {.filters = filters, .padding = Padding::valid, .kernel = kernel, .strides = {stride, 1}}, name));
}

Var pooled_strips(Var v, const std::string& name) { return max_pool(v, PoolOptions{.kernel = {2, 1}}, name); }

}  // namespace

Graph minerva_epsilon(const MinervaOptions& o) {
  require_images(o, {"the Epsilon network", 108, 22});
  Events e;
  add_inputs(e, o);
  std::vector<Var> features;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::string view = views[i];
    // Planes of u and v lie twice as far apart, so their first kernel is longer.
    const std::array kernels{Shape{8, view == "x" ? 3 : 5}, Shape{7, 3}, Shape{6, 3}, Shape{6, 3}};
    constexpr std::array filters{12, 20, 28, 36};
    Var v = e.images[i];
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      v = valid_conv(v, scaled(o, filters[k]), kernels[k], 1, fmt::format("{}_conv{}", view, k + 1));
      v = pooled_strips(v, fmt::format("{}_pool{}", view, k + 1));
    }
    v = relu(dense(flatten(v), scaled(o, 196), view + "_dense"));
    features.push_back(dropout(v, o.dropout, view + "_dropout"));
  }
  Var v = dropout(concat(features, 1, "views"), o.dropout, "views_dropout");
  v = dense(relu(dense(v, scaled(o, 98), "dense")), o.classes, "output");
  e.graph.set_output("prediction", v);
  cross_entropy(v, e.label);
  return std::move(e.graph);
}

Graph minerva_evolved(const MinervaOptions& o) {
  require_images(o, {"the evolved network", 42, 94});
  Events e;
  add_inputs(e, o);
  std::vector<Var> features;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::string view = views[i];
    Var v = valid_conv(e.images[i], scaled(o, 32), {8, 3}, 2, view + "_conv1");
    v = dropout(v, o.dropout, view + "_dropout");
    v = valid_conv(v, scaled(o, 20), {6, 7}, 1, view + "_conv2");
    v = valid_conv(v, scaled(o, 28), {12, 39}, 1, view + "_conv3");
    features.push_back(flatten(pooled_strips(v, view + "_pool")));
  }
  Var v = concat(features, 1, "views");
  for (int i = 1; i <= 2; ++i)
    v = dropout(relu(dense(v, scaled(o, 64), fmt::format("dense{}", i))), o.dropout, fmt::format("dropout{}", i));
  v = dense(v, o.classes, "output");
  e.graph.set_output("prediction", v);
  cross_entropy(v, e.label);
  return std::move(e.graph);
}

namespace {

MinervaOptions minerva_options(const Settings& settings, const Shape& sample, std::int64_t classes) {
  if (sample.rank() != 3) refuse("samples of {}; expected (channels, strips, planes)", to_string(sample));
  MinervaOptions o{.strips = sample[1], .planes = sample[2], .channels = sample[0], .classes = classes};
  settings.get("classes", o.classes);
  settings.get("dropout", o.dropout);
  settings.get("width", o.width_multiplier);
  return o;
}

}  // namespace

RegisteredNetwork registered_minerva_epsilon() {
  return {.name = "minerva-epsilon",
          .stored_name = "minerva-epsilon",
          .title = "MINERvA's Epsilon network",
          .make = [](const Settings& settings,
                     const Shape& sample) { return minerva_epsilon(minerva_options(settings, sample, 67)); },
          .published_sample = {1, 127, 50},
          .small_sample = {1, 127, 50},
          .tiny_sample = {1, 108, 22},
          .tiny_settings = Settings({{"width", "0.2"}, {"classes", "5"}}, "a test")};
}

RegisteredNetwork registered_minerva_evolved() {
  return {.name = "minerva-633167",
          .stored_name = "minerva-evolved633167",
          .title = "MINERvA's evolved network 633167",
          .make = [](const Settings& settings,
                     const Shape& sample) { return minerva_evolved(minerva_options(settings, sample, 173)); },
          .published_sample = {2, 127, 94},
          .small_sample = {1, 48, 94},
          .tiny_sample = {1, 42, 94},
          .tiny_settings = Settings({{"width", "0.1"}, {"classes", "5"}}, "a test")};
}

}  // namespace keelson::nets
