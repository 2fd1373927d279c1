#include <gtest/gtest.h>

#include <optional>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "tests/support/data_files.hpp"
#include "tests/universe/samples.hpp"

/// UniverseDataset::read_sample.
namespace keelson::cosmoflow {
namespace {

using testing::counts;
using testing::TemporaryFolder;

/// Rows, of files that are read plainly and of others, whole and cut; also where all of a sample must be read.
TEST(UniverseDataset, ReadsSomePlanes) {
  const TemporaryFolder folder;
  write_sample(folder / "plain.h5", {8, 8, 8, 2}, counts<std::int16_t>(1024, 3), {0.5f});
  write_sample(folder / "converted.h5", {8, 8, 8, 2}, counts<double>(1024, 3), {0.5f});
  const RandomCubeSymmetry turn, turn_planes(plane_symmetries);
  UniverseOptions cut = as_stored(), mean = as_stored();
  cut.size = 4;
  mean.normalisation = Normalisation::mean;
  for (const char* file : {"plain.h5", "converted.h5"})
    for (const UniverseOptions& options : {as_stored(), UniverseOptions(), cut, mean})
      for (const RandomCubeSymmetry* transform : {static_cast<const RandomCubeSymmetry*>(nullptr), &turn, &turn_planes})
        for (const Rows rows : {Rows{-1, 3}, Rows{0, 4}, Rows{2, 10}, Rows{1, 2}, Rows{-2, 0}}) {
          const UniverseDataset data(folder / file, options);
          const SampleId id{.seed = 1, .epoch = 100 + 10 * rows.begin + rows.end, .index = data.size() - 1};
          const std::int64_t edge = data.fields()[0].shape[1], plane = edge * edge * 2;
          const auto whole = read(data, id.index, transform ? transform->draw(id) : 0);
          Sample part{std::vector<float>(static_cast<std::size_t>(rows.size() * plane), -99.0f), {-99.0f}};
          void* const dst[] = {part.x.data(), part.y.data()};
          const FieldRows wanted{rows, std::nullopt};
          data.read_sample({.id = id, .transform = transform, .rows = wanted}, dst);
          for (std::int64_t i = 0; i < rows.size() * plane; ++i) {
            const std::int64_t at = i + rows.begin * plane;
            const bool inside = at >= 0 && at < edge * plane;
            ASSERT_EQ(part.x[static_cast<std::size_t>(i)], inside ? whole.x[static_cast<std::size_t>(at)] : 0.0f)
                << file << " rows " << rows.begin << " to " << rows.end << ", element " << i;
          }
          EXPECT_EQ(part.y, whole.y);
        }
}

}  // namespace
}  // namespace keelson::cosmoflow
