#include "apps/bench/verbs.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv, {"keelson-bench", "How fast this machine trains, and where the time goes."},
                               [](keelson::app::CommandLine& line) { keelson::bench::define_step(line); });
}
