#include "apps/search/training/worker_group.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "apps/search/training/search_folder.hpp"
#include "engine/base/error.hpp"

namespace keelson::search {
namespace {

/// Sends a text from the first rank to the others.
std::string shared_text(Communicator& ranks, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  ranks.broadcast(&size, sizeof size, 0);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) ranks.broadcast(text.data(), text.size(), 0);
  return text;
}

/// Tells the state of the search from time to time.
class Progress {
 public:
  explicit Progress(const std::function<void(const std::string&)>& tell) : tell_(tell) {}
  void see(const Population& population) {
    using namespace std::chrono;
    const auto now = steady_clock::now();
    const auto best = population.best(1);
    const std::int64_t first = best.empty() ? -1 : best[0];
    if (first == best_ && now - last_ < seconds(15)) return;
    best_ = first;
    last_ = now;
    tell_(state_of(population));
  }

 private:
  const std::function<void(const std::string&)>& tell_;
  std::int64_t best_ = -1;
  std::chrono::steady_clock::time_point last_;
};

Result train_task(const WorkerGroup::Work& work, const MemberTask& task) {
  if (work.members == nullptr) return work.trainer.train(task.id, task.genome, task.rung);
  return train_member(work.trainer, *work.members, task);
}

}  // namespace

WorkerGroup::WorkerGroup(Communicator& world, Communicator& on_device, int ranks_per_network) {
  if (world.size() % ranks_per_network != 0)
    refuse("--ranks-per-network {}: {} ranks cannot be divided into groups of {}", ranks_per_network, world.size(),
           ranks_per_network);
  count_ = world.size() / ranks_per_network;
  number_ = world.rank() / ranks_per_network;
  if (ranks_per_network > 1) ranks_ = on_device.split(number_, world.rank());
}

Result WorkerGroup::train_together(const Work& work, const Individual& i) const {
  const MemberTask task = work.members != nullptr ? MemberTask::of(work.population, i)
                                                  : MemberTask{.id = i.id, .rung = i.rung, .genome = i.genome};
  if (ranks_) shared_text(ranks_->on_host(), task.to_json(work.population.settings().space));
  return train_task(work, task);
}

void WorkerGroup::follow(const Work& work) const {
  Communicator& host = ranks_->on_host();
  for (;;) {
    const std::string task = shared_text(host, "");
    if (task.empty()) return;
    try {
      train_task(work, MemberTask::parse(task, work.population.settings().space));
    } catch (const RanksLost&) {
      throw;
    } catch (const Error&) {  // the first rank has the same error, and writes it into the log
    }
  }
}

WorkerTimes WorkerGroup::lead(const Work& work) const {
  Progress progress(work.tell);
  WorkerTask task{work.log, work.population, work.method, work.first_slot + number_, work.budget};
  task.train = [&](const Individual& i, int) { return train_together(work, i); };
  task.interrupted = work.trainer.interrupted;
  task.tell = [&](const Population& population) {
    if (work.members != nullptr)
      remove_member_checkpoints(population, work.trainer, work.keep);
    else
      remove_checkpoints(population, work.trainer, work.keep);
    if (work.tell) progress.see(population);
  };
  const auto end_group = [&] {
    if (ranks_) shared_text(ranks_->on_host(), "");
  };
  WorkerTimes times;
  try {
    times = search::work(task);
  } catch (const RanksLost&) {
    throw;
  } catch (...) {  // the others wait for the next task, and end with this rank
    end_group();
    throw;
  }
  end_group();
  return times;
}

WorkerTimes WorkerGroup::work(const Work& work) const {
  if (is_leader()) return lead(work);
  follow(work);
  return {};
}

void remove_checkpoints(const Population& population, const NetworkTrainer& trainer, int keep) {
  constexpr std::int64_t look_back = 64;  // others have removed what was behind before
  const auto best = population.best(static_cast<std::size_t>(keep + look_back));
  const auto kept = best.begin() + std::min(std::ssize(best), std::ptrdiff_t{keep});
  std::set<std::int64_t> removable(kept, best.end());
  const std::int64_t all = std::ssize(population.all());
  for (std::int64_t id = std::max<std::int64_t>(0, all - look_back); id < all; ++id) removable.insert(id);
  for (auto id = best.begin(); id != kept; ++id) removable.erase(*id);
  const auto rungs = static_cast<std::size_t>(population.settings().rungs());
  for (const std::int64_t id : removable) {
    const Individual& i = population.all()[static_cast<std::size_t>(id)];
    const bool ended = !i.failure.empty() || i.results.size() == rungs;
    std::error_code ignored;
    if (ended && !i.running) std::filesystem::remove_all(trainer.checkpoints_of(id), ignored);
  }
}

}  // namespace keelson::search
