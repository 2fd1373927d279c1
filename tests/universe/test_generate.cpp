#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <string>

#include "apps/cosmoflow/universe/generate.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::universe {
namespace {

namespace fs = std::filesystem;
using hdf5::Dims;

/// The number of a process of this machine that runs no more.
pid_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class Generate : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("keelson_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
             std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  GenerateOptions options(const std::string& folder = "data") const {
    GenerateOptions o;
    o.directory = root_ / folder;
    o.grid = 8;
    o.seed = 42;
    return o;
  }

  static hdf5::File open(const fs::path& path) { return hdf5::File::open(path.string()); }

  /// Every file below `folder` with its counts and labels.
  std::map<std::string, std::pair<std::vector<std::int16_t>, std::vector<float>>> contents(
      const std::string& folder) const {
    std::map<std::string, std::pair<std::vector<std::int16_t>, std::vector<float>>> all;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / folder)) {
      if (!entry.is_regular_file()) continue;
      const auto file = open(entry.path());
      all[fs::relative(entry.path(), root_ / folder)] = {file.read<std::int16_t>("x"), file.read<float>("y")};
    }
    return all;
  }

  fs::path root_;
};

TEST_F(Generate, WritesThePublicLayoutWithItsAttributes) {
  GenerateOptions o = options();
  o.train = 2;
  o.validation = 1;
  o.test = 1;
  std::int64_t calls = 0;
  const GenerateReport report = generate(o, [&](const GenerateProgress& p) {
    EXPECT_EQ(p.done, ++calls);
    EXPECT_EQ(p.total, 4);
    EXPECT_FALSE(p.skipped);
    EXPECT_TRUE(fs::exists(p.file));
  });
  EXPECT_EQ(report.written, 4);
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(fs::exists(o.directory / "train/univ_000001.h5"));
  EXPECT_TRUE(fs::exists(o.directory / "validation/univ_000000.h5"));
  EXPECT_TRUE(fs::exists(o.directory / "test/univ_000000.h5"));

  const auto file = open(o.directory / "train/univ_000001.h5");
  EXPECT_EQ(file.info("x").shape, (Dims{8, 8, 8, 4}));
  EXPECT_EQ(file.info("y").shape, Dims{4});
  EXPECT_EQ(file.texts_attribute("/", "parameter_names"),
            (std::vector<std::string>{"Omega_m", "sigma_8", "N_spec", "H_0"}));
  EXPECT_EQ(file.numbers_attribute<double>("/", "parameter_minimum"), (std::vector<double>{0.1, 0.6, 0.8, 50}));
  EXPECT_EQ(file.numbers_attribute<double>("/", "parameter_maximum"), (std::vector<double>{0.5, 1.0, 1.2, 90}));
  EXPECT_EQ(file.numbers_attribute<double>("/", "redshifts"), (std::vector<double>{3, 1.5, 0.5, 0}));
  EXPECT_EQ(file.text_attribute("/", "seed"), "42");
  EXPECT_EQ(file.text_attribute("/", "split"), "train");
  EXPECT_EQ(file.numbers_attribute<double>("/", "first_universe"), std::vector<double>{1});
  EXPECT_EQ(file.numbers_attribute<double>("/", "box_size"), std::vector<double>{256});
  EXPECT_EQ(file.numbers_attribute<double>("/", "particles_per_side"), std::vector<double>{16});
  EXPECT_EQ(file.numbers_attribute<double>("/", "lpt_order"), std::vector<double>{2});
  EXPECT_EQ(file.numbers_attribute<double>("/", "omega_b"), std::vector<double>{0.049});

  // Labels are the physical parameters in unit coordinates.
  const auto y = file.read<float>("y");
  const auto physical = file.numbers_attribute<double>("/", "physical_parameters");
  for (int i = 0; i < kParameters; ++i) {
    EXPECT_GT(physical[i], o.prior.minimum[i]);
    EXPECT_LT(physical[i], o.prior.maximum[i]);
    EXPECT_NEAR(y[i], 2 * (physical[i] - o.prior.minimum[i]) / (o.prior.maximum[i] - o.prior.minimum[i]) - 1, 1e-6);
  }
  // Every channel holds every particle, and structure grows from channel to channel.
  const auto x = file.read<std::int16_t>("x");
  double before = 0;
  for (std::size_t c = 0; c < 4; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t i = c; i < x.size(); i += 4) {
      sum += x[i];
      squares += (x[i] - 8.0) * (x[i] - 8.0);
    }
    EXPECT_EQ(sum, 16 * 16 * 16);
    EXPECT_GT(squares, before);
    before = squares;
  }
}

TEST_F(Generate, IsAFunctionOfTheSeedAndNotOfTheRanks) {
  GenerateOptions one = options("one");
  one.train = 7;
  one.validation = 2;
  generate(one);
  GenerateOptions many = options("many");
  many.train = 7;
  many.validation = 2;
  many.ranks = 3;
  std::int64_t written = 0;
  for (many.rank = 2; many.rank >= 0; --many.rank) written += generate(many).written;
  EXPECT_EQ(written, 9);
  EXPECT_EQ(contents("one"), contents("many"));

  GenerateOptions other = options("other");
  other.train = 1;
  other.validation = 1;
  other.seed = 43;
  generate(other);
  const auto a = contents("one"), b = contents("other");
  EXPECT_NE(a.at("train/univ_000000.h5"), b.at("train/univ_000000.h5"));
  EXPECT_NE(a.at("train/univ_000000.h5"), a.at("train/univ_000001.h5"));
  EXPECT_NE(a.at("train/univ_000000.h5"), a.at("validation/univ_000000.h5"));
}

TEST_F(Generate, ResumesWithoutRemakingAndNeverMixesConfigurations) {
  GenerateOptions o = options();
  o.train = 2;
  generate(o);
  const auto first = contents("data");
  const auto time = fs::last_write_time(o.directory / "train/univ_000000.h5");
  fs::remove(o.directory / "train/univ_000001.h5");
  const auto left_by = [&](const std::string& process) {
    return o.directory / "train" / (".univ_000001.h5.partial-" + process);
  };
  const auto killed = left_by(host_name() + "-" + std::to_string(ended_process())), other = left_by("elsewhere-1");
  for (const auto& file : {killed, other}) std::ofstream(file) << "left by a killed run";
  o.train = 3;
  const GenerateReport report = generate(o);
  EXPECT_EQ(report.skipped, 1);
  EXPECT_EQ(report.written, 2);
  EXPECT_EQ(fs::last_write_time(o.directory / "train/univ_000000.h5"), time);
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::remove(other)) << "of another machine, where its process may still run";
  auto all = contents("data");
  EXPECT_EQ(all.size(), 3u);
  all.erase("train/univ_000002.h5");
  EXPECT_EQ(all, first);

  o.order = LagrangianParticles::Order::kZeldovich;
  try {
    generate(o);
    FAIL() << "mixed two configurations";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("LPT order 1"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("LPT order 2"), std::string::npos) << e.what();
  }
  o = options();
  o.train = 1;
  std::ofstream(o.directory / "train/univ_000000.h5") << "not HDF5";
  EXPECT_THROW(generate(o), InputError);
}

TEST_F(Generate, WritesManySamplesPerFile) {
  GenerateOptions single = options("single");
  single.train = 5;
  generate(single);
  GenerateOptions many = options("many");
  many.train = 5;
  many.samples_per_file = 3;
  EXPECT_EQ(generate(many).written, 5);
  const auto singles = contents("single");
  const auto files = contents("many");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(open(many.directory / "train/univ_000003.h5").info("x").shape, (Dims{2, 8, 8, 8, 4}));
  EXPECT_EQ(open(many.directory / "train/univ_000003.h5").info("y").shape, (Dims{2, 4}));
  EXPECT_EQ(open(many.directory / "train/univ_000003.h5").info("physical_parameters").shape, (Dims{2, 4}));
  std::vector<std::int16_t> x, x_many;
  std::vector<float> y, y_many;
  for (const auto& [name, data] : singles) {
    x.insert(x.end(), data.first.begin(), data.first.end());
    y.insert(y.end(), data.second.begin(), data.second.end());
  }
  for (const auto& [name, data] : files) {
    x_many.insert(x_many.end(), data.first.begin(), data.first.end());
    y_many.insert(y_many.end(), data.second.begin(), data.second.end());
  }
  EXPECT_EQ(x, x_many);
  EXPECT_EQ(y, y_many);

  many.train = 6;  // the short last file is completed
  const GenerateReport report = generate(many);
  EXPECT_EQ(report.skipped, 3);
  EXPECT_EQ(report.written, 3);
}

TEST_F(Generate, WritesTheRawLayoutOfThePublicPrior) {
  GenerateOptions o = options();
  o.train = 1;
  o.layout = FileLayout::kRaw;
  o.prior = prior_preset("public");
  generate(o);
  const auto file = open(o.directory / "train/univ_000000.h5");
  EXPECT_EQ(file.info("full").shape, (Dims{8, 8, 8, 4}));
  EXPECT_EQ(file.info("unitPar").shape, Dims{4});
  EXPECT_EQ(file.info("namePar").shape, Dims{4});
  EXPECT_EQ(file.read<double>("redshifts"), (std::vector<double>{0, 0.5, 1.5, 3}));
  const auto physical = file.read<double>("physPar");
  const auto unit = file.read<float>("unitPar");
  const double middle[] = {0.3, 0.8, 0.96, 70};
  for (int i = 0; i < kParameters; ++i) EXPECT_NEAR(physical[i], middle[i] * (1 + 0.1 * unit[i]), 1e-6 * middle[i]);
  EXPECT_NEAR(file.numbers_attribute<double>("/", "box_size")[0], 512 * physical[3] / 70,
              1e-9);  // 512 Mpc/h at h = 0.7, one size in Mpc
}

TEST_F(Generate, DrawsTheWholePriorUniformly) {
  const Prior prior = prior_preset("wide");
  const int draws = 4000;
  ParameterVector sum{}, squares{};
  double cross = 0;
  for (std::uint64_t u = 0; u < draws; ++u) {
    const ParameterVector unit = prior.unit(prior.draw(9, u));
    for (int i = 0; i < kParameters; ++i) {
      ASSERT_GT(unit[i], -1);
      ASSERT_LT(unit[i], 1);
      sum[i] += unit[i];
      squares[i] += unit[i] * unit[i];
    }
    cross += unit[0] * unit[1];
  }
  const double error = 1 / std::sqrt(static_cast<double>(draws));  // variances 1/3, 4/45 and 1/9
  for (int i = 0; i < kParameters; ++i) {
    EXPECT_NEAR(sum[i] / draws, 0, 4.5 * std::sqrt(1 / 3.0) * error);
    EXPECT_NEAR(squares[i] / draws, 1 / 3.0, 4.5 * std::sqrt(4 / 45.0) * error);
  }
  EXPECT_NEAR(cross / draws, 0, 4.5 / 3 * error);
}

TEST_F(Generate, RefusesWhatCannotWork) {
  const auto refuses = [](GenerateOptions o) { EXPECT_THROW(generate(o), InputError); };
  GenerateOptions o = options();
  refuses(o);  // nothing asked for
  o.train = 1;
  const auto with = [&](auto change) {
    GenerateOptions changed = o;
    change(changed);
    refuses(changed);
  };
  with([](auto& c) { c.train = -1; });
  with([](auto& c) { c.grid = 2; });
  with([](auto& c) { c.particles_per_cell_side = 0; });
  with([](auto& c) { c.particles_per_cell_side = 40; });
  with([](auto& c) { c.samples_per_file = 0; });
  with([](auto& c) { c.samples_per_file = 2, c.layout = FileLayout::kRaw; });
  with([](auto& c) { c.rank = 1; });
  with([](auto& c) { c.prior.redshifts.clear(); });
  with([](auto& c) { c.prior.redshifts = {-0.5}; });
  with([](auto& c) { c.prior.minimum[0] = 0.01; });  // less matter than baryons
  with([](auto& c) { c.prior.maximum[1] = c.prior.minimum[1]; });
  with([](auto& c) { c.prior.box_size = 0; });
  EXPECT_FALSE(fs::exists(root_)) << "something was written";
  EXPECT_THROW(generate_range(o, Split::kTrain, 2, 1), InputError);
  EXPECT_THROW(prior_preset("narrow"), InputError);

  fs::create_directories(root_);
  std::ofstream(o.directory) << "a file where the folder should be";
  refuses(o);
}

TEST_F(Generate, LeavesNoFileBehindWhenItFails) {
  GenerateOptions o = options();
  o.train = 1;
  o.prior.minimum = {0.1, 900, 0.8, 50};  // a sigma_8 that moves particles through the whole box
  o.prior.maximum = {0.5, 999, 1.2, 90};
  EXPECT_THROW(generate(o), Error);
  EXPECT_TRUE(fs::is_directory(o.directory / "train"));
  EXPECT_TRUE(contents("data").empty());
}

// 16 bits hold 32767: with 24^3 = 13824 particles per cell on average some cells have more.
TEST_F(Generate, RefusesToStoreCountsThatDoNotFit) {
  GenerateOptions o = options();
  o.train = 1;
  o.grid = 4;
  o.particles_per_cell_side = 24;
  o.prior.redshifts = {0};
  o.prior.box_size = 64;
  o.order = LagrangianParticles::Order::kZeldovich;
  try {
    generate(o);
    FAIL() << "stored it";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("16 bits"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace keelson::universe
