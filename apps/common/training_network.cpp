#include "apps/common/blueprint.hpp"
#include "apps/common/config_file.hpp"
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

Graph TrainingRun::starting_network_of(const Graph& whole) const {
  try {
    return starting_network(whole, *growth_);
  } catch (const InputError& e) {
    refuse("'{}': {}", blueprint_path_, e.what());
  }
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
  if (!growth_) return;
  if (growth_->epochs.empty() && !task.validation)
    refuse(
        "--grow without validation data: the network grows when validations no longer become better. Give validation "
        "data, or epochs in the blueprint");
  t.change_network = Growth(*growth_, {.graph = whole,
                                       .training = training,
                                       .ranks = &world,
                                       .seed = t.seed,
                                       .precision = t.precision,
                                       .threads = t.threads});
  t.learning_rate = [rule = growth_->rate, schedule = t.schedule, epochs = t.epochs](const RunState& state) {
    return grown_rate(rule, schedule, epochs, state);
  };
}

}  // namespace keelson::app
