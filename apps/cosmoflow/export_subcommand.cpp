#include "apps/common/export.hpp"

#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/cosmoflow/task.hpp"
#include "engine/graph/topology.hpp"

namespace keelson::cosmoflow {
namespace {

app::ExportedNetwork network_of(const CheckpointReader& checkpoint) {
  app::check_family(checkpoint, family);
  const auto run = app::stored_options<RunOptions>(checkpoint.state().config);
  const Shape x = app::stored_input_shape(checkpoint, 4);
  const auto targets = Topology::parse(checkpoint.state().topology).widths().at("dense3");
  return {make_network(run, x, targets), network_name(run), {{"normalise", normalisation_name(run)}}};
}

}  // namespace

void define_export(app::CommandLine& line) { app::define_export(line, network_of); }

}  // namespace keelson::cosmoflow
