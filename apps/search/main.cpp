#include "apps/search/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv, {"keelson-search", "Searches for networks that suit labelled data."},
                               [](keelson::app::CommandLine& line) {
                                 keelson::search::define_run(line);
                                 keelson::search::define_resume(line);
                                 keelson::search::define_status(line);
                                 keelson::search::define_best(line);
                                 keelson::search::define_report(line);
                                 keelson::search::define_lr_range(line);
                                 keelson::search::define_replay(line);
                                 keelson::search::define_compare(line);
                               });
}
