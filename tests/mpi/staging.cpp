#include "engine/data/stage/stage.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/files/crc32c.hpp"
#include "engine/data/files/read_once.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/data_files.hpp"

/// Staging to a folder of each rank, as if each were a node, and to one folder of all ranks.
namespace keelson::testing {
namespace {

namespace fs = std::filesystem;

constexpr int source_files = 40;

/// Up to 20 kB, some without a byte, two of them large.
std::string content_of_file(int i) {
  const std::size_t bytes = i % 13 == 5 ? 0 : static_cast<std::size_t>(i % 17 == 3 ? 60000 + i : i * 7919 % 20011);
  std::string content;
  const philox::Key key{1, static_cast<std::uint32_t>(i)};
  for (std::uint64_t n = 0; content.size() < bytes; ++n) content += static_cast<char>(philox::bits(key, n) & 0xff);
  return content;
}

std::vector<std::string> find_data(const std::string& path) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && entry.path().extension() == ".dat") found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found;
}

/// A file cannot become larger than `bytes` on this rank, as on a disk that is full.
class LimitOfFiles {
 public:
  explicit LimitOfFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LimitOfFiles() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }
  LimitOfFiles(const LimitOfFiles&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int);
};

class StagingTest : public MpiTest {
 protected:
  StagingTest() {
    std::string path = ::testing::TempDir() + "keelson-stage-XXXXXX";
    if (rank() == 0) folder_ = mkdtemp(path.data());
    folder_ = world().allgather(folder_)[0];
    if (rank() == 0) {
      fs::create_directories(folder_ + "/data/b");
      for (int i = 0; i < source_files; ++i) write_file(source(i), content_of_file(i));
      write_file(folder_ + "/stats", "statistics");
    }
    world().barrier();
    options_ = {.source = folder_ + "/data", .find = find_data, .target = folder_ + "/node-" + std::to_string(rank())};
    options_.piece = 15000;  // several messages, of many files and of parts of a file
  }
  ~StagingTest() override {
    world().barrier();
    if (rank() == 0) fs::remove_all(folder_);
  }
  static std::string name(int i) { return fmt::format("{}{:02}.dat", i % 3 == 0 ? "b/" : "", i); }
  std::string source(int i) const { return folder_ + "/data/" + name(i); }
  std::string copy(int i) const { return options_.target + "/" + name(i); }
  StageResult stage() const { return stage_files(options_, &world()); }
  StageResult stage(StageMode mode, std::int64_t count = 0) {
    options_.mode = mode;
    options_.count = count;
    return stage();
  }
  /// The numbers of the files in the folder of this rank, whose bytes must be those of the source.
  std::set<int> staged() const {
    std::set<int> found;
    const auto files = find_data(options_.target);
    for (int i = 0; i < source_files; ++i) {
      if (!fs::exists(copy(i))) continue;
      found.insert(i);
      EXPECT_EQ(bytes_of(copy(i)), content_of_file(i)) << copy(i);
    }
    EXPECT_EQ(found.size(), files.size()) << "others are there";
    return found;
  }
  std::int64_t sum(std::int64_t n) const {
    world().allreduce(&n, 1, Reduction::sum);
    return n;
  }
  /// What staging throws, which must be the same on all ranks.
  template <class E>
  std::string refusal() const {
    std::string message = "was not refused";
    try {
      stage();
    } catch (const E& error) {
      message = error.what();
    }
    for (const auto& other : world().allgather(message)) EXPECT_EQ(other, message);
    return message;
  }
  void expect_part(const std::string& message, const std::string& part) const {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  std::string folder_;
  StageOptions options_;
};

TEST_F(StagingTest, SaysWhichCopiesAreWhere) {
  EXPECT_EQ(stage().copies, nullptr) << "all are here";
  for (const auto& [mode, count] : {std::pair{StageMode::shard, 0}, {StageMode::sample, 3}}) {
    const auto copies = stage(mode, count).copies;
    const auto here = staged();
    EXPECT_EQ(copies == nullptr, std::ssize(here) == source_files);
    if (!copies) continue;
    const FileList list(options_.source, &world(), find_data, copies);
    for (std::int64_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(list.is_copied(i), fs::exists(options_.target + "/" + list.name(i)));
      EXPECT_TRUE(fs::exists(list.path(i))) << list.path(i);
    }
  }
}

TEST_F(StagingTest, SamplesEachFileAtMostOnce) {
  constexpr std::int64_t count = 20;
  options_.seed = 4;
  const auto r = stage(StageMode::sample, count);
  EXPECT_EQ(r.places, size());
  const auto mine = staged();
  EXPECT_EQ(std::ssize(mine), count);
  const StagePlan plan(source_files, StageMode::sample, count, 4, size());
  std::int64_t bytes = 0, kept = 0;
  for (int i = 0; i < source_files; ++i) {
    // The numbers of the plan are those of the sorted list.
    const auto found = find_data(folder_ + "/data");
    const auto number = std::ranges::find(found, source(i)) - found.begin();
    EXPECT_EQ(plan.has(rank(), number), mine.contains(i)) << i;
    kept += plan.owner(number) >= 0 ? 1 : 0;
    bytes += plan.owner(number) >= 0 ? std::ssize(content_of_file(i)) : 0;
  }
  EXPECT_EQ(kept, std::min<std::int64_t>(source_files, count * size()));
  EXPECT_EQ(r.opened, kept) << "each file of the source is opened once";
  EXPECT_EQ(r.bytes_read, bytes);
  EXPECT_EQ(r.files_exchanged, count * size() - kept);
}

TEST_F(StagingTest, CopiesAllFilesToAllPlaces) {
  const auto r = stage(StageMode::full);
  EXPECT_EQ(std::ssize(staged()), source_files);
  EXPECT_EQ(r.opened, source_files);
  EXPECT_EQ(r.files_read, source_files);
  EXPECT_EQ(r.bytes_read, r.bytes);
  EXPECT_EQ(r.files_exchanged, source_files * (size() - 1));
  EXPECT_EQ(r.bytes_exchanged, r.bytes * (size() - 1));
}

TEST_F(StagingTest, GivesEachPlaceItsPart) {
  const auto r = stage(StageMode::shard);
  EXPECT_EQ(sum(std::ssize(staged())), source_files);
  EXPECT_EQ(r.opened, source_files);
  EXPECT_EQ(r.files_exchanged, 0);
}

TEST_F(StagingTest, SharesTheWorkInOneFolder) {
  options_.target = folder_ + "/shared";
  const auto r = stage(StageMode::full);
  EXPECT_EQ(r.places, 1);
  EXPECT_EQ(r.opened, source_files);
  EXPECT_EQ(r.files_exchanged, 0);
  EXPECT_EQ(std::ssize(staged()), source_files);
  EXPECT_EQ(stage().files_present, source_files);
  // Two ranks of each node: two lanes, and half as many places.
  options_.target = folder_ + "/pair-" + std::to_string(rank() / 2);
  const auto pairs = stage();
  EXPECT_EQ(pairs.places, (size() + 1) / 2);
  EXPECT_EQ(pairs.opened, source_files);
  EXPECT_EQ(std::ssize(staged()), source_files);
}

TEST_F(StagingTest, CopiesSmallFilesBesideTheData) {
  options_.beside = {"stats", "not there"};
  stage();
  EXPECT_EQ(bytes_of(options_.target + "/stats"), "statistics");  // of the folder above
  world().barrier();
  if (rank() == 0) write_file(folder_ + "/data/stats", "nearer");
  world().barrier();
  stage();
  EXPECT_EQ(bytes_of(options_.target + "/stats"), "nearer");
}

TEST_F(StagingTest, CopiesOnlyWhatIsMissing) {
  stage();
  world().barrier();
  auto again = stage();
  EXPECT_EQ(again.opened, 0);
  EXPECT_EQ(again.files_present, source_files * size());
  // One copy is lost, another one was cut off.
  if (rank() == size() - 1) {
    fs::remove(copy(7));
    fs::resize_file(copy(9), 10);
  }
  again = stage();
  EXPECT_LE(again.opened, 2);
  EXPECT_EQ(again.files_read + again.files_exchanged, 2);
  EXPECT_EQ(again.files_repaired, 1);
  EXPECT_EQ(std::ssize(staged()), source_files);
}

TEST_F(StagingTest, FindsDamagedCopies) {
  stage();
  if (rank() == 0) {
    auto content = content_of_file(11);
    content[100] = static_cast<char>(content[100] ^ 1);
    write_file(copy(11), content);
  }
  EXPECT_EQ(stage().files_repaired, 0);
  options_.verify = true;
  std::string said;
  options_.notice = [&](const std::string& text) { said += text; };
  EXPECT_EQ(stage().files_repaired, 1);
  if (rank() == 0) expect_part(said, "11.dat: has the checksum");
  EXPECT_EQ(std::ssize(staged()), source_files);
}

TEST_F(StagingTest, DoesNotSpreadDamagedCopies) {
  KEELSON_NEED_RANKS(2);
  stage();
  // The owner's copy is damaged, and all others are lost.
  const StagePlan plan(source_files, StageMode::full, 0, 0, size());
  const auto found = find_data(folder_ + "/data");
  const auto number = std::ranges::find(found, source(11)) - found.begin();
  if (plan.owner(number) == rank())
    write_file(copy(11), std::string(content_of_file(11).size(), 'x'));
  else
    fs::remove(copy(11));
  expect_part(refusal<Error>(), "after its exchange between nodes");
  EXPECT_EQ(fs::exists(copy(11)), plan.owner(number) == rank());
  options_.verify = true;
  stage();
  EXPECT_EQ(std::ssize(staged()), source_files);
}

TEST_F(StagingTest, EndsWellIfADiskIsFull) {
  std::string message;
  {
    const LimitOfFiles limit(rank() == size() - 1 ? 50000 : RLIM_INFINITY);
    try {
      stage();
    } catch (const InputError&) {
      ADD_FAILURE() << "a full disk is no wrong input";
    } catch (const Error& error) {
      message = error.what();
    }
  }
  expect_part(message, "cannot write");
  expect_part(message, "copies are missing");
  const auto before = std::ssize(staged());
  for (const auto& entry : fs::recursive_directory_iterator(options_.target))
    EXPECT_EQ(entry.path().filename().string().find(".partial-"), std::string::npos) << entry.path();
  EXPECT_LT(sum(before), source_files * size());
  const auto r = stage();
  EXPECT_EQ(r.files_present, sum(before));
  EXPECT_EQ(std::ssize(staged()), source_files);
}

TEST_F(StagingTest, GoesOnWithoutTheEndOfTheManifest) {
  stage();
  // As a start leaves it that is killed: a line is cut off, and a temporary file is there.
  const auto manifest = options_.target + "/.keelson-stage.jsonl";
  const auto text = bytes_of(manifest);
  const auto cut = text.find(name(10)) + 3;
  write_file(options_.target + "/.keelson-stage-0.jsonl", text.substr(0, cut));
  for (int i = 0; i < source_files; ++i)
    if (text.find("\"" + name(i)) + 1 >= cut - 3) fs::remove(copy(i));
  fs::remove(manifest);
  const auto left = sum(std::ssize(staged()));
  EXPECT_GT(left, 0);
  EXPECT_EQ(stage().files_present, left);
  EXPECT_EQ(std::ssize(staged()), source_files);
  EXPECT_FALSE(fs::exists(options_.target + "/.keelson-stage-0.jsonl"));
}

TEST_F(StagingTest, RemovesCopiesOfAnEarlierPlan) {
  stage();
  const auto r = stage(StageMode::shard);
  EXPECT_EQ(r.opened, 0);
  EXPECT_EQ(sum(std::ssize(staged())), source_files);
  EXPECT_EQ(stage(StageMode::full).opened, 0);
  EXPECT_EQ(std::ssize(staged()), source_files);
}

/// A manifest must not make staging remove files of others.
TEST_F(StagingTest, RefusesManifestsThatNameFilesOutside) {
  stage();
  const auto manifest = options_.target + "/.keelson-stage.jsonl";
  const auto text = bytes_of(manifest), outside = folder_ + "/outside-" + std::to_string(rank());
  write_file(outside, "mine");
  for (const std::string& name :
       {"../outside-" + std::to_string(rank()), outside, std::string(), std::string("b/..")}) {
    write_file(manifest, text + R"({"type":"file","name":")" + name + R"(","bytes":4,"crc32c":"0"})" + "\n");
    world().barrier();
    expect_part(refusal<InputError>(), "no part of a manifest");
  }
  write_file(manifest, text + R"({"type":"file","name":7})" + "\n");
  world().barrier();
  expect_part(refusal<InputError>(), R"(no part of a manifest: {"type":"file","name":7}. Remove)");
  EXPECT_EQ(bytes_of(outside), "mine");
}

TEST_F(StagingTest, RefusesOtherSourcesAndFiles) {
  stage();
  world().barrier();
  if (rank() == 0) write_file(source(3), "changed");
  world().barrier();
  expect_part(refusal<InputError>(), "stage to another folder, or remove this one");
  options_.target += "-other";
  fs::create_directories(options_.target);
  write_file(copy(4), "not ours");
  expect_part(refusal<InputError>(), "no manifest says that it is a staged copy");
  EXPECT_EQ(bytes_of(copy(4)), "not ours");
  for (const char* part : {"", "/copies"}) {
    options_.target = options_.source + part;
    expect_part(refusal<InputError>(), "from which files are copied");
  }
  EXPECT_FALSE(fs::exists(options_.source + "/copies"));
  options_.target = folder_ + "/new-" + std::to_string(rank());
  options_.mode = StageMode::sample;
  options_.count = 41;
  expect_part(refusal<InputError>(), "Expected a number from 1 to 40");
}

TEST_F(StagingTest, NamesFilesThatCannotBeRead) {
  world().barrier();
  if (rank() == 0) {
    fs::remove(source(8));
    fs::create_directory(source(8));
    options_.find = [&](const std::string& path) {
      auto found = find_data(path);
      found.push_back(source(8));
      return found;
    };
  }
  world().barrier();
  expect_part(refusal<InputError>(), "08.dat: is a pipe, a device or a folder");
  if (size() == 1) return;
  // A rank does not see the files that rank 0 has found.
  options_.find = find_data;
  if (rank() == size() - 1) options_.source = options_.target;
  expect_part(refusal<InputError>(), "(3 attempts)");
}

/// The other ranks have other paths, which do not matter.
TEST(ReadOnce, GivesAllRanksTheFileOfRankZero) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::optional<TemporaryFolder> folder;
  if (world().rank() == 0) folder.emplace();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, 2 * mebibyte, 33 * mebibyte + 7}) {
    std::string content(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * i >> 7 & 0xff);
    const auto path = folder ? write_file(*folder / "file", content) : "nowhere";
    EXPECT_EQ(read_once(path, &world()), content);
    const auto shared = read_once_per_node(path, &world());
    ASSERT_EQ(shared.bytes().size(), bytes);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), reinterpret_cast<const char*>(shared.bytes().data())));
    EXPECT_EQ(shared.digest(), crc32c(content.data(), bytes));
  }
  const auto missing = folder ? *folder / "missing" : "nowhere";
  for (const auto& message : {message_of<InputError>([&] { read_once(missing, &world()); }),
                              message_of<InputError>([&] { read_once_per_node(missing, &world()); })})
    EXPECT_NE(message.find("missing: cannot be opened"), std::string::npos) << message;
}

}  // namespace
}  // namespace keelson::testing
