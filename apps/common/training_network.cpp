#include "apps/common/blueprint.hpp"
#include "apps/common/toml_file.hpp"
#include "apps/common/training.hpp"

/// Networks that change while they train: --apoptosis, --grow.
namespace keelson::app {

std::string TrainingRun::blueprint(const std::string& path) const {
  if (checkpoint_) {
    const RunState& state = checkpoint_->state();
    const auto text = state.texts.find(blueprint_text);
    const auto before = state.config.find("grow");
    if (text != state.texts.end() && before != state.config.end() && before->second == path) return text->second;
  }
  return read_toml(path, "--grow");
}

void TrainingRun::let_network_change(const TrainingTask& task, const Graph& whole, const Dataset& training,
                                     Communicator& world, TrainerOptions& t) const {
  if (apoptosis_)
    t.change_network = Apoptosis(*apoptosis_, {.graph = task.graph,
                                               .training = training,
                                               .ranks = &world,
                                               .batch = t.batch,
                                               .epochs = t.epochs,
                                               .seed = t.seed,
                                               .precision = t.precision,
                                               .threads = t.threads});
  if (growth_) let_grow(t, *growth_, whole, {training, task.validation, &world});
}

}  // namespace keelson::app
