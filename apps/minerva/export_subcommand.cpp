#include "apps/common/export.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/minerva/subcommands.hpp"
#include "apps/minerva/task.hpp"

namespace keelson::minerva {
namespace {

app::ExportedNetwork exported_network(const CheckpointReader& checkpoint) {
  app::check_family(checkpoint, family);
  const auto run = app::stored_options<RunOptions>(checkpoint.state().config);
  return {make_network(run, planes_of(checkpoint)),
          network_name(run),
          {{"target", run.target}, {"channels", run.channels}, {"normalise", run.normalise}}};
}

}  // namespace

void define_export(app::CommandLine& line) { app::define_export(line, exported_network); }

}  // namespace keelson::minerva
