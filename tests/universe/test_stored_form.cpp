#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/coded_voxels.hpp"
#include "tests/support/data_files.hpp"
#include "tests/universe/samples.hpp"

namespace keelson::cosmoflow {
namespace {

using testing::counts;
using testing::TemporaryFolder;

/// Samples from their stored form are those from the files: whole, turned, in rows, and as codes.
TEST(StoredForm, OfUniversesIsDecoded) {
  const TemporaryFolder folder;
  const auto x = counts<std::int16_t>(16 * 16 * 16 * 2, 3);
  write_sample(folder / "i16.h5", {16, 16, 16, 2}, x, {0.25f, -0.5f});
  write_sample(folder / "f32.h5", {16, 16, 16, 2}, std::vector<float>(x.begin(), x.end()), {0.25f, -0.5f});
  write_sample(folder / "f64.h5", {16, 16, 16, 2}, std::vector<double>(x.begin(), x.end()), {0.25f, -0.5f});
  const RandomCubeSymmetry turn(cube_symmetries), planes(plane_symmetries);
  for (const char* name : {"/i16.h5", "/f32.h5", "/f64.h5"})
    for (const std::int64_t size : {0, 8})
      for (const Normalisation normalisation : {Normalisation::log1p, Normalisation::mean}) {
        UniverseOptions options{.size = size, .channels = {1}, .normalisation = normalisation};
        const UniverseDataset data(folder.path() + name, options);
        const std::int64_t edge = data.fields()[0].shape[1], n = edge * edge * edge;
        EXPECT_EQ(data.stored_bytes(), std::string(name) == "/i16.h5"   ? n * 4
                                       : std::string(name) == "/f32.h5" ? n * 8
                                                                        : n * 4 + 8);
        const std::int64_t last = data.size() - 1;
        std::vector<std::byte> stored(static_cast<std::size_t>(data.stored_bytes()));
        data.read_stored(last, stored.data());
        for (const SampleTransform* transform :
             std::initializer_list<const SampleTransform*>{nullptr, &turn, &planes}) {
          const SampleId id{7, 3, last};
          for (const FieldRows& rows : {FieldRows{}, FieldRows{Rows{2, 7}, {}}, FieldRows{Rows{-1, 3}, {}}}) {
            const std::int64_t elements = rows.empty() ? n : rows[0]->size() * edge * edge;
            std::vector<float> want(static_cast<std::size_t>(elements), 9), got(want.size(), 8);
            std::vector<float> want_y(2), got_y(2);
            void *const to_want[] = {want.data(), want_y.data()}, *const to_got[] = {got.data(), got_y.data()};
            const SampleRequest request{.id = id, .transform = transform, .rows = rows};
            data.read_sample(request, to_want);
            data.decode(request, stored.data(), to_got);
            EXPECT_EQ(got, want) << name << ' ' << size;
            EXPECT_EQ(got_y, want_y);
          }
          if (!data.encoding(transform)) continue;
          std::vector<std::uint16_t> want(static_cast<std::size_t>(2 * n)), got(want.size());
          std::vector<float> y(2);
          void *const to_want[] = {want.data(), y.data()}, *const to_got[] = {got.data(), y.data()};
          ops::VoxelSample first, second;
          data.read_sample({.id = id, .transform = transform, .encoding = &first}, to_want);
          data.decode({.id = id, .transform = transform, .encoding = &second}, stored.data(), to_got);
          EXPECT_EQ(got, want);
          EXPECT_EQ(first.divisor, second.divisor);
          EXPECT_EQ(first.origin, second.origin);
        }
      }
}

}  // namespace
}  // namespace keelson::cosmoflow
