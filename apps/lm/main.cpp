#include "apps/lm/subcommands.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv, {"keelson-lm", "Language models of text, by recurrent networks."},
                               [](keelson::app::CommandLine& line) {
                                 keelson::lm::define_corpus(line);
                                 keelson::lm::define_vocab(line);
                                 keelson::lm::define_train(line);
                                 keelson::lm::define_evaluate(line);
                                 keelson::lm::define_export(line);
                                 keelson::lm::define_sample(line);
                                 keelson::lm::define_scaling(line);
                               });
}
