#include "apps/common/rechunk_subcommand.hpp"

#include "apps/climate/subcommands.hpp"

namespace keelson::climate {
namespace {

/// A file holds one snapshot, so the arrays are samples as wholes.
std::vector<app::SampleArray> arrays_of_snapshot(const hdf5::File& file) {
  std::vector<app::SampleArray> arrays;
  if (!file.has("climate/data")) return arrays;
  for (const char* name : {"climate/data", "climate/labels_0", "climate/labels_1", "climate/labels"})
    if (file.has(name)) arrays.push_back({name, file.info(name).shape});
  return arrays;
}

}  // namespace

void define_rechunk(app::CommandLine& line) { app::define_rechunk_subcommand(line, "snapshots", arrays_of_snapshot); }

}  // namespace keelson::climate
