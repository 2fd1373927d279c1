#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/common/subcommand.hpp"
#include "apps/search/source_text.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "apps/search/training/train_network.hpp"
#include "backends/registry.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/onnx/export.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"
#include "search/genome/design.hpp"

namespace keelson::search {
namespace {

namespace fs = std::filesystem;

struct BestOptions {
  std::vector<std::string> folders;
  std::string out;
  std::int64_t network = -1, list = 5;
};

/// Writes the checkpoint, and the ONNX model of its parameters.
void write_parameters(const fs::path& from, const fs::path& to, const Genome& genome, const Space& space) {
  fs::copy_file(from, to / "checkpoint.h5", fs::copy_options::overwrite_existing);
  const auto context = backends::make_context("cpu", "");
  const Graph graph = network_of(genome, space);
  Parameters parameters(graph, *context, 0);
  const Plan plan(graph, parameters, {.batch = 1, .training = false});  // gives the parameters memory
  const CheckpointReader reader(to / "checkpoint.h5", false, nullptr);
  reader.load(reader.state().network, parameters, std::nullopt);
  export_onnx(graph, parameters, to / "network.onnx", {.name = reader.state().network});
}

ExitCode best(const BestOptions& o) {
  if (o.folders.size() != 1) refuse("best: give the folder of one search");
  const ReadSearch search(o.folders[0]);
  const Population& p = search.population();
  const Space& space = p.settings().space;
  const auto ids = p.best(static_cast<std::size_t>(o.list));
  if (ids.empty()) refuse("{}: no network has a result yet", o.folders[0]);
  const std::int64_t id = o.network >= 0 ? o.network : ids[0];
  if (id >= std::ssize(p.all())) refuse("--network {}: there are the networks 0 to {}", id, p.all().size() - 1);
  const Individual& chosen = p.all()[static_cast<std::size_t>(id)];
  if (o.out.empty()) {
    for (const std::int64_t k : ids)
      fmt::print("{}\n  {}\n", result_of(p.all()[static_cast<std::size_t>(k)], p.settings()),
                 summary_of(p.all()[static_cast<std::size_t>(k)].genome_of_last(), space));
    return ExitCode::done;
  }
  const Genome genome = chosen.genome_of_last();
  fs::create_directories(o.out);
  write_atomically(fs::path(o.out) / "genome.json", to_json(genome, space) + "\n", Target::output);
  write_atomically(fs::path(o.out) / "network.hpp", cpp_source(genome, space), Target::output);
  write_atomically(fs::path(o.out) / "network.py", python_source(genome, space), Target::output);
  const auto checkpoint = newest_checkpoint(checkpoints_of_last(search.folder().path, chosen, p.settings()));
  if (!checkpoint.empty()) write_parameters(checkpoint, o.out, genome, space);
  fmt::print("{}\n  {}\n{}: genome.json, network.hpp, network.py{}\n", result_of(chosen, p.settings()),
             summary_of(genome, space), o.out,
             checkpoint.empty() ? "; the checkpoint was not kept (--keep)" : ", checkpoint.h5, network.onnx");
  return ExitCode::done;
}

}  // namespace

void define_best(app::CommandLine& line) {
  auto o = std::make_shared<BestOptions>();
  app::Subcommand& v = line.subcommand(
      "best", "Print the best networks of a search, or write one of them: checkpoint, ONNX, C++, Python",
      [o](app::Launch& launch) { return launch.world.rank() == 0 ? best(*o) : ExitCode::done; });
  v.positional("folder", o->folders, "Folder of the search", "DIR");
  v.option("--list", o->list, "Print so many networks", "N").positive();
  v.option_without_default("--network", o->network, "Number of the network to write; default: the best", "N")
      .non_negative();
  v.option_without_default("--out", o->out, "Folder to write the network into", "DIR");
}

}  // namespace keelson::search
