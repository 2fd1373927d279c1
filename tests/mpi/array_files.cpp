#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"

/// Array files that ranks open together are those of one rank.
namespace keelson::testing {
namespace {

TEST(ArrayFilesOfRanks, AreThoseOfOneRank) {
  std::optional<TemporaryFolder> folder;
  if (world().rank() == 0) folder.emplace();
  const std::string path = world().allgather(folder ? folder->path() : "")[0];
  constexpr int files = 5;
  if (folder)
    for (int f = 0; f < files; ++f) {
      const std::int64_t n = f + 1;
      std::vector<double> x;
      for (std::int64_t i = 0; i < 6 * n; ++i) x.push_back(100 * f + static_cast<double>(i));
      write_file(path + fmt::format("/{}.nc", f),
                 netcdf_of(1, {{"n", 0}, {"a", 2}, {"b", 3}},
                           {{"x", {0, 1, 2}, CdfType::f32, x}, {"y", {0}, CdfType::i32, x}}, n));
    }
  world().barrier();
  const ArrayFileOptions options{.layout = ArrayLayout::none, .classes = true, .standardise = true};
  const ArrayFileDataset alone(path, options), together(path, options, &world());
  ASSERT_EQ(together.size(), 15);
  EXPECT_EQ(together.digest(), alone.digest());
  for (std::int64_t i = 0; i < together.size(); ++i) {
    std::vector<float> x[2] = {std::vector<float>(6), std::vector<float>(6)};
    std::int32_t y[2] = {-1, -2};
    void* const of_alone[] = {x[0].data(), &y[0]};
    void* const of_together[] = {x[1].data(), &y[1]};
    alone.read(i, of_alone);
    together.read(i, of_together);
    EXPECT_EQ(x[0], x[1]) << i;
    EXPECT_EQ(y[0], y[1]) << i;
  }
  world().barrier();
  if (folder) write_file(path + "/3.nc", netcdf_of(1, {{"n", 2}}, {{"x", {0}, CdfType::f32, {1, 2}}}));
  world().barrier();
  const auto message = message_of<InputError>([&] { ArrayFileDataset(path, options, &world()); });
  EXPECT_NE(message.find("3.nc: has no array 'y'"), std::string::npos) << message;
  world().barrier();
}

}  // namespace
}  // namespace keelson::testing
