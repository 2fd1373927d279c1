#include "apps/minerva/task.hpp"

#include "apps/common/export.hpp"
#include "apps/minerva/detector/detector.hpp"
#include "engine/base/error.hpp"
#include "nets/minerva/minerva.hpp"

namespace keelson::minerva {

std::string network_name(const RunOptions& o) { return std::string(family.prefix) + o.net; }

std::unique_ptr<EventDataset> open_events(const RunOptions& o, const std::string& path, Communicator& world) {
  const EventOptions options{
      .target = o.target, .classes = o.classes, .time = o.channels == "energy+time", .normalise = o.normalise};
  return std::make_unique<EventDataset>(path, options, &world);
}

Graph make_network(const RunOptions& o, std::int64_t planes) {
  const nets::MinervaOptions n{.strips = strips,
                               .planes = planes,
                               .channels = o.channels == "energy+time" ? 2 : 1,
                               .classes = o.target == "segment" ? std::ssize(segment_names()) : o.classes,
                               .dropout = o.dropout,
                               .width_multiplier = o.width};
  return o.net == "epsilon" ? nets::minerva_epsilon(n) : nets::minerva_evolved(n);
}

std::int64_t planes_of(const CheckpointReader& checkpoint) { return app::stored_input_shape(checkpoint, 3)[2]; }

void require_planes(const EventDataset& events, const std::string& path, const CheckpointReader& checkpoint) {
  const std::int64_t read = planes_of(checkpoint);
  if (events.planes() != read)
    refuse(
        "{}: has images of {} planes in the view x, but the network of {} reads {}. Expected the same; the files of "
        "`generate --images cropped` have 50, full ones 94",
        path, events.planes(), checkpoint.path().string(), read);
}

}  // namespace keelson::minerva
