// Feeds the programs damaged files: universes, snapshots, checkpoints, texts, configurations, runs and logs of
// searches. See --help.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/parse_number.hpp"
#include "tests/fuzz/kinds.hpp"
#include "tests/fuzz/mutate.hpp"
#include "tests/fuzz/trial.hpp"

namespace keelson::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::int64_t files = 2000;
  std::uint64_t seed = 1;
  double seconds = 120;
  fs::path folder = "fuzz";
  std::optional<std::int64_t> only;
  std::string kind;  ///< part of a name
};

constexpr const char* help =
    R"(usage: test_fuzz [--files N] [--seed N] [--seconds N] [--folder DIR] [--kind TEXT] [--only FILE]

Damages files in N ways (2000) and lets the programs read each: by bytes, by values with the right checksums, by what is
no regular file in a file's place. They may accept or refuse most files. A bug is a signal, a hang (more than N seconds,
120), a raw message, a NaN in what they say, exit code 0 for what must be refused, or other values from a file whose
content has checksums. Its folder DIR/bug-FILE stays.
--kind: only kinds of files whose names contain TEXT. Which damage is done is a function of the seed (1), the kinds and
the number of the file, which --only repeats. A program that hangs in H5Aread or H5Dread met a fault of the HDF5 library,
not of ours (HDFGroup/hdf5, issue 1707).
)";

Trial in(const fs::path& folder, Trial trial) {
  for (auto& a : trial.arguments)
    if (a.starts_with("{}")) a = folder.string() + a.substr(2);
  return trial;
}

/// Damage shows nothing where what is intact is refused.
void try_intact(const fs::path& base, const Kind& kind) {
  for (std::size_t r = 0; kind.file_is_read && r < kind.readers.size(); ++r) {
    const auto folder = base / fmt::format("{} {}", kind.name, r);
    fs::create_directories(folder);
    std::ofstream(folder / kind.file, std::ios::binary) << kind.original;
    make(folder, in(folder, kind.readers[r]));
  }
}

/// What a reader says of the intact file.
std::string said_of_intact(const Options& o, const Kind& kind, std::size_t reader) {
  return content_of(o.folder / "intact" / fmt::format("{} {}", kind.name, reader) / "stdout");
}

struct Counts {
  std::int64_t files = 0, accepted = 0, refused = 0, failed = 0, bugs = 0;
};

void count(Counts& counts, Ending::Kind kind) {
  ++counts.files;
  switch (kind) {
    case Ending::Kind::accepted:
      ++counts.accepted;
      break;
    case Ending::Kind::refused:
      ++counts.refused;
      break;
    case Ending::Kind::failed:
      ++counts.failed;
      break;
    case Ending::Kind::bug:
      ++counts.bugs;
  }
}

/// Damages file `number` and lets a program read it.
void try_one(const Options& o, const Kind& kind, std::int64_t number, Counts& counts) {
  Random random(o.seed * 1'000'003 + static_cast<std::uint64_t>(number));
  const auto folder = o.folder / fmt::format("file-{}", number);
  fs::remove_all(folder);
  fs::create_directories(folder);
  kind.damage(folder / kind.file, random);
  const std::size_t reader = random() % kind.readers.size();
  const Trial trial = in(fs::absolute(folder), kind.readers[reader]);
  auto ending = run(trial, folder, o.seconds);
  if (ending.kind == Ending::Kind::accepted && kind.always_wrong)
    ending = {Ending::Kind::bug, "accepted without a word"};
  if (ending.kind == Ending::Kind::accepted && kind.is_checked &&
      content_of(folder / "stdout") != said_of_intact(o, kind, reader))
    ending = {Ending::Kind::bug, "accepted with other content"};
  count(counts, ending.kind);
  if (ending.kind != Ending::Kind::bug) {
    fs::remove_all(folder);
    return;
  }
  const auto kept = o.folder / fmt::format("bug-{}", number);
  fs::remove_all(kept);
  fs::rename(folder, kept);
  fmt::print("BUG in file {} ({}): {}\n  {}\n  kept in {} (there, and in the command, as file-{} it was)\n", number,
             kind.name, ending.why, to_string(trial), kept.string(), number);
  std::fflush(stdout);
}

int fuzz(const Options& o) {
  const auto begin = std::chrono::steady_clock::now();
  fmt::print("{} damaged files, seed {}, in {}\n", o.files, o.seed, o.folder.string());
  std::fflush(stdout);
  fs::remove_all(o.folder / "intact");
  auto kinds = make_kinds(fs::absolute(o.folder / "intact"), o.kind);
  std::erase_if(kinds, [&](const Kind& kind) { return kind.name.find(o.kind) == std::string::npos; });
  if (kinds.empty()) {
    fmt::print("no kind of files has '{}' in its name\n", o.kind);
    return 2;
  }
  for (const Kind& kind : kinds) try_intact(fs::absolute(o.folder / "intact"), kind);
  std::vector<Counts> counts(kinds.size());
  for (std::int64_t i = 0; i < o.files; ++i) {
    const auto k = static_cast<std::size_t>(i) % kinds.size();
    if (!o.only || *o.only == i) try_one(o, kinds[k], i, counts[k]);
    if ((i + 1) % 100 != 0) continue;
    fmt::print("{} of {} files\n", i + 1, o.files);
    std::fflush(stdout);
  }
  std::int64_t bugs = 0;
  fmt::print("\n{:<40} {:>8} {:>9} {:>8} {:>8} {:>6}\n", "", "files", "accepted", "refused", "failed", "bugs");
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto& c = counts[k];
    fmt::print("{:<40} {:>8} {:>9} {:>8} {:>8} {:>6}\n", kinds[k].name, c.files, c.accepted, c.refused, c.failed,
               c.bugs);
    bugs += c.bugs;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{:.0f} s\n", seconds.count());
  return bugs == 0 ? 0 : 1;
}

template <class T>
bool read(const std::string& text, T& value) {
  const auto number = parse_number<T>(text);
  if (number) value = *number;
  return number.has_value();
}

std::optional<Options> parse(const std::vector<std::string>& words) {
  Options o;
  std::int64_t only = 0;
  if (words.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto &name = words[i], &value = words[i + 1];
    bool good = false;
    if (name == "--files") good = read(value, o.files);
    if (name == "--seed") good = read(value, o.seed);
    if (name == "--seconds") good = read(value, o.seconds);
    if (name == "--folder") good = !(o.folder = value).empty();
    if (name == "--kind") good = !(o.kind = value).empty();
    if (name == "--only" && (good = read(value, only))) o.only = only;
    if (!good) return std::nullopt;
  }
  return o;
}

}  // namespace
}  // namespace keelson::fuzz

int main(int argc, char** argv) {
  const auto options = keelson::fuzz::parse({argv + 1, argv + argc});
  if (!options) {
    std::fputs(keelson::fuzz::help, stderr);
    return 2;
  }
  // One thread in each of the many short runs.
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("KEELSON_MPI", "off", 1);
  return keelson::fuzz::fuzz(*options);
}
