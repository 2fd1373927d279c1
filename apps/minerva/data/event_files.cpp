#include "apps/minerva/data/event_files.hpp"

#include <fmt/format.h>

#include "engine/base/atomic_file.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::minerva {

void write_events(const std::filesystem::path& path, const EventFileOptions& o, const std::string& set,
                  std::int64_t begin, std::int64_t end) {
  constexpr int gzip_level = 1;
  const Detector detector(o.water);
  EventMaker maker(detector);
  AtomicFile target(path, Target::hdf5);
  auto file = hdf5::File::create(target.temporary().string());
  const std::int64_t events = end - begin;
  const auto shape = [&](View view, std::int64_t n) {
    return hdf5::Dims{n, o.channels, strips, columns_of(o.size, view)};
  };
  constexpr std::array views{View::x, View::u, View::v};
  std::array<std::string, 3> names;
  for (const View view : views) {
    auto& name = names[static_cast<std::size_t>(view)];
    name = fmt::format("img_data/hitimes-{}", view_names[static_cast<std::size_t>(view)]);
    file.make_dataset<float>(name, shape(view, events), shape(view, 1), gzip_level);
  }
  std::vector<std::int64_t> ids;
  std::vector<std::uint16_t> planecodes;
  std::vector<std::uint8_t> segments;
  std::vector<float> zs, image;
  for (std::int64_t i = begin; i < end; ++i) {
    const Event event = maker.make(o.seed, set, i);
    ids.push_back(i);
    planecodes.push_back(static_cast<std::uint16_t>(event.planecode));
    segments.push_back(static_cast<std::uint8_t>(event.segment));
    zs.push_back(static_cast<float>(event.z));
    for (const View view : views) {
      const auto columns = columns_of(o.size, view);
      image.resize(static_cast<std::size_t>(o.channels * strips * columns));
      draw(event, view, columns, o.channels, image);
      file.write_box(names[static_cast<std::size_t>(view)], {i - begin, 0, 0, 0}, shape(view, 1), image.data());
    }
  }
  file.write("event_data/eventids", ids.data(), {events});
  file.write("vtx_data/planecodes", planecodes.data(), {events});
  file.write("vtx_data/segments", segments.data(), {events});
  file.write("vtx_data/zs", zs.data(), {events});
  file.set_attribute("/", "configuration",
                     fmt::format("simulated events {} to {} of the set {}; seed {}; water {}", begin, end - 1, set,
                                 o.seed, o.water ? "filled" : "empty"));
  file.close();
  target.commit();
}

}  // namespace keelson::minerva
