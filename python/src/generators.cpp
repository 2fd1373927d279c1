
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "apps/climate/weather/generate.hpp"
#include "apps/cosmoflow/universe/generate.hpp"
#include "apps/lm/source/corpus.hpp"
#include "apps/lm/source/entropy.hpp"
#include "engine/base/error.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

/// Lets Ctrl-C end a generator. When it throws, complete files stay.
void check_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::int64_t generate_universes(const std::string& folder, std::int64_t train, std::int64_t validation,
                                std::int64_t test, int size, const std::string& prior, int particles,
                                std::uint64_t seed, nb::handle comm) {
  const auto ranks = ranks_of(comm);
  universe::GenerateOptions o;
  o.directory = folder;
  o.train = train;
  o.validation = validation;
  o.test = test;
  o.prior = universe::prior_preset(prior);
  o.grid = size;
  o.particles_per_cell_side = particles;
  o.seed = seed;
  if (ranks) {
    o.rank = ranks->get().rank();
    o.ranks = ranks->get().size();
  }
  const nb::gil_scoped_release release;
  const auto report = universe::generate(o, [](const universe::GenerateProgress&) { check_signals(); });
  if (ranks) ranks->get().barrier();
  return report.written;
}

std::int64_t generate_snapshots(const std::string& folder, std::int64_t train, std::int64_t validation,
                                std::int64_t test, int rows, int columns, double cyclones, double rivers, double noise,
                                std::uint64_t seed, int threads, nb::handle comm) {
  const auto ranks = ranks_of(comm);
  climate::GenerateOptions o;
  o.directory = folder;
  o.snapshots = {train, validation, test};
  o.grid = {.rows = rows, .columns = columns};
  o.rates = {.cyclones = cyclones, .rivers = rivers};
  o.noise = noise;
  o.seed = seed;
  climate::check(o);
  const nb::gil_scoped_release release;
  const auto alone = ranks ? nullptr : comm::make_self();
  climate::Generator generator(o, ranks ? ranks->get() : *alone, threads);
  generator.prepare();
  generator.make([](std::int64_t, std::int64_t) { check_signals(); });
  generator.write_statistics();
  return generator.written();
}

/// Writes texts, and returns the best possible perplexities by name.
std::map<std::string, double> write_texts(const std::string& folder, const std::map<std::string, std::int64_t>& tokens,
                                          std::int64_t vocab_size, std::int64_t branching, std::int64_t topics,
                                          std::int64_t sentence, std::uint64_t seed) {
  const auto chain = lm::make_chain(
      {.words = vocab_size, .branching = branching, .topics = topics, .sentence = sentence, .seed = seed});
  const auto words = lm::made_up_words(vocab_size, seed);
  std::uint64_t split = 0;
  for (const char* file : {"ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"})
    lm::write_corpus(chain, words, seed, split++, tokens.at(file), std::filesystem::path(folder) / file,
                     [](std::int64_t) { check_signals(); });
  const auto pi = lm::stationary(chain);
  const auto ngram = [&](int order) { return std::exp(lm::ngram_entropy(chain, pi, order)); };
  return {{"best", std::exp(lm::entropy_rate(chain, pi))},
          {"unigram", ngram(1)},
          {"bigram", ngram(2)},
          {"trigram", ngram(3)}};
}

}  // namespace

void bind_generators(nb::module_& m) {
  m.def(
      "generate_universes", &generate_universes, nb::arg("folder"), nb::kw_only(), nb::arg("train") = 0,
      nb::arg("validation") = 0, nb::arg("test") = 0, nb::arg("size") = 32, nb::arg("prior") = "wide",
      nb::arg("particles") = 2, nb::arg("seed") = 1, nb::arg("comm") = nb::none(),
      "Makes universes in the folders train, validation and test: a Gaussian random field, displaced by Lagrangian\n"
      "perturbation theory and counted in size^3 cells. Complete files of the same settings are kept. particles: per\n"
      "side of a cell. prior: 'wide' or 'public'. Returns how many this rank has written. Collective with comm.");
  m.def("generate_snapshots", &generate_snapshots, nb::arg("folder"), nb::kw_only(), nb::arg("train") = 0,
        nb::arg("validation") = 0, nb::arg("test") = 0, nb::arg("rows") = 768, nb::arg("columns") = 1152,
        nb::arg("cyclones") = 1.7, nb::arg("rivers") = 4.3, nb::arg("noise") = 0.001, nb::arg("seed") = 1,
        nb::arg("threads") = 1, nb::arg("comm") = nb::none(),
        "Makes climate snapshots with true masks of tropical cyclones and atmospheric rivers. Complete files of the "
        "same\n"
        "settings are kept. Returns how many this rank has written. Collective with comm.");
  m.def("_write_texts", &write_texts, nb::arg("folder"), nb::arg("tokens"), nb::arg("vocab_size"), nb::arg("branching"),
        nb::arg("topics"), nb::arg("sentence"), nb::arg("seed"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace keelson::python
