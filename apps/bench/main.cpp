#include "apps/bench/subcommands.hpp"

int main(int argc, char** argv) {
  using namespace keelson;
  return app::run_app(argc, argv, {"keelson-bench", "How fast this machine trains, and where the time goes."},
                      [](app::CommandLine& line) {
                        bench::define_step(line);
                        bench::define_ops(line);
                        bench::define_allreduce(line);
                        bench::define_input(line);
                        bench::define_scale(line);
                        bench::define_compare(line);
                        bench::define_stack(line);
                      });
}
