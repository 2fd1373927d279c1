#include "apps/climate/verbs.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(
      argc, argv, {"keelson-climate", "Tropical cyclones and atmospheric rivers in climate snapshots, pixel by pixel."},
      [](keelson::app::CommandLine& line) { keelson::climate::define_generate(line); });
}
