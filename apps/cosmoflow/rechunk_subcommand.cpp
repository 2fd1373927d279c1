#include "apps/common/rechunk_subcommand.hpp"

#include "apps/cosmoflow/data/detail/universe_content.hpp"
#include "apps/cosmoflow/subcommands.hpp"

namespace keelson::cosmoflow {
namespace {

std::vector<app::SampleArray> arrays_of_universes(const hdf5::File& file) {
  if (!file.has("x") && !file.has("full")) return {};
  const auto layout = detail::inspect(file).layout;
  auto sample = layout.volume_shape();
  if (layout.many) sample.insert(sample.begin(), 1);
  return {{layout.volume, sample, layout.many}};
}

}  // namespace

void define_rechunk(app::CommandLine& line) { app::define_rechunk_subcommand(line, "universes", arrays_of_universes); }

}  // namespace keelson::cosmoflow
