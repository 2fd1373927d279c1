#include "apps/lm/verbs.hpp"

int main(int argc, char** argv) {
  return keelson::app::run_app(argc, argv, {"keelson-lm", "Language models of text, by recurrent networks."},
                               [](keelson::app::CommandLine& line) {
                                 keelson::lm::define_vocab(line);
                                 keelson::lm::define_corpus(line);
                               });
}
