#include "apps/common/ensemble_evaluation.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {
namespace fs = std::filesystem;

bool MemberNetworks::wanted(const EvaluationOptions& o, Communicator& world) {
  const bool ensemble = world.allgather(EnsembleFile::exists(o.checkpoint) ? "yes" : "no")[0] == "yes";
  if (!ensemble && (o.calibrate || !o.report.empty()))
    refuse("--calibrate, --report: --checkpoint {} is not the folder of an ensemble, which train --members makes",
           o.checkpoint);
  return ensemble;
}

MemberNetworks::MemberNetworks(const EvaluationOptions& o, Launch& launch, const NetworkFamily& family)
    : options_(o), launch_(launch), folder_(o.checkpoint) {
  if (ranks_of(o.replica.extents()) > 1)
    refuse("--spatial, --channel-parallel, --stages: each rank evaluates whole members of an ensemble; leave them out");
  if (!o.trace.file.empty()) refuse("--trace: the evaluation of an ensemble is not traced; name one of its members");
  const auto file = EnsembleFile::read(folder_, launch.world);
  if (!file) refuse("{}: has disappeared", EnsembleFile::path(folder_).string());
  for (const auto& m : file->members) {
    checkpoints_.emplace_back(fs::path(folder_) / MemberRecord::folder(m.member), true, &launch.world);
    check_family(checkpoints_.back(), family);
  }
}

std::string MemberNetworks::describe() const {
  std::vector<std::int64_t> epochs;
  for (const auto& c : checkpoints_) epochs.push_back(c.state().epoch);
  return fmt::format("{}: {} members (epochs {})", folder_, size(), fmt::join(epochs, ", "));
}

void MemberNetworks::load(const Graph& graph) {
  graph_ = &graph;
  device_ = open_device(options_.device, launch_);
  for (const auto& c : checkpoints_)
    parameters_.push_back(std::make_unique<Parameters>(graph, *device_.context, c.state().seed));
  for (std::size_t m = 0; m < checkpoints_.size(); ++m)
    checkpoints_[m].check(checkpoints_[m].state().network, *parameters_[m], std::nullopt);
}

void MemberNetworks::run(const Dataset& data, const std::string& prediction, ensemble::Combination& combination,
                         const ensemble::EnsembleEvaluator::Metrics& of_ensemble,
                         const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members) {
  std::vector<Parameters*> parameters;
  for (const auto& p : parameters_) parameters.push_back(p.get());
  ensemble::EnsembleEvaluator evaluator(
      *graph_, parameters, data, &launch_.world,
      {.batch = options_.batch, .threads = decide(options_.loader, launch_), .prediction = prediction});
  for (std::size_t m = 0; m < checkpoints_.size(); ++m)  // parameters have memory since the first plan
    checkpoints_[m].load(checkpoints_[m].state().network, *parameters_[m], std::nullopt);
  evaluator.run(combination, of_ensemble, of_members);
}

}  // namespace keelson::app
