#include "apps/minerva/data/event_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "apps/minerva/detector/detector.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson::minerva {
namespace {

constexpr std::int32_t most_planecode = 214;  // with a code for the water

std::string image_name(std::size_t view) { return fmt::format("img_data/hitimes-{}", view_names[view]); }

ArrayFileOptions event_arrays(const EventOptions& o) {
  return {.x = image_name(0),
          .inputs = {{"u", image_name(1)}, {"v", image_name(2)}},
          .y = o.target == "segment" ? "vtx_data/segments" : "vtx_data/planecodes",
          .layout = ArrayLayout::channels_first,
          .classes = true};
}

void refuse_image(const std::string& path, std::size_t view, const Shape& found, const std::string& expected) {
  refuse("{}: '{}' has images of {} (channels, strips, planes). Expected {}", path, image_name(view), to_string(found),
         expected);
}

}  // namespace

EventDataset::EventDataset(const std::string& path, const EventOptions& options, Communicator* world)
    : path_(path), options_(options), world_(world), events_(path, event_arrays(options), world) {
  if (options_.target == "segment") options_.classes = std::ssize(segment_names());
  check_images();
  for (std::size_t f = 0; f < view_names.size(); ++f) {
    const Shape& stored = events_.fields()[f].shape;
    fields_.push_back({view_names[f], {options_.time ? 2 : 1, stored[1], stored[2]}});
  }
  fields_.push_back({"y", {}, DType::s32});
}

void EventDataset::check_images() const {
  const auto& stored = events_.fields();
  for (std::size_t f = 0; f < view_names.size(); ++f) {
    const Shape& s = stored[f].shape;
    if (s.rank() != 3 || s[1] != strips)
      refuse_image(path_, f, s, fmt::format("{} strips: (1 or 2, {}, planes)", strips, strips));
    if (s[0] != stored[0].shape[0] || s[0] > 2)
      refuse_image(path_, f, s,
                   fmt::format("{}, the same in all views: energies, or energies and times",
                               f == 0 ? "1 or 2 channels" : counted(stored[0].shape[0], "channel")));
    if (f == 0 && s[2] % 2 != 0)
      refuse_image(path_, f, s, "an even number of planes, 50 or 94 in the experiment's files");
    if (f > 0 && s[2] != stored[0].shape[2] / 2)
      refuse_image(path_, f, s,
                   fmt::format("{} planes, half as many as '{}' has", stored[0].shape[2] / 2, image_name(0)));
  }
  if (options_.time && stored[0].shape[0] < 2)
    refuse("{}: the images have no times, only energies. Expected two channels; leave out --channels energy+time",
           path_);
  if (stored[3].shape.elements() != 1)
    refuse("{}: '{}' has {} for each event. Expected one number", path_, event_arrays(options_).y,
           to_string(stored[3].shape));
}

/// Reads an event into memory of this thread, each view (strips, planes, channels) as the files have it. Returns the
/// class.
std::int32_t EventDataset::read_stored_event(std::int64_t index, std::array<const float*, 3>& views) const {
  thread_local std::vector<float> stored;  // large: allocated once
  const auto& fields = events_.fields();
  std::int64_t all = 0;
  for (std::size_t f = 0; f < views.size(); ++f) all += fields[f].shape.elements();
  stored.resize(static_cast<std::size_t>(all));
  std::array<void*, 4> dst{};
  float* at = stored.data();
  for (std::size_t f = 0; f < views.size(); ++f) {
    views[f] = at;
    dst[f] = at;
    at += fields[f].shape.elements();
  }
  std::int32_t label = 0;
  dst[3] = &label;
  events_.read(index, dst.data());
  const std::int32_t most =
      options_.target == "segment" ? static_cast<std::int32_t>(options_.classes - 1) : most_planecode;
  if (label < 0 || label > most)
    refuse("{}: event {} has the {} {}. Expected 0 to {}", path_, index, options_.target, label, most);
  return class_of(label, label);
}

std::int32_t EventDataset::class_of(std::int32_t planecode, std::int32_t segment) const {
  if (options_.target == "segment") return segment;
  return std::min(planecode, static_cast<std::int32_t>(options_.classes - 1));
}

void EventDataset::read(std::int64_t index, void* const* dst) const {
  std::array<const float*, 3> views{};
  *static_cast<std::int32_t*>(dst[3]) = read_stored_event(index, views);
  const std::int64_t stored = events_.fields()[0].shape[0], read = fields_[0].shape[0];
  const bool plain = options_.normalise == "none";
  for (std::size_t f = 0; f < views.size(); ++f) {
    auto* to = static_cast<float*>(dst[f]);
    const std::int64_t cells = fields_[f].shape.elements() / read;
    for (std::int64_t i = 0; i < cells; ++i)
      for (std::int64_t c = 0; c < read; ++c) {
        const float value = views[f][i * stored + c];
        // Most cells saw no light.
        *to++ = plain || value == 0 ? value : std::copysign(std::log1p(std::abs(value)), value);
      }
  }
}

Energies EventDataset::energies(std::int64_t index) const {
  std::array<const float*, 3> views{};
  Energies e;
  e.truth = read_stored_event(index, views);
  for (std::size_t f = 0; f < views.size(); ++f) {
    const Shape& s = events_.fields()[f].shape;
    for (std::int64_t i = 0; i < s[1] * s[2]; ++i) e.views[f].push_back(views[f][i * s[0]]);
  }
  return e;
}

Vertices EventDataset::vertices() const {
  const ArrayFileDataset arrays(path_,
                                {.x = "vtx_data/planecodes",
                                 .inputs = {{"segments", "vtx_data/segments"}, {"zs", "vtx_data/zs"}},
                                 .y = "",
                                 .layout = ArrayLayout::none},
                                world_);
  for (const Field& f : arrays.fields())
    if (f.shape.elements() != 1)
      refuse("{}: the group vtx_data has {} for each event in {}. Expected one number", path_, to_string(f.shape),
             f.name);
  if (arrays.size() != size())
    refuse("{}: has {} in vtx_data and {} in img_data. Expected as many", path_, counted(arrays.size(), "event"),
           size());
  Vertices v;
  for (std::int64_t i = 0; i < arrays.size(); ++i) {
    float planecode = 0, segment = 0, z = 0;
    void* const dst[] = {&planecode, &segment, &z};
    arrays.read(i, dst);
    v.planecodes.push_back(static_cast<std::int32_t>(planecode));
    v.segments.push_back(static_cast<std::int32_t>(segment));
    v.z.push_back(z);
  }
  return v;
}

std::string EventDataset::describe() const {
  return fmt::format("{} of {} x {}, {} and {} planes with {} under {}", counted(size(), "event"), strips, planes(),
                     fields_[1].shape[2], fields_[2].shape[2],
                     options_.target == "segment" ? "segments" : fmt::format("{} classes of planecodes", classes()),
                     path_);
}

std::uint64_t EventDataset::digest() const {
  Digest digest;
  digest.add(events_.digest()).add(options_.target).add(options_.classes).add(options_.time).add(options_.normalise);
  return digest.value();
}

}  // namespace keelson::minerva
