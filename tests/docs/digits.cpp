// What docs/adding-a-data-format.md and docs/adding-a-network.md show, put to work: a data set of .npy files and a
// subcommand that trains on it and resumes. tests/cli/test_readme.py compares the pages with the sources.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "apps/common/subcommand.hpp"
#include "comm/communicators.hpp"
#include "engine/base/philox.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "tests/docs/npy_dataset.hpp"
#include "tests/docs/train_subcommand.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

/// An array as numpy.save writes it.
template <class T>
std::string npy(const std::string& shape, const std::vector<T>& values, const std::string& type, int version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((header.size() + 12 + 64) / 64 * 64 - (version == 1 ? 10 : 12), ' ');
  header.back() = '\n';
  std::string text = "\x93NUMPY";
  text += {static_cast<char>(version), 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  if (version > 1) text += {0, 0};
  text += header;
  return text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// Images of 4 x 4 x 1, in which one quarter is bright: the class.
void write_images(const std::string& folder, std::int64_t samples, std::uint64_t seed) {
  std::filesystem::create_directories(folder);
  std::vector<float> images;
  std::vector<std::int32_t> classes;
  for (std::int64_t n = 0; n < samples; ++n) {
    const philox::Key key{seed, 1, static_cast<std::uint64_t>(n)};
    classes.push_back(static_cast<std::int32_t>(philox::bits(key, 99) % 4));
    for (int i = 0; i < 16; ++i) {
      const bool bright = i / 8 * 2 + i % 4 / 2 == classes.back();
      images.push_back(philox::uniform(key, static_cast<std::uint64_t>(i)) + (bright ? 1.0f : 0.0f));
    }
  }
  write_file(folder + "/images.npy", npy(fmt::format("({}, 4, 4, 1)", samples), images, "<f4"));
  write_file(folder + "/classes.npy", npy(fmt::format("({},)", samples), classes, "<i4", 2));
}

TEST(NpyDataset, ReadsWhatNumpyWrites) {
  const TemporaryFolder folder;
  write_file(folder / "images.npy", npy<float>("(2, 1, 2, 2)", {1, 2, 3, 4, 5, 6, 7, 8}, "<f4"));
  write_file(folder / "classes.npy", npy<std::int32_t>("(2,)", {7, 9}, "<i4"));
  const NpyDataset data(folder.path());
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.fields()[0].shape, (Shape{2, 1, 2}));
  std::vector<float> x(4);
  std::int32_t y = 0;
  void* const dst[] = {x.data(), &y};
  data.read(1, dst);
  EXPECT_EQ(x, (std::vector<float>{5, 6, 7, 8}));
  EXPECT_EQ(y, 9);
}

TEST(NpyDataset, RefusesOtherFilesAndNamesThem) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& images, const std::string& classes) {
    write_file(folder / "images.npy", images);
    write_file(folder / "classes.npy", classes);
    return message_of<InputError>([&] {
      const NpyDataset data(folder.path());
      float x[2];
      std::int32_t y = 0;
      void* const dst[] = {x, &y};
      data.read(0, dst);
    });
  };
  const std::string good = npy<float>("(1, 1, 2, 1)", {1, 2}, "<f4"), one = npy<std::int32_t>("(1,)", {1}, "<i4");
  EXPECT_NE(refusal("no array at all", one).find("images.npy: is no array"), std::string::npos);
  EXPECT_NE(refusal(npy<double>("(1, 1, 2, 1)", {1, 2}, "<f8"), one).find("expected elements '<f4'"),
            std::string::npos);
  EXPECT_NE(refusal(npy<float>("(1, 2, 1)", {1, 2}, "<f4"), one).find("expected (N, H, W, C)"), std::string::npos);
  EXPECT_NE(refusal(npy<float>("(1, 1, 2, 1)", {1}, "<f4"), one).find("bytes; expected"), std::string::npos);
  EXPECT_NE(refusal(npy<float>("(1, 1, 2, 1)", {1, NAN}, "<f4"), one).find("element 1 of image 0 is nan"),
            std::string::npos);
  EXPECT_NE(refusal(good, npy<std::int32_t>("(2,)", {1, 2}, "<i4")).find("a class for each image"), std::string::npos);
}

ExitCode run(const std::vector<std::string>& arguments) {
  app::CommandLine line({"keelson-digits", "Digits."});
  digits::define_train(line);
  const auto request = line.parse(arguments);
  const auto world = comm::make_self();
  const comm::Placement placement;
  app::Launch launch{*world, placement, "keelson-digits", arguments, "1 rank"};
  return request.run(launch);
}

TEST(TrainSubcommand, LearnsAndResumesWithTheOptionsOfItsCheckpoint) {
  context("kokkos");  // or the test is skipped
  const TemporaryFolder folder;
  write_images(folder / "train", 96, 1);
  write_images(folder / "validation", 32, 2);
  const std::string out = folder / "run";
  ASSERT_EQ(run({"train", "--train", folder / "train", "--validation", folder / "validation", "--out", out, "--batch",
                 "8", "--epochs", "3", "--optimizer", "adam", "--lr", "0.01", "--filters", "6"}),
            ExitCode::done);
  const CheckpointReader before(out, false, nullptr);
  EXPECT_EQ(before.state().epoch, 3);
  ASSERT_EQ(run({"train", "--out", out, "--resume", "latest", "--epochs", "12"}), ExitCode::done);
  const CheckpointReader after(out, false, nullptr);
  EXPECT_EQ(after.state().epoch, 12);
  EXPECT_EQ(after.state().config.at("filters"), "6");
  EXPECT_GT(after.state().best_metric, 0.9) << "of 4 classes";
}

}  // namespace
}  // namespace keelson::testing
