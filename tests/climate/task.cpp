#include "apps/climate/task.hpp"

#include <gtest/gtest.h>

#include "apps/common/subcommand.hpp"
#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::climate {
namespace {

RunOptions from_recipe(const std::string& name) {
  return app::stored_options<RunOptions>(app::find_recipe(recipes(), name));
}

TEST(ClimateRecipes, AreOptionsThatGoTogether) {
  for (const auto& [name, recipe] : recipes()) {
    const RunOptions o = from_recipe(name);
    EXPECT_NO_THROW(check(o)) << name;
    EXPECT_TRUE(name.starts_with("deepcam") ? o.net == "deepcam" : name == "demo" || name == "sc18-" + o.net) << name;
  }
  EXPECT_THROW(app::find_recipe(recipes(), "deepcam-129"), InputError);
}

/// As the published code has them, in steps.
TEST(ClimateRecipes, DeepCamSchedules) {
  constexpr std::int64_t steps = 237;
  const auto rate = [&](const std::string& name, double step) {
    return make_schedule(from_recipe(name), steps).at(step / steps);
  };
  EXPECT_DOUBLE_EQ(rate("deepcam-512", 50), 0.002);
  EXPECT_DOUBLE_EQ(rate("deepcam-512", 100.5), 0.004);
  EXPECT_DOUBLE_EQ(rate("deepcam-512", 2147.5), 0.004);
  EXPECT_DOUBLE_EQ(rate("deepcam-512", 2148.5), 0.0004);
  EXPECT_DOUBLE_EQ(rate("deepcam-512", 4196.5), 0.00004);
  EXPECT_NEAR(rate("deepcam-128", 4500), 0.00155 / 2, 1e-12);
  EXPECT_NEAR(rate("deepcam-128", 9000), 0, 1e-12);
  EXPECT_DOUBLE_EQ(make_schedule(from_recipe("sc18-deeplab"), steps).at(3), 1e-4);
}

TEST(ClimateRecipes, Optimizers) {
  const auto lamb = make_optimizer(from_recipe("deepcam-1024"));
  const auto& l = dynamic_cast<const Lamb&>(*lamb);
  EXPECT_TRUE(l.adapt_vectors);
  EXPECT_FLOAT_EQ(l.weight_decay, 0.01f);
  EXPECT_FLOAT_EQ(l.clip_norm, 1);
  EXPECT_FLOAT_EQ(l.epsilon, 1e-6f);
  const auto adam = make_optimizer(from_recipe("sc18-tiramisu"));
  const auto& a = dynamic_cast<const Adam&>(*adam);
  EXPECT_EQ(a.larc.mode, ops::LarcMode::clip);
  EXPECT_TRUE(a.larc.relative);
  EXPECT_FLOAT_EQ(a.larc.floor, 1.0f / 16000);
  EXPECT_EQ(from_recipe("sc18-tiramisu").sync, "lag");
}

TEST(ClimateRecipes, MetricsJudgeAsPublished) {
  EXPECT_EQ(make_metrics(from_recipe("deepcam-128"))[0]->name(), "mean IoU per image");
  EXPECT_EQ(make_metrics(from_recipe("sc18-deeplab"))[0]->name(), "mean IoU over all pixels");
  RunOptions o;
  o.net = "deepcam";
  EXPECT_EQ(make_metrics(o)[0]->name(), "mean IoU per image");
  o.metric = "pooled";
  EXPECT_EQ(make_metrics(o)[0]->name(), "mean IoU over all pixels");
}

TEST(ClimateRanges, SurviveAsText) {
  const ChannelRanges r{{0.1f, -3e-20f, 101325.125f}, {1.0f / 3, 0, 3e20f}, true};
  EXPECT_EQ(ranges_from_text(to_text(r), ""), r);
  EXPECT_EQ(to_text({{1, -3}, {2.5, 4}}), "1:2.5,-3:4");
  for (const std::string text : {"1", "1:2,", "1:2,a:3", "1:2;3:4"}) {
    EXPECT_NE(
        testing::message_of<InputError>([&] { ranges_from_text(text, "x.h5"); }).find("x.h5: found the channels'"),
        std::string::npos)
        << text;
  }
  EXPECT_NE(testing::message_of<InputError>([&] { ranges_from_text("", "x.h5"); }).find("has no ranges"),
            std::string::npos);
}

/// A channel of which the statistics say that it does not vary, and that does.
TEST(ClimateRanges, MustBeThoseOfTheData) {
  const testing::TemporaryFolder folder;
  constexpr std::int64_t rows = 2, columns = 3;
  std::vector<float> data(rows * columns * kChannels);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i % kChannels == 5 ? 7 : static_cast<float>(i);
  auto f = hdf5::File::create(folder / "data.h5");
  f.write("climate/data", data.data(), {rows, columns, kChannels});
  f.close();
  const SnapshotDataset training(folder / "data.h5", {.needs_labels = false});
  const auto measured = measure_ranges(training, nullptr);
  EXPECT_EQ(measured.least[5], measured.most[5]);
  const auto world = comm::make_self();
  RunOptions o;
  o.stats = folder / "stats.h5";
  const auto write = [&](const std::vector<float>& most) {
    auto stats = hdf5::File::create(o.stats);
    stats.write("climate/minval", measured.least.data(), {kChannels});
    stats.write("climate/maxval", most.data(), {kChannels});
    stats.close();
  };
  write(measured.most);
  EXPECT_EQ(find_normalisation(o, training, {}, *world).ranges.most, measured.most);
  auto damaged = measured.most;
  damaged[3] = measured.least[3];
  write(damaged);
  const auto said = testing::message_of<InputError>([&] { find_normalisation(o, training, {}, *world); });
  EXPECT_NE(said.find("stats.h5: channel 3 ranges from 3 to 3, so it would become 0, but "), std::string::npos) << said;
  EXPECT_NE(said.find("data.h5 holds 19 in it. Expected the statistics of the training data"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace keelson::climate
