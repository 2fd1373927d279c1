#include "apps/common/export.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/tabular/subcommands.hpp"
#include "apps/tabular/task.hpp"

namespace keelson::tabular {
namespace {

app::ExportedNetwork network_of(const CheckpointReader& checkpoint) {
  app::check_family(checkpoint, family);
  const auto run = app::stored_options<RunOptions>(checkpoint.state().config);
  const Scaling scaling = scaling_of(checkpoint);
  return {make_network(run, scaling), network_name, {{"scaling", scaling.to_json()}}};
}

}  // namespace

void define_export(app::CommandLine& line) { app::define_export(line, network_of); }

}  // namespace keelson::tabular
