#include "apps/common/ensemble_evaluation.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {
namespace fs = std::filesystem;

bool MemberNetworks::is_ensemble(const EvaluationOptions& o, Communicator& world) {
  return world.allgather(EnsembleFile::exists(o.checkpoint) ? "yes" : "no")[0] == "yes";
}

void MemberNetworks::refuse_options(const EvaluationOptions& o) {
  if (o.calibrate || !o.report.empty() || !o.out_of_bag.empty())
    refuse(
        "--calibrate, --report, --out-of-bag: --checkpoint {} is not the folder of an ensemble, which train --members "
        "makes",
        o.checkpoint);
}

bool MemberNetworks::wanted(const EvaluationOptions& o, Communicator& world) {
  const bool ensemble = is_ensemble(o, world);
  if (!ensemble) refuse_options(o);
  return ensemble;
}

MemberNetworks::MemberNetworks(const EvaluationOptions& o, Launch& launch, const NetworkFamily& family)
    : options_(o), launch_(launch), folder_(o.checkpoint) {
  const auto file = EnsembleFile::read(folder_, launch.world);
  ensemble_ = file.has_value();
  if (!file) {
    checkpoints_.emplace_back(folder_, true, &launch.world);
    check_family(checkpoints_.back(), family);
    return;
  }
  if (ranks_of(o.replica.extents()) > 1)
    refuse("--spatial, --channel-parallel, --stages: each rank evaluates whole members of an ensemble; leave them out");
  if (!o.trace.file.empty()) refuse("--trace: the evaluation of an ensemble is not traced; name one of its members");
  for (const auto& m : file->members) {
    checkpoints_.emplace_back(fs::path(folder_) / MemberRecord::folder(m.member), true, &launch.world);
    check_family(checkpoints_.back(), family);
  }
}

std::string MemberNetworks::describe() const {
  if (!ensemble_) return fmt::format("{}: epoch {}", folder_, state().epoch);
  std::vector<std::int64_t> epochs;
  for (const auto& c : checkpoints_) epochs.push_back(c.state().epoch);
  return fmt::format("{}: {} members (epochs {})", folder_, size(), fmt::join(epochs, ", "));
}

void MemberNetworks::load(const std::function<Graph(const CheckpointReader&)>& make) {
  for (const auto& c : checkpoints_) graphs_.push_back(with_stored_widths(make(c), c));
  device_ = open_device(options_.device, launch_);
  for (std::size_t m = 0; m < checkpoints_.size(); ++m)
    parameters_.push_back(std::make_unique<Parameters>(graphs_[m], *device_.context, checkpoints_[m].state().seed));
  for (std::size_t m = 0; m < checkpoints_.size(); ++m)
    checkpoints_[m].check(checkpoints_[m].state().network, *parameters_[m], std::nullopt);
}

void MemberNetworks::run(const Dataset& data, const Outputs& outputs, ensemble::Combination& combination,
                         const ensemble::EnsembleEvaluator::Metrics& of_ensemble,
                         const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members) {
  std::vector<ensemble::EnsembleMember> members;
  for (std::size_t m = 0; m < parameters_.size(); ++m) members.push_back({&graphs_[m], parameters_[m].get()});
  ensemble::EnsembleEvaluator evaluator(members, data, &launch_.world,
                                        {.batch = options_.batch,
                                         .threads = decide(options_.loader, launch_),
                                         .prediction = outputs.prediction,
                                         .variance = outputs.variance});
  for (std::size_t m = 0; m < checkpoints_.size(); ++m)  // parameters have memory since the first plan
    checkpoints_[m].load(checkpoints_[m].state().network, *parameters_[m], std::nullopt);
  evaluator.run(combination, of_ensemble, of_members);
}

}  // namespace keelson::app
