#include "apps/common/export.hpp"

#include <fmt/ranges.h>

#include "apps/climate/subcommands.hpp"
#include "apps/climate/task.hpp"
#include "apps/climate/weather/channels.hpp"
#include "apps/common/subcommand.hpp"

namespace keelson::climate {
namespace {

/// The names of the network's channels, in order.
std::string channel_list(const RunOptions& o) {
  std::vector<std::string> names;
  for (int c = 0; c < kChannels; ++c)
    if (o.channels.empty()) names.emplace_back(kChannelNames[static_cast<std::size_t>(c)]);
  for (const int c : o.channels) names.emplace_back(kChannelNames.at(static_cast<std::size_t>(c)));
  return fmt::format("{}", fmt::join(names, ","));
}

app::ExportedNetwork network_of(const CheckpointReader& checkpoint) {
  app::check_family(checkpoint, family);
  const auto& config = checkpoint.state().config;
  const auto run = app::stored_options<RunOptions>(config);
  std::map<std::string, std::string> metadata{{"channels", channel_list(run)}};
  if (config.contains("ranges")) metadata["ranges"] = config.at("ranges");
  return {make_network(run, app::stored_input_shape(checkpoint, 3)), network_name(run), std::move(metadata)};
}

}  // namespace

void define_export(app::CommandLine& line) { app::define_export(line, network_of); }

}  // namespace keelson::climate
