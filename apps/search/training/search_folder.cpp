#include "apps/search/training/search_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "search/genome/choices.hpp"
#include "search/genome/extents.hpp"

namespace keelson::search {
namespace {

/// What follows a convolution or a dense layer.
template <class GeneName, class Part>
std::string behind(const Choices<GeneName, Part>& choices) {
  std::string text = choices.yes(GeneName::batch_norm) ? " batch norm" : "";
  text += " " + choices.text(GeneName::activation);
  if (choices.number(GeneName::dropout) > 0) text += " dropout " + choices.text(GeneName::dropout);
  return text;
}

/// " 3 times": a layer with two copies.
template <class GeneName, class Part>
std::string times(const Choices<GeneName, Part>& choices) {
  const std::int64_t copies = choices.has(GeneName::copies) ? choices.whole(GeneName::copies) : 0;
  return copies > 0 ? fmt::format(" {} times", copies + 1) : "";
}

std::string stage_text(const Stage& stage, const Space& space) {
  const StageChoices choices(stage, space.stage);
  const StageKind kind = kind_of(stage, space);
  if (kind == StageKind::pool) return "pool 2";
  if (is_recurrent(kind)) {
    std::string text = choices.text(StageGene::kind) + " " + choices.text(StageGene::hidden);
    if (choices.number(StageGene::dropout) > 0) text += " dropout " + choices.text(StageGene::dropout);
    return text;
  }
  std::string kernel;
  const auto dims = static_cast<std::size_t>(space.spatial_dims());
  for (std::size_t d = 0; d < dims; ++d)
    kernel += (d == 0 ? "" : "x") + choices.text(static_cast<StageGene>(kernel_gene(d, dims)));
  if (kind == StageKind::residual) return "residual " + kernel + behind(choices) + times(choices);
  std::string text = fmt::format("conv {} {}", choices.text(StageGene::filters), kernel);
  if (choices.whole(StageGene::stride) > 1) text += " stride " + choices.text(StageGene::stride);
  if (choices.text(StageGene::padding) == "valid") text += " valid";
  return text + behind(choices) + times(choices);
}

}  // namespace

ReadSearch::ReadSearch(const std::filesystem::path& folder) : folder_{folder} {
  SearchLog log(folder_.log(), false);
  log.read_new([&](const std::string& line) { population_.apply(line); });
  note_broken_lines(log);
  if (!population_.begun())
    refuse(
        "{}: holds no search: the first line of {} is missing. Was the search ended before it began? Start it again "
        "with --overwrite",
        folder.string(), folder_.log().filename().string());
}

void note_broken_lines(const SearchLog& log) {
  if (log.broken_lines() == 0) return;
  fmt::print(stderr,
             "note: {}: left out {} that cannot be read, from line {} on; what was lost with it is done again\n",
             log.path().string(), counted(log.broken_lines(), "line"), log.first_broken());
}

std::string summary_of(const Genome& genome, const Space& space) {
  std::string text;
  for (const Stage& s : genome.stages) text += stage_text(s, space) + ", ";
  for (const DenseLayer& d : genome.dense) {
    const DenseChoices choices(d, space.dense);
    text += "dense " + choices.text(DenseGene::units) + behind(choices) + times(choices) + ", ";
  }
  const TrainingChoices training(genome.training, space.training);
  return fmt::format("{}output {}; {} {}, batch {}, {}", text, space.outputs, training.text(TrainingGene::optimizer),
                     training.text(TrainingGene::rate), training.text(TrainingGene::batch),
                     training.text(TrainingGene::schedule));
}

std::string result_of(const Individual& i, const Settings& settings) {
  const Result* last = i.last();
  if (last == nullptr) return fmt::format("{}: no result yet", i.id);
  return fmt::format("{}: loss {:.5g}{}, {}", i.id, last->loss,
                     settings.space.classes ? fmt::format(", accuracy {:.4f}", last->metric) : "",
                     counted(i.cost.parameters, "parameter"));
}

namespace {

/// "12 of 64 intervals, 3 with another's weights; ".
std::string exchanges_of(const Population& population) {
  const Settings& s = population.settings();
  std::int64_t done = 0, copied = 0;
  for (const Individual& i : population.all()) {
    done += std::ssize(i.results);
    for (const Interval& interval : i.intervals) copied += interval.source >= 0 && interval.source != i.id ? 1 : 0;
  }
  return fmt::format("{} of {} intervals, {} with another's weights; ", done, s.population.members * s.rungs(), copied);
}

}  // namespace

std::string state_of(const Population& population) {
  const auto failed = std::ranges::count_if(population.all(), [](const Individual& i) { return !i.failure.empty(); });
  std::string text =
      fmt::format("{}, {} running, {} failed", counted(static_cast<std::int64_t>(population.all().size()), "network"),
                  population.running(), failed);
  if (population.settings().trains_population()) text = exchanges_of(population) + text;
  const auto best = population.best(1);
  if (!best.empty())
    text = fmt::format("best {}; {}",
                       result_of(population.all()[static_cast<std::size_t>(best[0])], population.settings()), text);
  return text;
}

}  // namespace keelson::search
