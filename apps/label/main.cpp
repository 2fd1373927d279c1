#include "apps/label/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(
      argc, argv, {"keelson-label", "Asks people for the labels of images that matter, and learns from them."},
      [](keelson::app::CommandLine& line) {
        keelson::label::define_generate(line);
        keelson::label::define_start(line);
        keelson::label::define_train(line);
        keelson::label::define_lr_range(line);
        keelson::label::define_suggest(line);
        keelson::label::define_label(line);
        keelson::label::define_serve(line);
        keelson::label::define_report(line);
        keelson::label::define_simulate(line);
      });
}
