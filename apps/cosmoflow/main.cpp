#include "apps/common/stage_data.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "apps/cosmoflow/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(
      argc, argv,
      {"keelson-cosmoflow", "Cosmological parameters from the distribution of matter, by 3-D convolutional networks."},
      [](keelson::app::CommandLine& line) {
        keelson::cosmoflow::define_generate(line);
        keelson::cosmoflow::define_rechunk(line);
        keelson::cosmoflow::define_train(line);
        keelson::cosmoflow::define_evaluate(line);
        keelson::cosmoflow::define_export(line);
        keelson::app::define_stage(line, {keelson::cosmoflow::find_universes});
      });
}
