#include "apps/search/training/search_run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "apps/search/training/search_settings.hpp"
#include "apps/search/training/train_member.hpp"
#include "apps/search/training/train_network.hpp"
#include "apps/search/training/worker_group.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/process.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::search {
namespace {

/// The first slot of workers that join a search: apart from those of other jobs.
int slot_of_new_workers(Communicator& world) {
  const Process process = Process::current();
  constexpr std::uint64_t slots = 4096;  // of a job; population.seen() leaves 24 bits
  auto slot = static_cast<std::int64_t>(
      slots * (1 + Digest().add(process.host).add(process.number).add(process.started).value() % (slots - 1)));
  world.broadcast(&slot, sizeof slot, 0);
  return static_cast<int>(slot);
}

std::string rungs_text(const Settings& s) {
  if (s.trains_population())
    return fmt::format("{} in intervals of {}", counted(s.population.members, "member"), s.population.interval);
  return s.rungs() == 1 ? "no early stopping"
                        : fmt::format("the first of {} rungs after {}", s.rungs(), s.first_epochs);
}

}  // namespace

std::unique_ptr<app::FolderLock> hold_folder(const SearchFolder& folder, Communicator& world) {
  std::unique_ptr<app::FolderLock> lock;
  on_first_rank(&world, [&] {
    app::FolderLock::check(folder.path);
    lock = std::make_unique<app::FolderLock>(folder.path);
  });
  return lock;
}

void begin_search(const SearchFolder& folder, const Settings& settings, Communicator& world) {
  on_first_rank(&world, [&] {
    std::filesystem::remove(folder.log());
    std::filesystem::remove_all(folder.path / "networks");
    SearchLog(folder.log(), true).append(settings.to_json(), [](const std::string&) {});
  });
}

SearchRun::SearchRun(SearchFolder folder, const SearchData& data, Communicator& world)
    : folder_(std::move(folder)), data_(data), world_(world), log_(folder_.log(), true) {
  log_.read_new([&](const std::string& line) { population_.apply(line); });
  if (world.rank() == 0) note_broken_lines(log_);
  if (!population_.begun()) refuse("{}: the log has no first line", folder_.log().string());
  require_same_data(settings(), data, folder_.path.string());
}

std::string SearchRun::describe(int workers) const {
  const Settings& s = settings();
  return fmt::format("{} by {}; {} epochs, {}", counted(workers, "worker"), s.method, s.epochs, rungs_text(s));
}

WorkerTimes SearchRun::work(Context& context, Communicator& on_device, const Method& method, const StartOptions& o) {
  const WorkerGroup group(world_, on_device, o.ranks_per_network);
  const bool is_first = world_.rank() == 0;
  if (is_first && o.tell) o.tell(describe(group.count()));
  if (is_first && !o.joins)
    log_.append(start_line(group.count(), seconds_since_1970()),
                [&](const std::string& line) { population_.apply(line); });
  world_.barrier();
  const NetworkTrainer trainer{settings(), data_, context, group.ranks(), folder_.path, o.interrupted};
  const Budget budget{o.networks, o.seconds > 0 ? seconds_since_1970() + o.seconds : 0};
  WorkerGroup::Work work{log_, population_, method, trainer, budget};
  work.first_slot = o.joins ? slot_of_new_workers(world_) : 0;
  work.keep = o.keep;
  if (is_first) work.tell = o.tell;
  std::optional<MemberData> members;
  if (settings().trains_population()) work.members = &members.emplace(settings(), data_.training());
  return group.work(work);
}

}  // namespace keelson::search
