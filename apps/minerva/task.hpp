#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/common/evaluation.hpp"
#include "apps/minerva/data/event_dataset.hpp"
#include "apps/minerva/run_options.hpp"
#include "engine/graph/graph.hpp"

namespace keelson::minerva {

inline constexpr app::NetworkFamily family{"minerva-", "vertex finding in MINERvA"};

/// The name in checkpoints.
std::string network_name(const RunOptions& o);

/// Opens events as the options say. Collective.
std::unique_ptr<EventDataset> open_events(const RunOptions& o, const std::string& path, Communicator& world);

/// The network for events with so many planes in the view x.
Graph make_network(const RunOptions& o, std::int64_t planes);

/// The planes of the view x that a checkpoint's network reads.
std::int64_t planes_of(const CheckpointReader& checkpoint);

/// Throws InputError, naming both, if the events have images of another size than the network reads.
void require_planes(const EventDataset& events, const std::string& path, const CheckpointReader& checkpoint);

}  // namespace keelson::minerva
