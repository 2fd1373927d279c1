#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"
#include "tests/universe/samples.hpp"

/// Universes in NetCDF files and in NumPy's .npz, beside the same universes in HDF5.
namespace keelson::cosmoflow {
namespace {

using testing::bytes_of_numbers;
using testing::CdfType;
using testing::message_of;
using testing::TemporaryFolder;

constexpr std::int64_t kEdge = 8, kElements = 8 * 8 * 8 * 2;

class ArrayUniverseFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::int64_t i = 0; i < 2; ++i) {
      x_.push_back(testing::counts<std::int16_t>(kElements, static_cast<std::uint64_t>(i) + 1));
      y_.push_back({0.25f, static_cast<float>(i)});
      std::filesystem::create_directories(folder_ / "hdf5");
      write_sample(folder_ / fmt::format("hdf5/{}.h5", i), {kEdge, kEdge, kEdge, 2}, x_.back(), y_.back());
    }
  }
  void write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string npz(std::size_t i, bool deflated) const {
    return testing::zip_of({{"x.npy", testing::npy_of("<i2", "(8, 8, 8, 2)", bytes_of_numbers(x_[i]))},
                            {"y.npy", testing::npy_of("<f4", "(2,)", bytes_of_numbers(y_[i]))}},
                           deflated);
  }
  std::string netcdf(std::size_t i) const {
    return testing::netcdf_of(2, {{"edge", kEdge}, {"channel", 2}, {"target", 2}},
                              {{"x", {0, 0, 0, 1}, CdfType::i16, {x_[i].begin(), x_[i].end()}},
                               {"y", {2}, CdfType::f32, {y_[i].begin(), y_[i].end()}}});
  }
  void expect_as_hdf5(const std::string& form, bool has_codes) const {
    for (const std::int64_t size : {0, 4})
      for (const auto normalisation : {Normalisation::log1p, Normalisation::mean}) {
        const UniverseOptions options{.size = size, .channels = {1}, .normalisation = normalisation};
        const UniverseDataset wanted(folder_ / "hdf5", options), found(folder_ / form, options);
        ASSERT_EQ(found.size(), wanted.size()) << form;
        EXPECT_EQ(found.encoding(nullptr) != nullptr, has_codes) << form;
        EXPECT_FALSE(found.read_cost().has_value() && found.read_cost()->chunk_bytes > 0);
        for (std::int64_t i = 0; i < wanted.size(); ++i)
          for (const int symmetry : {0, 17})
            EXPECT_EQ(read(found, i, symmetry), read(wanted, i, symmetry)) << form << i;
      }
  }

  TemporaryFolder folder_;
  std::vector<std::vector<std::int16_t>> x_;
  std::vector<std::vector<float>> y_;
};

TEST_F(ArrayUniverseFiles, HaveTheSamplesOfHdf5) {
  for (std::size_t i = 0; i < 2; ++i) {
    write(fmt::format("npz/{}.npz", i), npz(i, false));
    write(fmt::format("deflated/{}.npz", i), npz(i, true));
    write(fmt::format("netcdf/{}.nc", i), netcdf(i));
  }
  expect_as_hdf5("npz", true);  // read by their position
  expect_as_hdf5("deflated", false);
  expect_as_hdf5("netcdf", false);
}

TEST_F(ArrayUniverseFiles, OfManySamplesAreRead) {
  std::vector<std::int16_t> x = x_[0];
  x.insert(x.end(), x_[1].begin(), x_[1].end());
  const std::vector<float> y{y_[0][0], y_[0][1], y_[1][0], y_[1][1]};
  write("many/all.npz", testing::zip_of({{"x.npy", testing::npy_of("<i2", "(2, 8, 8, 8, 2)", bytes_of_numbers(x))},
                                         {"y.npy", testing::npy_of("<f4", "(2, 2)", bytes_of_numbers(y))}},
                                        false));
  expect_as_hdf5("many", true);
}

TEST_F(ArrayUniverseFiles, AreRefusedWithWhatIsExpected) {
  const auto said = [&](const std::string& name, const std::string& bytes) {
    write(name, bytes);
    return message_of<InputError>([&] { UniverseDataset(folder_ / name, {}); });
  };
  const auto expect_says = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_says(said("x.npy", testing::npy_of("<i2", "(8, 8, 8, 2)", bytes_of_numbers(x_[0]))),
              "with the arrays x. Expected 'x', the volumes, and 'y', the targets, in one file: write them with "
              "numpy.savez(file, x=..., y=...)");
  expect_says(said("p.parquet", "PAR1 and so on"),
              "Expected HDF5, NetCDF (classic or netCDF-4), or NumPy (.npy, .npz), or TFRecord (names with .tfrecord)");
  expect_says(said("flat.npz", testing::zip_of({{"x.npy", testing::npy_of("<i2", "(32, 32)", bytes_of_numbers(x_[0]))},
                                                {"y.npy", testing::npy_of("<f4", "(2,)", bytes_of_numbers(y_[0]))}},
                                               false)),
              "'x' has the shape (32, 32) and 'y' (2). Expected (D, H, W, channels) with (targets)");
  expect_says(said("text.npz", testing::zip_of({{"x.npy", testing::npy_of("<U1", "(8, 8, 8)", std::string(2048, '\0'))},
                                                {"y.npy", testing::npy_of("<f4", "(2,)", bytes_of_numbers(y_[0]))}},
                                               false)),
              "text.npz");
}

}  // namespace
}  // namespace keelson::cosmoflow
