#include "apps/common/stage_data.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>

#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/stage/stage.hpp"

namespace keelson::app {
namespace {

namespace fs = std::filesystem;

constexpr double giga = 1e9;

StageMode mode_of(const std::string& name) {
  return name == "full" ? StageMode::full : name == "sample" ? StageMode::sample : StageMode::shard;
}

std::string rate_text(std::int64_t bytes, double seconds) {
  const auto gigabytes = static_cast<double>(bytes) / giga;
  return fmt::format("{:.3g} GB at {:.3g} GB/s", gigabytes, seconds > 0 ? gigabytes / seconds : 0.0);
}

/// Prints a line every five seconds, for work that takes long.
class StageLines {
 public:
  void show(const StageProgress& p) {
    constexpr std::chrono::seconds pause(5);
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < pause) return;
    last_ = now;
    fmt::print("staging: this rank has {} {} of {}, {}\n", p.phase, p.files, counted(p.files_of_rank, "file"),
               rate_text(p.bytes, p.seconds));
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void print(const StageResult& r, const std::string& target) {
  fmt::print("{}: {} on {}; {} read ({}), {} exchanged ({}), {} there already{}\n", target, counted(r.files, "file"),
             counted(r.places, "folder"), r.files_read, rate_text(r.bytes_read, r.read_seconds), r.files_exchanged,
             rate_text(r.bytes_exchanged, r.exchange_seconds), r.files_present,
             r.files_repaired > 0 ? fmt::format(", {} of them damaged and copied again", r.files_repaired) : "");
  std::fflush(stdout);
}

/// Copies a part of the data. Returns as StageResult::copies.
std::shared_ptr<const FileCopies> stage_part(const StageRequest& o, const StagedKind& kind, const std::string& source,
                                             const std::string& target, StageMode mode, Communicator& world) {
  StageLines lines;
  StageOptions s{.source = source, .find = kind.find, .beside = kind.beside, .target = target};
  s.mode = mode;
  s.count = o.count;
  s.seed = o.seed;
  s.verify = o.verify;
  if (world.rank() == 0) s.progress = [&](const StageProgress& p) { lines.show(p); };
  s.notice = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  const auto result = stage_files(s, &world);
  if (world.rank() == 0) print(result, target);
  return result.copies;
}

void declare_verify(StageRequest& o, Subcommand& v) {
  v.flag("--verify-stage", o.verify,
         "Compare the checksums of staged copies that are there already; copy damaged ones again")
      .not_stored();
}

/// The parts of a data set in the folder that rank 0 sees; none: the path names files itself.
std::vector<std::string> parts_of(const std::string& data, Communicator& world) {
  std::string found;
  if (world.rank() == 0)
    for (const char* part : {"train", "validation", "val", "test"})
      if (fs::is_directory(fs::path(data) / part)) found += std::string(part) + "\n";
  std::istringstream names(world.allgather(found)[0]);
  std::vector<std::string> parts;
  for (std::string name; std::getline(names, name);) parts.push_back(name);
  return parts;
}

/// `mode` and `count`: the options' names.
void check_count(const StageRequest& o, const char* mode, const char* count) {
  if (o.mode == "sample" && o.count == 0) refuse("{} sample: give {}, the number of files for each node", mode, count);
  if (o.mode != "sample" && o.count > 0)
    refuse("{} is the number of files of {} sample; leave it out, or give that mode", count, mode);
}

ExitCode stage(const StageRequest& o, const StagedKind& kind, Launch& launch) {
  if (o.data.empty())
    refuse("give --data: a folder (with train/, validation/ and test/ in it, or of files), a file or a pattern");
  if (o.target.empty())
    refuse("give --out: the folder that gets the copies, on each node's own disk or on a burst buffer");
  check_count(o, "--mode", "--count");
  const auto mode = mode_of(o.mode);
  const auto parts = parts_of(o.data, launch.world);
  if (parts.empty()) stage_part(o, kind, o.data, o.target, mode, launch.world);
  for (const auto& part : parts) {
    const auto target = fs::path(o.target) / (part == "val" ? "validation" : part);
    stage_part(o, kind, (fs::path(o.data) / part).string(), target.string(), part == "train" ? mode : StageMode::full,
               launch.world);
  }
  return ExitCode::done;
}

}  // namespace

void declare(StageRequest& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::data);
  v.option_without_default("--stage", o.target,
                           "Copy the data to this folder first, on each node's own disk or on a burst buffer, and read "
                           "them there; complete copies in it are kept",
                           "DIR")
      .not_stored()
      .differs_between_ranks();
  v.option(
       "--stage-mode", o.mode,
       "Training data of each node: full, all files; shard, its part; sample, --stage-count files, drawn at random. "
       "Ranks send each other the samples that a node lacks")
      .one_of({"full", "sample", "shard"})
      .not_stored();
  v.option("--stage-count", o.count, "For --stage-mode sample: files of each node", "N").non_negative().not_stored();
  declare_verify(o, v);
}

StagedFiles stage_training_data(const StageRequest& o, const StagedKind& kind, const SampleFiles& files,
                                Communicator& world) {
  // Ranks may give different folders, but all must stage, since all take part.
  compare_values(world, {{"--stage", o.target.empty() ? "not given" : "given"}}, "options");
  StagedFiles staged{files.train, files.validation, nullptr};
  if (o.target.empty()) {
    if (o.mode != "full") refuse("--stage-mode {} without --stage: name the folder that gets the copies", o.mode);
    return staged;
  }
  check_count(o, "--stage-mode", "--stage-count");
  const auto target = [&](const char* part) { return (fs::path(o.target) / part).string(); };
  staged.copies = stage_part(o, kind, files.train, target("train"), mode_of(o.mode), world);
  if (!staged.copies) staged.train = target("train");
  if (files.validation.empty()) return staged;
  stage_part(o, kind, files.validation, target("validation"), StageMode::full, world);
  staged.validation = target("validation");
  return staged;
}

void define_stage(CommandLine& line, const StagedKind& kind) {
  auto o = std::make_shared<StageRequest>();
  auto& v = line.subcommand("stage",
                            "Copy data to the nodes' own disks or a burst buffer; each file is read once, by one rank",
                            [o, kind](Launch& launch) { return stage(*o, kind, launch); });
  v.option_without_default(
       "--data", o->data, "Data: a folder (with train/, validation/ and test/ in it, or of files), a file or a pattern",
       "PATH")
      .differs_between_ranks();
  v.option_without_default("--out", o->target, "Folder that gets the copies; complete copies in it are kept", "DIR")
      .differs_between_ranks();
  v.option("--mode", o->mode,
           "Files of each node: full, all; sample, --count of them, drawn at random; shard, its part. Concerns the "
           "training data; validation and test data are copied in full")
      .one_of({"full", "sample", "shard"});
  v.option("--count", o->count, "For --mode sample: files of each node", "N").non_negative();
  v.option("--seed", o->seed, "The choice of files depends on this number, and on the number of nodes", "N");
  declare_verify(*o, v);
}

}  // namespace keelson::app
