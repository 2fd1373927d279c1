#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/ensemble_file.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/data/shared_samples.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/trainer_options.hpp"

namespace keelson::app {

struct TrainingOptions;
class StackedRun;

/// The user's options for training several members. Not stored in checkpoints.
struct MemberOptions {
  std::int64_t members = 0;  ///< 0: an ordinary run
  int ranks = 0;             ///< of a member; 0: all ranks divided by the members, at least 1
  bool share = true;         ///< samples are read once for all members, if they fit into memory
  bool stack = false;        ///< the members of a rank are trained together, each on one thread
  std::string designs;       ///< a file with the options of the members (read_designs()); empty: all are alike
};

/// What the user says of the runs of members, in options of every run.
struct MemberRuns {
  std::uint64_t seed = 1;              ///< --seed, from which the members' seeds come
  bool seed_given = false;             ///< by the user
  std::optional<std::int64_t> epochs;  ///< --epochs; nothing: not given
  std::vector<Config> designs;         ///< of --members-file; empty: all members are alike
};

/// Declares --members, --members-file, --member-ranks, --stack and --share-samples on a train subcommand.
void declare(MemberOptions& o, Subcommand& subcommand);

/// The samples that all members of a job share.
class MemberData {
 public:
  /// `everyone`: the ranks of all groups that train a member. `wanted` false: nothing is shared.
  MemberData(Communicator& everyone, bool wanted) : everyone_(everyone), wanted_(wanted) {}
  /// The first call reads the samples into memory, one copy per node, if they take at most half of what is free on
  /// every node and are the same in all groups. Later calls use them, for the same data. `validation` may be null.
  /// Collective over `everyone` at the first call.
  void open(const Dataset& training, const Dataset* validation);
  const Dataset& training() const { return *training_; }     ///< of the last open(), with shared samples if possible
  const Dataset* validation() const { return validation_; }  ///< the same; may be null
  /// Instead of open(), for samples that need no sharing.
  void decline() { opened_ = true; }
  /// Whether no other rank will wait for this one in open().
  bool opened() const { return opened_ || !wanted_; }

 private:
  bool fits(const Dataset& training, const Dataset* validation) const;
  const Dataset* shared(const Dataset& data, const std::optional<SampleStore>& store,
                        std::optional<SharedSamples>& samples) const;

  Communicator& everyone_;
  bool wanted_, opened_ = false;
  std::optional<SampleStore> training_store_, validation_store_;
  std::optional<SharedSamples> training_samples_, validation_samples_;
  const Dataset *training_ = nullptr, *validation_ = nullptr;
};

/// A member of an ensemble, while its run goes on: Launch::member.
struct Member {
  MemberRecord record;              ///< train() sets what it knows
  std::filesystem::path folder;     ///< of the member's run
  bool resumes = false;             ///< the run goes on from a checkpoint in its folder
  std::uint64_t ensemble_seed = 1;  ///< from which those of the members come
  bool first = true;                ///< no other member has been trained on this rank in this job
  bool speaks = false;              ///< prints all that an ordinary run prints; else only lines about the training
  std::chrono::steady_clock::time_point start;  ///< of the whole job, for --time-limit
  MemberData* data = nullptr;                   ///< of all members
  std::string metric;                           ///< name of the metric, set by train()
  StackedRun* stack = nullptr;                  ///< trains the member with others of this rank; null: alone
  /// A checkpoint of another member, from which a member that has none takes the options that the user left out, but
  /// not the seed. Empty: the user gives the options, as for every new run.
  std::optional<CheckpointReader> other;
  Config other_common;          ///< MemberRecord::common of that member
  std::function<void()> reset;  ///< sets all options of the train subcommand to what the user has given
  /// "member 3: ", in front of each line.
  std::string prefix() const;
  /// Sets what the ensemble needs to know of the member's run, which has ended here.
  void tell(const RunState& state, StopReason reason, const TrainerOptions& t);
};

/// Trains an ensemble if the user wants one (--members, or --resume with the folder of an ensemble); else calls `work`
/// with the job itself. The ranks form groups. Group g of G trains the members g, g + G, g + 2 G, ... one after the
/// other: `work` gets a Launch with the ranks of the group and Launch::member. Each member is an ordinary run with a
/// folder and a seed (ensemble::member_seed()) of its own; so its parameters are those of that run alone on as many
/// ranks, bit for bit, whatever the number of groups. The first rank writes ensemble.json. With --stack a group is one
/// rank, which trains its members together (StackedRun): samples then come in an order that follows from --seed alone,
/// the same for all members, and a member's parameters are those of a training on one thread.
///
/// A failure of a member of one rank is kept for the end of the job, and the other members go on; a failure in a group
/// of several ranks ends the job. Throws InputError for options that do not go together. Collective.
ExitCode with_members(Launch& launch, const TrainingOptions& o, const MemberRuns& runs,
                      const std::function<ExitCode(Launch&)>& work);

}  // namespace keelson::app
