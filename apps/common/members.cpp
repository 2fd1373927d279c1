#include "apps/common/members.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "apps/common/folder_lock.hpp"
#include "apps/common/run_folder.hpp"
#include "apps/common/stacked_run.hpp"
#include "apps/common/training.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"
#include "engine/ensemble/member_seed.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

/// The folder of the ensemble: what --resume names, else --out.
fs::path ensemble_folder(const TrainingOptions& o) {
  return o.resume_option->given() && !o.resume.empty() && o.resume != "latest" ? o.resume : o.out;
}

/// Options of an ordinary run that members of one job cannot have.
void check_single_options(const TrainingOptions& o) {
  if (o.spares > 0)
    refuse(
        "--spares with --members: a job of members keeps no spare ranks; resume the ensemble instead, which costs a "
        "member the steps since its checkpoint");
  if (!o.mlperf.file.empty()) refuse("--mlperf-log with --members: the log is that of one run; leave one of them out");
  if (!o.trace.file.empty()) refuse("--trace with --members: the trace is that of one run; leave one of them out");
}

int ranks_of_member(const MemberOptions& o, const std::optional<EnsembleFile>& before, std::int64_t members, int ranks,
                    bool stacked) {
  if (stacked && o.ranks > 1)
    refuse("--member-ranks {} with --stack: a rank trains several members, each on one thread; leave one of them out",
           o.ranks);
  int of_member = o.ranks;
  if (of_member == 0 && before) of_member = before->member_ranks;
  if (stacked) of_member = 1;
  if (of_member == 0) of_member = std::max(1, static_cast<int>(ranks / members));
  if (ranks % of_member != 0)
    refuse("{} cannot be divided into groups of {} for the members: start a multiple of {}, or give --member-ranks",
           counted(ranks, "rank"), of_member, counted(of_member, "rank"));
  if (ranks / of_member > members)
    refuse("{} in groups of {} for {}: some would have nothing to do; start at most {}{}", counted(ranks, "rank"),
           of_member, counted(members, "member"), counted(of_member * members, "rank"),
           stacked ? "" : ", or give larger --member-ranks");
  return of_member;
}

bool has_checkpoint(const fs::path& folder) {
  const CheckpointFolder checkpoints(folder / "checkpoints", 1);
  return !checkpoints.list().empty();
}

/// Whether the member needs no further run, unless the user asks for more epochs.
bool is_finished(const MemberRecord& m, const std::optional<std::int64_t>& epochs, const fs::path& folder) {
  const bool ended = m.state == to_string(StopReason::epochs_done) || m.state == to_string(StopReason::target_reached);
  return ended && has_checkpoint(folder) && epochs.value_or(0) <= m.epochs_wanted;
}

class MembersJob {
 public:
  MembersJob(Launch& launch, const TrainingOptions& o, const MemberRuns& runs, fs::path folder, EnsembleFile file,
             bool resumes)
      : launch_(launch),
        world_(launch.world),
        options_(o),
        runs_(runs),
        folder_(std::move(folder)),
        file_(std::move(file)),
        resumes_(resumes) {
    Interrupt::install(world_.rank() == 0 ? "\nsignalled to end: all members write a checkpoint after this step; " +
                                                to_continue() + "\n"
                                          : "");
    on_first_rank(&world_, [&] {
      if (!resumes_) RunFolder{folder_}.require_free(options_.overwrite, {});
      lock_.emplace(folder_);
      if (!resumes_) RunFolder{folder_}.clear();
      if (!resumes_) remove_records();
      file_.update(folder_);
      file_.write(folder_);
    });
    decide_todo();
  }

  ExitCode run(const std::function<ExitCode(Launch&)>& work) {
    const int groups = world_.size() / file_.member_ranks, mine = world_.rank() / file_.member_ranks;
    if (world_.rank() == 0) announce(groups);
    const auto group = world_.split(mine, world_.rank());
    bool busy = false;
    for (std::int64_t m = mine; m < size(); m += groups) busy = busy || todo_[static_cast<std::size_t>(m)];
    const auto everyone = world_.split(busy ? 0 : -1, world_.rank());
    const bool several = std::count(todo_.begin(), todo_.end(), true) > 1;
    const auto& cache = options_.cache;
    std::optional<MemberData> data;
    if (everyone) data.emplace(*everyone, options_.members.share && several && cache.memory == 0 && cache.disk == 0);
    data_ = data ? &*data : nullptr;
    ExitCode code = ExitCode::done;
    std::vector<std::int64_t> members;
    for (std::int64_t m = mine; m < size(); m += groups)
      if (todo_[static_cast<std::size_t>(m)]) members.push_back(m);
    if (file_.stacked)
      code = train_together(members, *group, work);
    else
      for (auto m = members.begin(); m != members.end() && code == ExitCode::done; ++m) code = train(*m, *group, work);
    return conclude(code);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(file_.members.size()); }
  fs::path folder_of(std::int64_t m) const { return folder_ / MemberRecord::folder(m); }
  std::string to_continue() const {
    return fmt::format("to continue: {} train --resume {}", launch_.program, folder_.string());
  }

  /// Members of an earlier ensemble count as not begun.
  void remove_records() const {
    std::error_code e;
    for (std::int64_t m = 0; m < size(); ++m) fs::remove(folder_of(m) / "member.json", e);
  }

  /// The first rank looks at the folders, for all.
  void decide_todo() {
    std::vector<std::int64_t> found(2 * file_.members.size());
    on_first_rank(&world_, [&] {
      for (std::int64_t m = 0; m < size(); ++m) {
        const auto i = static_cast<std::size_t>(m);
        found[2 * i] = resumes_ && is_finished(file_.members[i], runs_.epochs, folder_of(m)) ? 0 : 1;
        found[2 * i + 1] = resumes_ && has_checkpoint(folder_of(m)) ? 1 : 0;
      }
    });
    world_.broadcast(found.data(), found.size() * sizeof(std::int64_t), 0);
    for (std::size_t i = 0; i < file_.members.size(); ++i) {
      todo_.push_back(found[2 * i] != 0);
      begun_.push_back(found[2 * i + 1] != 0);
    }
  }

  void announce(int groups) const {
    const auto finished = std::count(todo_.begin(), todo_.end(), false);
    fmt::print("{}, seed {}: {} of {}{}; {}\n", counted(size(), "member"), file_.seed, counted(groups, "group"),
               counted(file_.member_ranks, "rank"),
               finished > 0 ? fmt::format("; {} finished before", counted(finished, "member")) : "", folder_.string());
    std::fflush(stdout);
  }

  /// The member before its run, which is told in its folder.
  std::unique_ptr<Member> begin(std::int64_t m, Communicator& group) {
    auto begun = std::make_unique<Member>();
    Member& member = *begun;
    member.record = file_.members[static_cast<std::size_t>(m)];
    member.record.error.clear();
    member.record.state = "training";
    member.folder = folder_of(m);
    member.ensemble_seed = file_.seed;
    member.resumes = begun_[static_cast<std::size_t>(m)];
    member.first = first_;
    member.speaks = first_ && world_.rank() == 0;
    member.start = start_;
    member.data = data_;
    first_ = false;
    if (!member.resumes) open_other(member, group);
    if (const auto& own = member.record.options; !own.empty() && group.rank() == 0) {
      std::vector<std::string> texts;
      for (const auto& [name, value] : own) texts.push_back(fmt::format("--{} {}", name, value));
      fmt::print("{}{}\n", member.prefix(), fmt::join(texts, " "));
    }
    on_first_rank(&group, [&] {
      fs::create_directories(member.folder);
      write_member(member.record, member.folder);
    });
    return begun;
  }

  ExitCode call(const std::function<ExitCode(Launch&)>& work, Member& member, Communicator& group) {
    Launch launch{group,           launch_.placement, launch_.program, launch_.arguments,
                  launch_.machine, launch_.on_gpu,    nullptr,         &member};
    try {
      return work(launch);
    } catch (const InputError& error) {
      if (!member.record.options.empty()) throw InputError(member.prefix() + error.what());
      throw;  // of options or data, which are those of all members
    }
  }

  /// After the runs of these members.
  void end(const std::vector<std::unique_ptr<Member>>& members, Communicator& group) {
    for (const auto& m : members) {
      if (!m->record.error.empty()) failures_.push_back(m->prefix() + m->record.error);
      on_first_rank(&group, [&] { write_member(m->record, m->folder); });
      if (!m->metric.empty()) file_.metric = m->metric;
    }
    if (world_.rank() != 0) return;
    file_.update(folder_);
    file_.write(folder_);
  }

  ExitCode train(std::int64_t m, Communicator& group, const std::function<ExitCode(Launch&)>& work) {
    std::vector<std::unique_ptr<Member>> alone;
    Member& member = *alone.emplace_back(begin(m, group));
    ExitCode code = ExitCode::done;
    try {
      code = call(work, member, group);
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& error) {
      // Other ranks of the group, or all groups that share samples, may wait for this rank.
      if (group.size() > 1 || !data_->opened()) throw;
      member.record.state = "failed";
      member.record.error = error.what();
      fmt::print(stderr, "{}failed: {}\n", member.prefix(), error.what());
    }
    end(alone, group);
    return code;
  }

  /// --stack: the last call of `work` trains all members of this rank.
  ExitCode train_together(const std::vector<std::int64_t>& mine, Communicator& group,
                          const std::function<ExitCode(Launch&)>& work) {
    StackedRun stack(mine.size(), world_.rank());
    std::vector<std::unique_ptr<Member>> members;
    ExitCode code = ExitCode::done;
    for (const std::int64_t m : mine) {
      Member& member = *members.emplace_back(begin(m, group));
      member.stack = &stack;
      code = call(work, member, group);
    }
    end(members, group);
    return code;
  }

  /// Options that the user left out are those of a member that has begun.
  void open_other(Member& member, Communicator& group) const {
    const auto found = std::find(begun_.begin(), begun_.end(), true);
    if (found == begun_.end()) return;
    member.other.emplace(folder_of(found - begun_.begin()), false, &group);
    member.other_common = file_.members[static_cast<std::size_t>(found - begun_.begin())].common;
  }

  /// Waits for the other groups.
  ExitCode conclude(ExitCode code) {
    const auto codes = world_.allgather(code == ExitCode::interrupted ? "interrupted" : "");
    const auto metrics = world_.allgather(file_.metric);
    const auto failures = world_.allgather(fmt::format("{}", fmt::join(failures_, "; ")));
    on_first_rank(&world_, [&] {
      for (const auto& name : metrics)
        if (!name.empty()) file_.metric = name;
      file_.update(folder_);
      file_.write(folder_);
      lock_.reset();
    });
    std::vector<std::string> failed;
    std::copy_if(failures.begin(), failures.end(), std::back_inserter(failed),
                 [](const auto& s) { return !s.empty(); });
    if (!failed.empty()) fail("{}; {}", fmt::join(failed, "; "), to_continue());
    const bool cut = std::find(codes.begin(), codes.end(), "interrupted") != codes.end();
    if (world_.rank() == 0) fmt::print("{}\n", cut ? to_continue() : summary());
    return cut ? ExitCode::interrupted : ExitCode::done;
  }

  std::string summary() const {
    std::vector<std::string> seeds;
    for (const auto& m : file_.members) seeds.push_back(std::to_string(m.seed));
    return fmt::format("{}{}; list: {}", counted(size(), "member"),
                       size() > 8 ? "" : fmt::format(", with seeds {}", fmt::join(seeds, ", ")),
                       EnsembleFile::path(folder_).string());
  }

  Launch& launch_;
  Communicator& world_;
  const TrainingOptions& options_;
  const MemberRuns runs_;
  fs::path folder_;
  EnsembleFile file_;
  bool resumes_, first_ = true;
  std::optional<FolderLock> lock_;  ///< of the ensemble's folder, on the first rank
  std::vector<bool> todo_, begun_;  ///< by member
  std::vector<std::string> failures_;
  MemberData* data_ = nullptr;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void declare(MemberOptions& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::ensemble);
  v.option(
       "--members", o.members,
       "Train an ensemble of so many networks that differ in their seeds, in folders of --out; groups of ranks train "
       "them at the same time; 0: one network",
       "N")
      .non_negative()
      .not_stored();
  v.option_without_default("--members-file", o.designs,
                           "Train an ensemble whose members have different options: a JSON list of option sets, as "
                           "[{\"lr\": 0.01}, {\"lr\": "
                           "0.02}]; member m gets entry m, and more members than entries begin the list again",
                           "FILE")
      .not_stored()
      .differs_between_ranks();
  v.option("--member-ranks", o.ranks, "Ranks that train a member; auto: all ranks divided by the members, at least 1",
           "RANKS")
      .non_negative()
      .zero_as("auto")
      .not_stored();
  v.flag(
       "--stack", o.stack,
       "Train the members of a rank together, each on one thread, from batches that are read once: for small networks")
      .not_stored();
  v.flag(
       "--share-samples", o.share,
       "Read each sample once for all members, into memory that the ranks of a node share, if at most half of the free "
       "memory is needed and there is no --cache-memory or --cache-disk")
      .not_stored();
}

void Member::tell(const RunState& state, StopReason reason, const TrainerOptions& t) {
  record.state = to_string(reason);
  record.epochs = state.epoch;
  record.epochs_wanted = t.epochs;
  record.step = state.step;
  if (state.best_epoch >= 0) record.metric = state.best_metric;
  if (const auto* judge = t.evaluation.judge()) metric = judge->name();
}

std::string Member::prefix() const { return fmt::format("member {}: ", record.member); }

ExitCode with_members(Launch& launch, const TrainingOptions& o, const MemberRuns& runs,
                      const std::function<ExitCode(Launch&)>& work) {
  const MemberOptions& members = o.members;
  const bool resumes = o.resume_option->given();
  compare_values(launch.world, {{"--resume", resumes ? "given" : "not given"}}, "options");
  const auto folder = ensemble_folder(o);
  const auto before = resumes ? EnsembleFile::read(folder, launch.world) : std::nullopt;
  const auto listed = static_cast<std::int64_t>(runs.designs.size());
  if (resumes && listed > 0)
    refuse("--members-file with --resume: the members keep the options that they have; leave --members-file out");
  if (members.members > 0 && members.members < listed)
    refuse("--members {}: {} has {} option sets; leave --members out, or give more", members.members, members.designs,
           listed);
  if (members.members == 0 && listed == 0 && !before) {
    if (members.ranks > 0) refuse("--member-ranks without --members: say how many members there are");
    if (members.stack) refuse("--stack without --members: say how many members there are");
    return work(launch);
  }
  check_single_options(o);
  EnsembleFile file;
  if (resumes) {
    if (!before)
      refuse("--resume with --members: {} holds no ensemble; leave --resume out to begin one", folder.string());
    file = *before;
    if (file.program != launch.program)
      refuse("{}: the ensemble is one of {}", EnsembleFile::path(folder).string(), file.program);
    if (runs.seed_given && runs.seed != file.seed)
      refuse("--seed {}: the ensemble in {} has seed {}; leave --seed out", runs.seed, folder.string(), file.seed);
    if (members.members > 0 && members.members < static_cast<std::int64_t>(file.members.size()))
      refuse("--members {}: {} has {}; leave --members out, or give more", members.members, folder.string(),
             counted(static_cast<std::int64_t>(file.members.size()), "member"));
  } else {
    file.program = launch.program;
    file.seed = runs.seed;
    file.designs = listed;
  }
  file.stacked = file.stacked || members.stack;
  for (auto m = static_cast<std::int64_t>(file.members.size()); m < std::max(members.members, listed); ++m) {
    Config options;
    if (m < listed)
      options = runs.designs[static_cast<std::size_t>(m)];
    else if (file.designs > 0)
      options = file.members[static_cast<std::size_t>(m % file.designs)].options;
    auto& record = file.members.emplace_back();
    record.options = std::move(options);
    record.member = m;
    record.seed = ensemble::member_seed(file.seed, m);
  }
  file.member_ranks = ranks_of_member(members, before, static_cast<std::int64_t>(file.members.size()),
                                      launch.world.size(), file.stacked);
  return MembersJob(launch, o, runs, folder, std::move(file), resumes).run(work);
}

}  // namespace keelson::app
