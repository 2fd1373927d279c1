#include "apps/common/restart.hpp"

#include <utility>

namespace keelson::app {
namespace fs = std::filesystem;

bool Restart::begun(Communicator& world) {
  token = world.allgather(token)[0];
  folder.path = world.allgather(folder.path.string())[0];
  return !token.empty();
}

std::optional<CheckpointReader> Restart::open_copy(Communicator& world) const {
  if (world.allgather(copy ? "yes" : "no")[0] != "yes") return std::nullopt;
  return CheckpointReader(copy.get(), copy ? checkpoints(1).path_of(copy->state.step) : fs::path(), &world);
}

void Restart::take_lock(const RunFolder& of_run) {
  folder = of_run;
  if (lock) return;
  if (token.empty())
    lock.emplace(folder.path);
  else
    lock.emplace(folder.path, token);
  token = lock->token();
}

void Restart::complete_checkpoints(int keep) const {
  if (copy && !fs::exists(checkpoints(keep).path_of(copy->state.step))) checkpoints(keep).write(*copy);
}

void Restart::keep(const Trainer& trainer, const std::string& how_to_continue) {
  loss = trainer.loss();
  if (trainer.last_copy()) copy = trainer.last_copy();
  hint = how_to_continue;
}

void TellRestart::on_start(const RunState& s, const fs::path&) {
  auto loss = std::exchange(restart_.loss, std::nullopt);
  if (!loss) return;
  loss->restarted_from = s.step;
  loss->rebuild = std::chrono::duration<double>(Restart::Clock::now() - restart_.regrouped).count();
  for (auto* o : others_) o->on_ranks_lost(s, *loss);
}

}  // namespace keelson::app
