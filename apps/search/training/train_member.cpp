#include "apps/search/training/train_member.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/data/epoch_order.hpp"
#include "search/genome/choices.hpp"
#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

/// Deals samples to members in turn. Each part is in rising order.
std::vector<std::unique_ptr<const Dataset>> dealt(const Dataset& data, const std::vector<std::int64_t>& samples,
                                                  std::int64_t members) {
  std::vector<std::vector<std::int64_t>> parts(static_cast<std::size_t>(members));
  for (std::size_t i = 0; i < samples.size(); ++i) parts[i % parts.size()].push_back(samples[i]);
  std::vector<std::unique_ptr<const Dataset>> sets;
  for (auto& part : parts) {
    std::sort(part.begin(), part.end());
    sets.push_back(std::make_unique<SubsetDataset>(data, std::move(part)));
  }
  return sets;
}

std::filesystem::path checkpoint_after(const NetworkTrainer& trainer, std::int64_t member, int rung) {
  const auto folder = folder_of_rung(trainer.checkpoints_of(member), rung);
  const auto checkpoint = newest_checkpoint(folder);
  if (checkpoint.empty())
    fail("{}: the checkpoint of member {} is not there, which another member goes on with", folder.string(), member);
  return checkpoint;
}

/// The losses of the member's own model and of its partner's on the member's tournament data. A loss that is not finite
/// is the largest number.
std::pair<double, double> compete(const NetworkTrainer& trainer, const MemberData& data, const MemberTask& task) {
  const auto loss_of = [&](std::int64_t member) {
    const auto checkpoint = checkpoint_after(trainer, member, task.interval.source_rung);
    constexpr double worst = std::numeric_limits<double>::max();
    try {
      const double loss = trainer.evaluate(checkpoint, member, task.genome, data.tournament(task.id)).loss;
      return std::isfinite(loss) ? loss : worst;
    } catch (const Error& e) {
      if (std::string(e.what()).find("not finite") == std::string::npos) throw;
      return worst;
    }
  };
  const double own = loss_of(task.id);
  return {own, loss_of(task.interval.partner)};
}

}  // namespace

MemberData::MemberData(const Settings& settings, const Dataset& data) : data_(data) {
  const PopulationTraining& p = settings.population;
  if (settings.method != "ltfb") return;
  const auto held = static_cast<std::int64_t>(std::llround(p.tournament * static_cast<double>(data.size())));
  const std::int64_t rest = data.size() - held;
  if (held < p.members || rest < (p.partition ? p.members : 1))
    refuse(
        "{} training samples are too few for {} members, of which each needs samples for its tournaments{}: "
        "--tournament "
        "{} holds out {}",
        data.size(), p.members, p.partition ? " and for its training" : "", p.tournament, held);
  const EpochOrder order(data.size(), settings.seed, 0);
  std::vector<std::int64_t> for_tournaments, others;
  for (std::int64_t i = 0; i < data.size(); ++i) (i < held ? for_tournaments : others).push_back(order[i]);
  tournament_ = dealt(data, for_tournaments, p.members);
  training_ = dealt(data, others, p.partition ? p.members : 1);
}

const Dataset& MemberData::training(std::int64_t member) const {
  if (training_.empty()) return data_;
  return *training_[training_.size() == 1 ? 0 : static_cast<std::size_t>(member)];
}

const Dataset& MemberData::tournament(std::int64_t member) const {
  return *tournament_.at(static_cast<std::size_t>(member));
}

MemberTask MemberTask::of(const Population& population, const Individual& member) {
  MemberTask task{member.id, member.rung, member.genome, member.intervals.back()};
  if (const std::int64_t partner = task.interval.partner; partner >= 0)
    task.partner = population.all()[static_cast<std::size_t>(partner)]
                       .intervals[static_cast<std::size_t>(task.interval.source_rung)]
                       .training;
  return task;
}

std::string MemberTask::to_json(const Space& space) const {
  return nlohmann::json{{"id", id},
                        {"rung", rung},
                        {"genome", search::to_json(genome, space)},
                        {"source", interval.source},
                        {"source_rung", interval.source_rung},
                        {"partner", interval.partner},
                        {"partner_training", search::to_json(partner, space)}}
      .dump();
}

MemberTask MemberTask::parse(const std::string& text, const Space& space) {
  const auto from = nlohmann::json::parse(text);
  MemberTask task{from["id"], from["rung"], parse_genome(from["genome"], space), {}};
  task.interval = {.source = from["source"],
                   .source_rung = from["source_rung"],
                   .partner = from["partner"],
                   .training = task.genome.training};
  task.partner = parse_training(from["partner_training"], space);
  return task;
}

Result train_member(const NetworkTrainer& trainer, const MemberData& data, const MemberTask& task) {
  Genome genome = task.genome;
  std::int64_t source = task.interval.source;
  std::optional<std::pair<double, double>> tournament;
  if (task.interval.partner >= 0) {
    tournament = compete(trainer, data, task);
    if (tournament->second < tournament->first) {
      source = task.interval.partner;
      genome.training = task.partner;
    }
  }
  TrainingRun run{.id = task.id,
                  .genome = genome,
                  .rung = task.rung,
                  .data = data.training(task.id),
                  .folder = folder_of_rung(trainer.checkpoints_of(task.id), task.rung)};
  if (source >= 0) {
    run.source = checkpoint_after(trainer, source, task.interval.source_rung);
    run.source_id = source;
  }
  Result result = trainer.train(run);
  result.tournament = tournament;
  return result;
}

void remove_member_checkpoints(const Population& population, const NetworkTrainer& trainer, int keep) {
  const auto rungs = static_cast<std::size_t>(population.settings().rungs());
  const bool complete = std::ssize(population.all()) == population.settings().population.members &&
                        std::ranges::all_of(population.all(), [&](const Individual& i) {
                          return !i.failure.empty() || i.results.size() == rungs;
                        });
  const auto kept = population.best(static_cast<std::size_t>(keep));
  std::error_code ignored;
  for (const Individual& i : population.all()) {
    const auto folder = trainer.checkpoints_of(i.id);
    if (complete && std::ranges::find(kept, i.id) == kept.end()) {
      std::filesystem::remove_all(folder, ignored);
      continue;
    }
    const int newest = static_cast<int>(std::ssize(i.results)) - 1;
    for (int rung = 0; rung < newest; ++rung)
      if (complete || !may_be_source(population, i, rung))
        std::filesystem::remove_all(folder_of_rung(folder, rung), ignored);
  }
}

}  // namespace keelson::search
