#include "apps/tabular/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv,
                               {"keelson-tabular", "Classes and numbers from the rows of tables, by dense networks."},
                               [](keelson::app::CommandLine& line) {
                                 keelson::tabular::define_generate(line);
                                 keelson::tabular::define_train(line);
                                 keelson::tabular::define_evaluate(line);
                                 keelson::tabular::define_export(line);
                               });
}
