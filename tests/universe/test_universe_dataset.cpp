#include "apps/cosmoflow/data/universe_dataset.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <thread>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "engine/base/error.hpp"
#include "engine/data/coded_voxels.hpp"
#include "tests/support/data_files.hpp"
#include "tests/universe/samples.hpp"

namespace keelson::cosmoflow {
namespace {

using hdf5::Dims;
using hdf5::File;
using testing::counts;
using testing::TemporaryFolder;

std::vector<float> floats(const auto& v) { return {v.begin(), v.end()}; }

TEST(UniverseDataset, OneSamplePerFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b/deep");
  std::filesystem::create_directories(folder / ".hidden");
  const std::vector<std::string> names{"a.hdf5", "b/c.h5", "b/deep/d.H5"};
  for (std::size_t i = 0; i < names.size(); ++i)
    write_sample(folder / names[i], {8, 8, 8, 4}, counts<std::int16_t>(2048, i), {float(i), -0.5f});
  write_sample(folder / ".hidden/z.h5", {2, 2, 2, 1}, counts<std::int16_t>(8, 0), {0});
  const UniverseDataset data(folder.path(), {});
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.fields()[0].shape, (Shape{4, 8, 8, 8}));
  EXPECT_EQ(data.fields()[1].shape, (Shape{2}));
  EXPECT_EQ(data.describe(), "3 samples of 4x8x8x8 with 2 targets in 3 files under " + folder.path());
  EXPECT_EQ(data.parameters()[1].name, "y1");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Sample s = read(data, static_cast<std::int64_t>(i));
    const auto x = counts<std::int16_t>(2048, i);
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_EQ(s.x[k], static_cast<float>(std::log(double(x[k]) + 1)));
    EXPECT_EQ(s.y, (std::vector<float>{float(i), -0.5f}));
    EXPECT_EQ(data.file_of(static_cast<std::int64_t>(i)), folder / names[i]);
  }
  EXPECT_EQ(UniverseDataset(folder / "a.hdf5", {}).size(), 1);
  EXPECT_EQ(UniverseDataset(folder / "b/*.h5", {}).size(), 1);
  EXPECT_EQ(UniverseDataset(folder / "b", {}).size(), 2);
}

TEST(UniverseDataset, ManySamplesPerFile) {
  const TemporaryFolder folder;
  std::vector<std::vector<std::int16_t>> x;
  for (const std::int64_t n : {3, 1, 2}) {
    x.push_back(counts<std::int16_t>(n * 125 * 2, 7 + x.size()));
    std::vector<float> y;
    for (int i = 0; i < n * 3; ++i) y.push_back(float(100 * x.size() + i));
    auto file = File::create(folder / (std::to_string(x.size()) + ".h5"));
    file.write("x", x.back().data(), {n, 5, 5, 5, 2});
    file.write("y", y.data(), {n, 3});
    file.close();
  }
  const UniverseDataset data(folder.path(), as_stored());
  ASSERT_EQ(data.size(), 6);
  const int file_of[] = {0, 0, 0, 1, 2, 2}, sample_of[] = {0, 1, 2, 0, 0, 1};
  for (int i = 0; i < 6; ++i) {
    const auto* begin = x[file_of[i]].data() + sample_of[i] * 250;
    const float first = float(100 * (file_of[i] + 1) + sample_of[i] * 3);
    EXPECT_EQ(read(data, i), (Sample{{begin, begin + 250}, {first, first + 1, first + 2}})) << i;
  }
}

TEST(UniverseDataset, EveryTypeAndStorageReadsTheSame) {
  const TemporaryFolder folder;
  const auto reference = counts<std::int16_t>(512 * 3, 4);
  const Dims shape{8, 8, 8, 3};
  const std::vector<float> y{1, 2};
  const auto check = [&](const char* name, const std::vector<float>& expected) {
    for (const int size : {8, 4}) {
      UniverseOptions options = as_stored();
      options.size = size;
      const UniverseDataset data(folder / name, options);
      const Sample s = read(data, data.size() - 1);
      const int low = 8 - size;
      for (int d = 0; d < size; ++d)
        for (int h = 0; h < size; ++h)
          for (int w = 0; w < size; ++w)
            for (int c = 0; c < 3; ++c)
              ASSERT_EQ(s.x[((d * size + h) * size + w) * 3 + c],
                        expected[(((d + low) * 8 + h + low) * 8 + w + low) * 3 + c])
                  << name << " in cubes of " << size;
      EXPECT_EQ(s.y, y);
    }
  };
  write_sample(folder / "i16.h5", shape, reference, y);
  check("i16.h5", floats(reference));
  const auto typed = [&]<class T>(const char* name, T) {
    write_sample(folder / name, shape, counts<T>(512 * 3, 4), y);
    check(name, floats(counts<T>(512 * 3, 4)));
  };
  typed("u16.h5", std::uint16_t{});
  typed("f32.h5", 0.0f);
  typed("f64.h5", 0.0);
  typed("i32.h5", 0);
  typed("u8.h5", std::uint8_t{});
  for (const auto storage :
       {testing::Storage::big_endian, testing::Storage::compressed, testing::Storage::little_endian_compact}) {
    const std::string name = "foreign" + std::to_string(static_cast<int>(storage)) + ".h5";
    auto file = File::create(folder / name);
    file.write("y", y.data(), {2});
    file.close();
    testing::write_foreign_int16(folder / name, "x", storage, shape, reference);
    check(name.c_str(), floats(reference));
  }
}

TEST(UniverseDataset, NegativeAndLargeCountsWithoutLogarithm) {
  const TemporaryFolder folder;
  write_sample<std::int16_t>(folder / "i.h5", {2, 2, 2}, {-32768, -1, 0, 1, 2, 3, 4, 32767}, {0});
  EXPECT_EQ(read(UniverseDataset(folder / "i.h5", as_stored()), 0).x,
            (std::vector<float>{-32768, -1, 0, 1, 2, 3, 4, 32767}));
  write_sample<std::uint16_t>(folder / "u.h5", {2, 2, 2}, {0, 1, 2, 3, 4, 5, 32768, 65535}, {0});
  const auto x = read(UniverseDataset(folder / "u.h5", {}), 0).x;
  EXPECT_EQ(x[6], static_cast<float>(std::log(32769.0)));
  EXPECT_EQ(x[7], static_cast<float>(std::log(65536.0)));
}

TEST(UniverseDataset, CutsVolumesIntoCubes) {
  const TemporaryFolder folder;
  const int edge = 24, channels = 2;
  for (int u = 0; u < 2; ++u) {
    const auto full = counts<std::int16_t>(edge * edge * edge * channels, 60 + u);
    auto file = File::create(folder / (std::to_string(u) + ".hdf5"));
    file.write("full", full.data(), {edge, edge, edge, channels});
    const float y[4] = {0, 1, float(u), 3};
    file.write("unitPar", y, {4});
    file.close();
  }
  EXPECT_EQ(UniverseDataset(folder.path(), {}).size(), 2);
  for (const int size : {8, 12, 24, 1}) {
    auto options = as_stored();
    options.size = size;
    const UniverseDataset data(folder.path(), options);
    const int n = edge / size, cubes = n * n * n;
    ASSERT_EQ(data.size(), 2 * cubes);
    for (const int index : {0, 1, cubes - 1, cubes, cubes + cubes / 2 - 1, 2 * cubes - 1}) {
      if (index < 0 || index >= 2 * cubes) continue;
      const int u = index / cubes, cube = index % cubes;
      const int origin[3] = {cube / (n * n) * size, cube / n % n * size, cube % n * size};
      const auto full = counts<std::int16_t>(edge * edge * edge * channels, 60 + u);
      const Sample s = read(data, index);
      EXPECT_EQ(s.y, (std::vector<float>{0, 1, float(u), 3}));
      for (int d = 0; d < size; ++d)
        for (int h = 0; h < size; ++h)
          for (int w = 0; w < size; ++w)
            for (int c = 0; c < channels; ++c)
              ASSERT_EQ(s.x[((d * size + h) * size + w) * channels + c],
                        full[(((d + origin[0]) * edge + h + origin[1]) * edge + w + origin[2]) * channels + c]);
    }
  }
}

TEST(UniverseDataset, FullVolumesAreCutTo128ByDefault) {
  const TemporaryFolder folder;
  auto file = File::create(folder / "u.h5");
  file.make_dataset<std::int16_t>("full", {256, 256, 256, 1});
  const float y[1] = {0.5f};
  file.write("unitPar", y, {1});
  const std::vector<std::int16_t> row(256, 9);
  file.write_box("full", {130, 7, 0, 0}, {1, 1, 256, 1}, row.data());
  file.close();
  const UniverseDataset data(folder.path(), as_stored());
  EXPECT_EQ(data.size(), 8);
  EXPECT_EQ(data.fields()[0].shape, (Shape{1, 128, 128, 128}));
  const auto x = read(data, 5).x;  // (1, 0, 1)
  double sum = 0;
  for (float v : x) sum += v;
  EXPECT_EQ(sum, 128 * 9);
  EXPECT_EQ(x[(2 * 128 + 7) * 128], 9);
}

TEST(UniverseDataset, ChosenChannelsAndTargets) {
  const TemporaryFolder folder;
  const auto x = counts<std::int16_t>(27 * 4, 1);
  write_sample(folder / "a.h5", {3, 3, 3, 4}, x, {10, 20, 30});
  auto options = as_stored();
  options.channels = {2, 0};
  options.targets = {2, 0};
  options.target_mean = {1, 2};
  options.target_std = {2, 4};
  const Sample s = read(UniverseDataset(folder.path(), options), 0);
  ASSERT_EQ(s.x.size(), 54u);
  for (int i = 0; i < 27; ++i) {
    EXPECT_EQ(s.x[i * 2], x[i * 4 + 2]);
    EXPECT_EQ(s.x[i * 2 + 1], x[i * 4]);
  }
  EXPECT_EQ(s.y, (std::vector<float>{14.5f, 2.0f}));

  const auto refused = [&](std::function<void(UniverseOptions&)> change) {
    UniverseOptions wrong = options;
    change(wrong);
    return testing::message_of<InputError>([&] { UniverseDataset(folder.path(), wrong); });
  };
  EXPECT_NE(refused([](auto& o) { o.channels = {4}; }).find("0 ... 3"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.targets = {-1}; }).find("0 ... 2"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.target_mean = {1}; }).find("Expected 2"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.target_std = {1, 0}; }).find("positive"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.physical_targets = true; }).find("parameter_minimum"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.size = 2; }).find("Try a size of 3"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.size = -3; }).find("Try a size of 3"), std::string::npos);
}

TEST(UniverseDataset, DividesByTheMean) {
  const TemporaryFolder folder;
  const auto x = counts<std::int16_t>(1000 * 2, 5);
  write_sample(folder / "a.h5", {10, 10, 10, 2}, x, {0});
  UniverseOptions options;
  options.normalisation = Normalisation::mean;
  options.channels = {1};
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += x[2 * i + 1];
  const UniverseDataset data(folder.path(), options);
  const auto found = read(data, 0).x;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(found[i], float(x[2 * i + 1]) / float(sum / 1000));
  std::vector<float> turned(1000);
  turn_cube(37, found.data(), turned.data(), 10, 1);
  EXPECT_EQ(read(data, 0, 37).x, turned);

  write_sample(folder / "b.h5", {10, 10, 10, 2}, std::vector<std::int16_t>(2000, 0), {0});
  const auto text = testing::message_of<InputError>([&] { read(UniverseDataset(folder / "b.h5", options), 0); });
  EXPECT_NE(text.find("has the mean 0"), std::string::npos) << text;
}

TEST(UniverseDataset, BringsTargetsBackToPhysicalUnits) {
  const TemporaryFolder folder;
  for (const char* name : {"a.h5", "b.h5"}) {
    write_sample(folder / name, {2, 2, 2}, counts<float>(8, 0), {-1, 0.5f});
    auto file = File::create(folder / name);
    file.set_attribute("/", "parameter_names", std::vector<std::string>{"Omega_m", "sigma_8"});
    file.set_attribute("/", "parameter_minimum", std::vector<double>{0.1, 0.6});
    file.set_attribute("/", "parameter_maximum", std::vector<double>{0.5, name[0] == 'a' ? 1.0 : 2.0});
    const float y[2] = {-1, 0.5f};
    file.write("x", counts<float>(8, 0).data(), {2, 2, 2});
    file.write("y", y, {2});
    file.close();
  }
  UniverseOptions options;
  options.physical_targets = true;
  const UniverseDataset data(folder / "a.h5", options);
  EXPECT_EQ(read(data, 0).y, (std::vector<float>{0.1f, 0.9f}));
  EXPECT_EQ(data.parameters()[0], (UniverseParameter{"Omega_m", true, 0.1, 0.5}));
  const auto text = testing::message_of<InputError>([&] { UniverseDataset(folder.path(), options); });
  EXPECT_NE(text.find("Expected one scaling of the targets"), std::string::npos) << text;
}

TEST(UniverseDataset, TurnsWhileDecoding) {
  const TemporaryFolder folder;
  for (const std::int64_t size : {5, 8, 20}) {
    const std::string path = folder / (std::to_string(size) + ".h5");
    write_sample(path, {size, size, size, 3}, counts<std::int16_t>(size * size * size * 3, 2), {1});
    for (const auto& channels : {std::vector<int>{}, std::vector<int>{1}, std::vector<int>{2, 0}}) {
      UniverseOptions options;
      options.channels = channels;
      const UniverseDataset data(path, options);
      const auto c = data.fields()[0].shape[0];
      const Sample plain = read(data, 0);
      std::vector<float> expected(plain.x.size()), by_default(plain.x.size());
      for (int symmetry = 0; symmetry < cube_symmetries; ++symmetry) {
        turn_cube(symmetry, plain.x.data(), expected.data(), size, c);
        ASSERT_EQ(read(data, 0, symmetry).x, expected) << symmetry;
      }
      const RandomCubeSymmetry transform;
      for (int epoch = 0; epoch < 20; ++epoch) {
        const SampleId id{5, epoch, 0};
        float y = 0;
        void *const dst[] = {expected.data(), &y}, *const other[] = {by_default.data(), &y};
        data.read_sample({.id = id, .transform = &transform}, dst);
        data.Dataset::read_sample({.id = id, .transform = &transform}, other);
        ASSERT_EQ(by_default, expected);
        ASSERT_EQ(read(data, 0, transform.draw(id)).x, expected);
        ASSERT_EQ(y, 1);
      }
    }
  }
}

/// A sample by its codes, decoded here by the formula of ops::DecodeVoxels.
Sample read_by_codes(const UniverseDataset& data, const SampleId& id, const SampleTransform* transform) {
  const auto& encoding = dynamic_cast<const CodedVoxels&>(*data.encoding(transform));
  const CodedVoxels::Codes& coded = encoding.codes();
  const Shape& shape = data.fields()[encoding.field()].shape;
  const std::int64_t edge = shape[1], voxels = edge * edge * edge;
  std::vector<std::uint16_t> codes(static_cast<std::size_t>(voxels * coded.stored_channels), 7);
  Sample s;
  s.y.assign(static_cast<std::size_t>(data.fields()[1].shape.elements()), -99.0f);
  void* const dst[] = {codes.data(), s.y.data()};
  ops::VoxelSample v;
  data.read_sample({.id = id, .transform = transform, .encoding = &v}, dst);
  EXPECT_EQ(v.present, 1);
  for (std::int64_t d = 0; d < edge; ++d)
    for (std::int64_t h = 0; h < edge; ++h)
      for (std::int64_t w = 0; w < edge; ++w)
        for (const auto c : coded.channels) {
          const auto voxel = v.origin + d * v.step[0] + h * v.step[1] + w * v.step[2];
          s.x.push_back(coded.table[codes[static_cast<std::size_t>(voxel * coded.stored_channels + c)]] / v.divisor);
        }
  return s;
}

TEST(UniverseDataset, CodesBecomeTheSameValues) {
  const TemporaryFolder folder;
  const Dims shape{10, 10, 10, 3};
  const auto x = counts<std::int16_t>(3000, 2);
  write_sample(folder / "int16.h5", shape, x, {1, 2});
  write_sample(folder / "uint16.h5", shape, counts<std::uint16_t>(3000, 3), {1, 2});
  for (const auto& [name, storage] :
       {std::pair{"compressed.h5", testing::Storage::compressed}, {"big_endian.h5", testing::Storage::big_endian}}) {
    auto file = File::create(folder / name);
    file.write("y", std::vector<float>{1, 2}.data(), {2});
    file.close();
    testing::write_foreign_int16(folder / name, "x", storage, shape, x);
  }
  const RandomCubeSymmetry turn;
  for (const std::string name : {"int16.h5", "uint16.h5", "compressed.h5", "big_endian.h5"})
    for (const std::int64_t size : {10, 5})
      for (const auto& channels : {std::vector<int>{}, std::vector<int>{2, 0}})
        for (const auto normalisation : {Normalisation::none, Normalisation::log1p, Normalisation::mean}) {
          UniverseOptions o;
          o.size = size;
          o.channels = channels;
          o.normalisation = normalisation;
          const UniverseDataset data(folder / name, o);
          for (std::int64_t index = 0; index < data.size(); index += 3) {
            EXPECT_EQ(read_by_codes(data, {5, 0, index}, nullptr), read(data, index)) << name << " " << index;
            const SampleId id{5, 3, index};
            EXPECT_EQ(read_by_codes(data, id, &turn), read(data, index, turn.draw(id))) << name;
          }
        }
}

TEST(UniverseDataset, LeavesNoCodesToTheDeviceThatTheHostAloneCanDecode) {
  const TemporaryFolder folder;
  write_sample(folder / "f.h5", {8, 8, 8, 1}, std::vector<float>(512, 1.0f), {1});
  EXPECT_EQ(UniverseDataset(folder / "f.h5", {}).encoding(nullptr), nullptr);
  write_sample(folder / "i.h5", {8, 8, 8, 1}, counts<std::int16_t>(512, 2), {1});
  const UniverseDataset data(folder / "i.h5", {});
  struct Other final : SampleTransform {
    void check(const Dataset&) const override {}
    void apply(const SampleId&, const std::vector<Field>&, void* const*) const override {}
    std::string describe() const override { return "other"; }
  };
  EXPECT_NE(data.encoding(nullptr), nullptr);
  EXPECT_EQ(data.encoding(std::make_unique<Other>().get()), nullptr);
}

TEST(UniverseDataset, RefusesTheSameValuesAsCodes) {
  const TemporaryFolder folder;
  auto x = counts<std::int16_t>(3 * 512, 2);
  x[3 * 100 + 1] = -1;
  write_sample(folder / "minus.h5", {8, 8, 8, 3}, x, {1});
  write_sample(folder / "empty.h5", {8, 8, 8, 3}, std::vector<std::int16_t>(3 * 512, 0), {1});
  const auto both = [&](const std::string& name, Normalisation normalisation, const std::vector<int>& channels) {
    UniverseOptions o;
    o.channels = channels;
    o.normalisation = normalisation;
    const UniverseDataset data(folder / name, o);
    const auto why = testing::message_of<InputError>([&] { read(data, 0); });
    EXPECT_EQ(testing::message_of<InputError>([&] { read_by_codes(data, {1, 0, 0}, nullptr); }), why);
    return why;
  };
  EXPECT_NE(both("minus.h5", Normalisation::log1p, {}).find("has no log(x + 1)"), std::string::npos);
  EXPECT_NE(both("empty.h5", Normalisation::mean, {1}).find("has the mean 0"), std::string::npos);
  UniverseOptions other_channels;
  other_channels.channels = {0, 2};
  const UniverseDataset data(folder / "minus.h5", other_channels);
  EXPECT_EQ(read_by_codes(data, {1, 0, 0}, nullptr), read(data, 0));
}

/// Bytes on the heap that are in use; 0 where the C library does not count them.
std::int64_t heap_in_use() {
#ifdef __GLIBC__
  return static_cast<std::int64_t>(mallinfo2().uordblks);
#else
  return 0;
#endif
}

TEST(UniverseDataset, ARanksMemoryDoesNotGrowWithTheFiles) {
  const TemporaryFolder folder;
  const auto name = [&](int i) { return folder / fmt::format("{:05}.h5", i); };
  struct Use {
    std::int64_t rank, shared, heap;
  };
  int written = 0;
  const auto use_with = [&](int files) {
    for (; written < files; ++written)
      write_sample(name(written), {4, 4, 4}, counts<std::int16_t>(64, 0), {float(written), 1, 2, 3});
    const auto before = heap_in_use();
    const UniverseDataset data(folder.path(), {});
    for (int i = 0; i < files; i += 7) read(data, i);
    return Use{data.memory().rank, data.memory().shared, heap_in_use() - before};
  };
  use_with(100);  // what the libraries keep from their first use on
  const auto few = use_with(100), many = use_with(2000);
  EXPECT_LE(many.rank - few.rank, 512) << "bytes of 1900 files more";
  EXPECT_LE(many.heap - few.heap, 16 * 1900);
  EXPECT_EQ(many.shared - few.shared, 1900 * (32 + 8 + 8 + 16)) << "facts, end of name, name and 4 targets";
}

TEST(UniverseDataset, KeepsFewFilesOpen) {
  const TemporaryFolder folder;
  for (int i = 0; i < 60; ++i)
    write_sample(folder / fmt::format("{}.h5", 10 + i), {4, 4, 4}, counts<std::int16_t>(64, 0), {float(i)});
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  const UniverseDataset data(folder.path(), {});
  EXPECT_EQ(descriptors(), before) << "opening leaves no file open";
  for (int i = 0; i < 60; ++i) read(data, i);
  EXPECT_EQ(descriptors() - before, 16);
  const auto opened = data.files_opened();
  for (int i = 44; i < 60; ++i) read(data, i);
  EXPECT_EQ(data.files_opened(), opened) << "the latest are still open";
}

TEST(UniverseDataset, ManyThreadsReadTheSame) {
  const TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) {
    const std::string path = folder / (std::to_string(10 + i) + ".h5");
    if (i % 4 == 0) {
      auto file = File::create(path);
      const float y = float(i);
      file.write("y", &y, {1});
      file.close();
      testing::write_foreign_int16(path, "x", testing::Storage::compressed, {8, 8, 8, 2},
                                   counts<std::int16_t>(1024, i));
    } else {
      write_sample(path, {8, 8, 8, 2}, counts<std::int16_t>(1024, i), {float(i)});
    }
  }
  const UniverseDataset data(folder.path(), as_stored());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 200; ++k) {
        const int i = (k * 7 + t) % 40;
        if (read(data, i) != Sample{floats(counts<std::int16_t>(1024, i)), {float(i)}}) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace keelson::cosmoflow
