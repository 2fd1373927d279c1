#include "apps/common/restart.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace fs = std::filesystem;

bool Restart::begun(Communicator& world) {
  // The token and the folder are sent together. A rank that knew only one of them, since another rank was lost in
  // between, could not go on as the first rank.
  const auto known = world.allgather(token + "\n" + folder.path.string())[0];
  const auto end = known.find('\n');
  token = known.substr(0, end);
  folder.path = known.substr(end + 1);
  return !token.empty();
}

/// The last checkpoint; an earlier one if the rank that should have written the last was lost.
std::string Restart::newest_written() const {
  if (last.empty() || fs::exists(last)) return last;
  std::string found;
  for (const auto& file : checkpoints(1).list())
    if (file.filename() < fs::path(last).filename()) found = std::max(found, file.string());
  return found;
}

std::optional<CheckpointReader> Restart::open_checkpoint(Communicator& world) const {
  if (world.allgather(copy ? "yes" : "no")[0] == "yes")
    return CheckpointReader(copy.get(), copy ? checkpoints(1).path_of(copy->state.step) : fs::path(), &world);
  const auto file = world.allgather(world.rank() == 0 ? newest_written() : "")[0];
  if (file.empty() && last.empty()) return std::nullopt;
  if (file.empty())
    fail(
        "the ranks that kept {} were lost before it was written, and there is no earlier checkpoint: start the job "
        "again",
        last);
  return CheckpointReader(file, false, &world);
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

void Restart::remove_lost_lock() const {
  if (!lock && !token.empty()) FolderLock::remove(folder.path, token);
}

void Restart::complete_checkpoints(int keep) const {
  if (copy && !fs::exists(checkpoints(keep).path_of(copy->state.step))) checkpoints(keep).write(*copy);
}

void Restart::keep(const Trainer& trainer, const std::string& how_to_continue) {
  loss = trainer.loss();
  if (trainer.last_copy()) copy = trainer.last_copy();
  hint = how_to_continue;
  last = trainer.last_checkpoint().string();
}

void RestartNotifier::on_start(const RunState& s, const fs::path&) {
  auto loss = std::exchange(restart_.loss, std::nullopt);
  if (!loss) return;
  loss->restarted_from = s.step;
  loss->rebuild = std::chrono::duration<double>(Restart::Clock::now() - restart_.regrouped).count();
  for (auto* o : others_) o->on_ranks_lost(s, *loss);
}

}  // namespace keelson::app
