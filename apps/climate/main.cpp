#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/subcommands.hpp"
#include "apps/common/stage_data.hpp"

int main(int argc, char** argv) {
  using namespace keelson;
  return app::run_app(
      argc, argv, {"keelson-climate", "Tropical cyclones and atmospheric rivers in climate snapshots, pixel by pixel."},
      [](app::CommandLine& line) {
        climate::define_generate(line);
        climate::define_rechunk(line);
        climate::define_train(line);
        climate::define_evaluate(line);
        climate::define_export(line);
        climate::define_label(line);
        climate::define_plot(line);
        app::define_stage(line, {climate::find_snapshots, {"stats.h5"}});
      });
}
