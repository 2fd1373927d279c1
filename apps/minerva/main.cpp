#include "apps/minerva/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv,
                               {"keelson-minerva", "Where in the MINERvA detector did a neutrino interact?"},
                               [](keelson::app::CommandLine& line) {
                                 keelson::minerva::define_generate(line);
                                 keelson::minerva::define_train(line);
                                 keelson::minerva::define_evaluate(line);
                                 keelson::minerva::define_export(line);
                               });
}
