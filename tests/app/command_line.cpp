#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"

namespace keelson::app {
namespace {

struct Options {
  int batch = 4;
  double rate = 0.002;
  bool augment = false, shuffle = true;
  std::vector<std::string> data;
  std::string output;
};

/// A program with two subcommands.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLine::Request parse(const std::vector<std::string>& arguments) {
    CommandLine line({"keelson-x", "Does x."});
    o_ = {};
    Subcommand& train = line.subcommand("train", "Trains", [](Launch&) { return ExitCode::done; });
    {
      const auto group = train.in(OptionGroup::training);
      train.option("--batch", o_.batch, "Samples per step", "SAMPLES").positive();
      train.option("--learning-rate", o_.rate, "Step size");
      const auto inner = train.in(OptionGroup::data);
    }
    train.flag("--augment", o_.augment, "Turn the cubes");
    train.flag("--shuffle", o_.shuffle, "Keep the order of the files");
    const auto group = train.in(OptionGroup::data);
    train.option_without_default("--data", o_.data, "Folders", "DIR");
    Subcommand& evaluate = line.subcommand("evaluate", "Evaluates", [](Launch&) { return ExitCode::done; });
    evaluate.option_without_default("--output", o_.output, "Result", "FILE").required();
    return line.parse(arguments);
  }

  std::string message(const std::vector<std::string>& arguments) {
    try {
      parse(arguments);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(accepted)";
  }

  void SetUp() override {
    config_ =
        (std::filesystem::temp_directory_path() /
         (std::string("keelson_config_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml"))
            .string();
  }
  void TearDown() override { std::filesystem::remove(config_); }
  void write(const std::string& text) { std::ofstream(config_) << text; }

  Options o_;
  std::string config_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(CommandLineTest, ReadsOptions) {
  EXPECT_TRUE(parse({"train"}).run);
  EXPECT_EQ(o_.batch, 4);
  EXPECT_TRUE(
      parse({"train", "--batch", "8", "--learning-rate=1e-3", "--augment", "--no-shuffle", "--data", "a", "b"}).run);
  EXPECT_EQ(o_.batch, 8);
  EXPECT_EQ(o_.rate, 1e-3);
  EXPECT_TRUE(o_.augment);
  EXPECT_FALSE(o_.shuffle);
  EXPECT_EQ(o_.data, (std::vector<std::string>{"a", "b"}));
  parse({"train", "--no-augment", "--shuffle"});
  EXPECT_FALSE(o_.augment);
  EXPECT_TRUE(o_.shuffle);
}

TEST_F(CommandLineTest, ShowsHelpWithDefaultsAndUnits) {
  auto request = parse({"--help"});
  EXPECT_FALSE(request.run);
  EXPECT_TRUE(contains(request.text, "train") && contains(request.text, "Does x.")) << request.text;
  request = parse({"train", "--help"});
  EXPECT_FALSE(request.run);
  for (const char* part : {"keelson-x train", "--batch SAMPLES", "--learning-rate", "--augment", "--no-shuffle",
                           "--data DIR", "--config FILE"})
    EXPECT_TRUE(contains(request.text, part)) << part << " is not in\n" << request.text;
  for (const std::string value : {"4", "0.002"})  // as new and old versions of CLI11 write them
    EXPECT_TRUE(contains(request.text, "[" + value + "]") || contains(request.text, "=" + value)) << request.text;
  EXPECT_EQ(parse({"--version"}).text, "keelson-x " KEELSON_VERSION "\n");
  EXPECT_EQ(parse({"train", "--version"}).text, "keelson-x " KEELSON_VERSION "\n");
}

TEST_F(CommandLineTest, HelpHasGroupsInAFixedOrder) {
  const std::string text = parse({"train", "--help"}).text;
  std::size_t at = 0;
  for (const char* part : {"Trains", "keelson-x train", "OPTIONS:", "--config", "--shuffle", "DATA:", "--data",
                           "TRAINING:", "--batch", "--learning-rate"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " is not where it should be in\n" << text;
    at = found;
  }
  EXPECT_FALSE(contains(text, "{false}")) << text;
  EXPECT_FALSE(contains(text, "NETWORK")) << "a group without options";
}

TEST_F(CommandLineTest, RefusesWithOneHelpfulMessage) {
  EXPECT_TRUE(contains(message({}), "a subcommand is expected: train, evaluate"));
  EXPECT_TRUE(contains(message({"trian"}), "unknown subcommand 'trian'; did you mean train?")) << message({"trian"});
  EXPECT_TRUE(contains(message({"fly"}), "unknown subcommand 'fly'; the subcommands are: train, evaluate"))
      << message({"fly"});
  EXPECT_TRUE(contains(message({"train", "--bacth", "3"}), "unknown option '--bacth'; did you mean --batch?"));
  EXPECT_TRUE(
      contains(message({"train", "--learning=3"}), "unknown option '--learning'; did you mean --learning-rate?"));
  EXPECT_TRUE(contains(message({"train", "--zzz"}), "unknown option '--zzz'; `keelson-x train --help`"));
  EXPECT_TRUE(contains(message({"train", "stray"}), "'stray'")) << message({"train", "stray"});
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"train", "--batch", "many"}, {"train", "--batch", "0"}, {"train", "--batch"}, {"train", "--batch", "1.5"}})
    EXPECT_TRUE(contains(message(wrong), "--batch")) << message(wrong);
  EXPECT_TRUE(contains(message({"evaluate"}), "--output")) << message({"evaluate"});
  EXPECT_TRUE(contains(message({"evaluate", "--outptu", "x"}), "did you mean --output?"))
      << message({"evaluate", "--outptu", "x"});
  EXPECT_TRUE(contains(message({"--bogus", "train"}), "unknown option '--bogus'")) << message({"--bogus", "train"});
}

TEST_F(CommandLineTest, ReadsNumbersStrictly) {
  for (const char* rate : {"0,001", "1_5", "nan", "inf", "-inf", "1e999", "0x1p3", " 1", "", "1 2"})
    EXPECT_TRUE(contains(message({"train", "--learning-rate", rate}), "--learning-rate: found '")) << rate;
  for (const char* batch : {"1_5", "1'5", "1e3", "8.0", "0x10"})
    EXPECT_TRUE(contains(message({"train", "--batch", batch}), "expected a whole number of at least 1")) << batch;
  EXPECT_TRUE(contains(message({"train", "--batch", "99999999999"}), "expected at most 2147483647"));
  parse({"train", "--batch", "010"});
  EXPECT_EQ(o_.batch, 10) << "not octal";
}

TEST_F(CommandLineTest, ReadsAConfigurationFile) {
  write(
      "batch = 16\nlearning-rate = 0.5  # fast\naugment = true\nshuffle = false\ndata = [\"a b\", \"c\"]\n"
      "[evaluate]\noutput = \"r.h5\"\n[train]\nlearning-rate = 0.25\n");
  EXPECT_TRUE(parse({"train", "--config", config_, "--batch", "2"}).run);
  EXPECT_EQ(o_.batch, 2) << "the command line wins";
  EXPECT_EQ(o_.rate, 0.25) << "the subcommand's own section comes later";
  EXPECT_TRUE(o_.augment);
  EXPECT_FALSE(o_.shuffle);
  EXPECT_EQ(o_.data, (std::vector<std::string>{"a b", "c"}));
  EXPECT_TRUE(parse({"train", "--no-augment", "--config=" + config_}).run);
  EXPECT_FALSE(o_.augment);
}

TEST_F(CommandLineTest, RefusesABadConfigurationFile) {
  EXPECT_TRUE(contains(message({"train", "--config", "/nowhere.toml"}), "/nowhere.toml"));
  write("bacth = 16\n");
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "'bacth' is no option of 'train'; did you mean batch?"))
      << message({"train", "--config", config_});
  write("[trian]\nbatch = 16\n");
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "unknown section [trian]; did you mean train?"))
      << message({"train", "--config", config_});
  write("batch = -1\n");
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "--batch")) << message({"train", "--config", config_});
  write("[train\nbatch 3\n");
  EXPECT_NE(message({"train", "--config", config_}), "(accepted)");
  write("batch = 1_5\n");
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "found '1_5'"))
      << message({"train", "--config", config_});
  write("batch = 3\nbatch = 4\n");
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "'batch' is given twice"))
      << message({"train", "--config", config_});
  for (const char* line : {"batch", " batch =", "batch = # 3", "batch # = 3", "\tbatch\r"}) {
    write(std::string("# a run\n[train]\n") + line + "\naugment = true\n");
    EXPECT_TRUE(contains(message({"train", "--config", config_}), "line 3: 'batch' has no value")) << line;
  }
  EXPECT_TRUE(contains(message({"train", "--config", ""}), "found an empty name, expected a TOML file"));
  EXPECT_TRUE(contains(message({"train", "--config="}), "found an empty name, expected a TOML file"));
  EXPECT_TRUE(contains(message({"train", "--config", "/tmp"}), "is a folder, expected a TOML file"));
  write(std::string("batch = 3\0", 10));
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "bytes of value 0"));
  std::filesystem::remove(config_);
  ASSERT_EQ(::mkfifo(config_.c_str(), 0600), 0);
  {  // what a shell makes of <(...)
    std::jthread writer([&] { std::ofstream(config_) << "batch = 5\n"; });
    parse({"train", "--config", config_});
    EXPECT_EQ(o_.batch, 5);
  }
  std::filesystem::remove(config_);
  write("");
  std::filesystem::resize_file(config_, std::uintmax_t{8} << 30);  // sparse
  EXPECT_TRUE(contains(message({"train", "--config", config_}), "is larger than 1 MiB"));
}

TEST_F(CommandLineTest, KnowsWhatIsReadAndWhatIsWritten) {
  CommandLine line({"keelson-x", "Does x."});
  Subcommand& draw = line.subcommand("draw", "Draws", [](Launch&) { return ExitCode::done; });
  std::vector<std::string> files;
  draw.positional("files", files, "To draw", "FILE...");
  draw.option("--data", o_.data, "Folders", "DIR");
  draw.option("--output", o_.output, "Result", "FILE").output();
  draw.option("--batch", o_.batch, "Samples", "N");
  line.parse({"draw", "a.json", "--output", "x.html", "--data", "b", "c", "--batch", "1"});
  EXPECT_EQ(draw.outputs(), (std::vector<std::pair<std::string, std::string>>{{"--output", "x.html"}}));
  EXPECT_EQ(draw.inputs(), (std::vector<std::string>{"b", "c", "a.json"}));
}

TEST_F(CommandLineTest, TheConfigurationFileIsAnInput) {
  write("batch = 3\n");
  parse({"train", "--config", config_});
  EXPECT_THROW(AtomicFile(config_, Target::output), InputError);
}

TEST_F(CommandLineTest, ReadsAByteOrderMarkAndArraysOverLines) {
  write(
      "\xef\xbb\xbf"
      "batch = 3\n");
  EXPECT_TRUE(parse({"train", "--config", config_}).run);
  EXPECT_EQ(o_.batch, 3);
}

}  // namespace
}  // namespace keelson::app
