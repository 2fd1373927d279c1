#include <gtest/gtest.h>

#include "apps/cosmoflow/task.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::cosmoflow {
namespace {

/// A universe whose attributes give its targets these greatest values.
std::string write_universe(const std::string& path, const std::vector<double>& maximum) {
  auto file = hdf5::File::create(path);
  const hdf5::Dims shape{6, 6, 6, 2};
  const std::vector<float> y{0.25F, -0.5F};
  file.write("x", testing::counts<std::int16_t>(432, 3).data(), shape);
  file.write("y", y.data(), {2});
  if (!maximum.empty()) {
    file.set_attribute("/", "parameter_names", std::vector<std::string>{"Omega_m", "H_0"});
    file.set_attribute("/", "parameter_minimum", std::vector<double>{0.1, 50});
    file.set_attribute("/", "parameter_maximum", maximum);
  }
  file.close();
  return path;
}

/// One damaged file of its own is a data set without contradictions.
TEST(Ranges, MustBeAlikeInAllDataOfARun) {
  const testing::TemporaryFolder folder;
  const UniverseDataset training(write_universe(folder / "train.h5", {0.4, 90}), UniverseOptions());
  const UniverseDataset same(write_universe(folder / "same.h5", {0.4, 90}), UniverseOptions());
  const UniverseDataset damaged(write_universe(folder / "damaged.h5", {0.4, 52}), UniverseOptions());
  const UniverseDataset without(write_universe(folder / "without.h5", {}), UniverseOptions());
  const auto ranges = ranges_of(training);
  EXPECT_EQ(ranges, "Omega_m 0.1 0.4, H_0 50 90");
  EXPECT_NO_THROW(require_ranges(same, ranges, "train.h5"));
  EXPECT_NE(testing::message_of<InputError>([&] {
              require_ranges(without, ranges, "train.h5");
            }).find("without.h5: lacks the attributes parameter_minimum and parameter_maximum, which train.h5 has"),
            std::string::npos);
  EXPECT_NO_THROW(require_ranges(damaged, ranges_of(without), "without.h5"));
  EXPECT_EQ(testing::message_of<InputError>([&] { require_ranges(damaged, ranges, "train.h5"); }),
            folder / "damaged.h5" +
                ": the attributes parameter_names, parameter_minimum and parameter_maximum say 'H_0 50 52', but "
                "train.h5 has 'H_0 50 90'. Expected the same ranges of the targets; move or remake the file that is "
                "wrong");
  for (const char* forged : {" ", ",", ", ,", "Omega_m 0.1 0.4", "Omega_m 0.1 0.4, H_0 50 90, x 1 2"})
    EXPECT_NE(testing::message_of<InputError>([&] { require_ranges(damaged, forged, "c.h5"); }).find("c.h5 has '"),
              std::string::npos)
        << forged;
}

}  // namespace
}  // namespace keelson::cosmoflow
