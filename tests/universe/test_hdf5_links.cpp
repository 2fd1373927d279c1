#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/data/files/raw_file.hpp"
#include "tests/support/data_files.hpp"

/// Files that point elsewhere: what lies in the data's folder is followed, everything else refused.
namespace keelson::cosmoflow {
namespace {

using namespace testing;
namespace fs = std::filesystem;
constexpr hsize_t cube[] = {4, 4, 4, 1};
constexpr std::int64_t voxels = 64;

/// A universe of 4^3 cells with one channel; without `x` if `add_x` makes it. `shift` bytes before, so that datasets of
/// different files lie at different places.
std::string write_universe(const std::string& path, std::uint64_t seed, const std::function<void(hid_t)>& add_x = {},
                           std::int64_t shift = 0) {
  {
    auto file = hdf5::File::create(path);
    const std::vector<std::int8_t> before(static_cast<std::size_t>(shift), 1);
    if (shift > 0) file.write("before", before.data(), {shift});
    const float y[2] = {0.25f, -0.5f};
    if (!add_x) file.write("x", counts<std::int16_t>(voxels, seed).data(), {4, 4, 4, 1});
    file.write("y", y, {2});
    file.close();
  }
  if (add_x) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    add_x(file);
    H5Fclose(file);
  }
  return path;
}

std::vector<float> read_linked_x(const std::string& path) {
  const UniverseDataset data(path, {.normalisation = Normalisation::none});
  std::vector<float> x(voxels), y(2);
  void* const dst[] = {x.data(), y.data()};
  data.read(0, dst);
  return x;
}

std::vector<float> expected_x(std::uint64_t seed) {
  const auto c = counts<std::int16_t>(voxels, seed);
  return {c.begin(), c.end()};
}

std::string link_refusal(const std::string& path) {
  return message_of<InputError>([&] { read_linked_x(path); });
}

bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  ADD_FAILURE() << "'" << text << "' lacks '" << part << "'";
  return false;
}

std::function<void(hid_t)> external_link(const std::string& file) {
  return [file](hid_t master) { H5Lcreate_external(file.c_str(), "/x", master, "x", H5P_DEFAULT, H5P_DEFAULT); };
}

std::function<void(hid_t)> external_storage(const std::string& file) {
  return [file](hid_t master) {
    const hid_t space = H5Screate_simple(4, cube, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, file.c_str(), 0, voxels * 2);
    H5Dclose(H5Dcreate2(master, "x", H5T_STD_I16LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Pclose(creation), H5Sclose(space);
  };
}

/// `x` as a virtual data set of the first `planes` planes of the source, which also holds them.
std::function<void(hid_t)> virtual_set(const std::string& file, const std::string& object = "x", hsize_t planes = 4,
                                       hsize_t source_planes = 4) {
  return [=](hid_t master) {
    const hsize_t there[] = {source_planes, 4, 4, 1}, start[] = {0, 0, 0, 0}, count[] = {planes, 4, 4, 1};
    const hid_t space = H5Screate_simple(4, cube, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t part = H5Screate_simple(4, cube, nullptr), source = H5Screate_simple(4, there, nullptr);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, start, nullptr, count, nullptr);
    H5Sselect_hyperslab(source, H5S_SELECT_SET, start, nullptr, count, nullptr);
    ASSERT_GE(H5Pset_virtual(creation, part, file.c_str(), object.c_str(), source), 0);
    H5Dclose(H5Dcreate2(master, "x", H5T_STD_I16LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(source), H5Sclose(part), H5Pclose(creation), H5Sclose(space);
  };
}

TEST(Hdf5Links, AnExternalLinkReadsItsTarget) {
  const TemporaryFolder folder;
  // The target's data lie elsewhere in their file than data do in the master: reading there would give garbage.
  write_universe(folder / "target.hdf", 7, {}, 5000);
  const auto master = write_universe(folder / "master.h5", 0, external_link("target.hdf"));
  EXPECT_EQ(read_linked_x(master), expected_x(7));
}

TEST(Hdf5Links, AnExternalLinkOutOfTheFolderIsRefused) {
  const TemporaryFolder folder, other;
  write_universe(other / "target.h5", 7);
  const auto absolute = write_universe(folder / "a.h5", 0, external_link(other / "target.h5"));
  EXPECT_TRUE(says(link_refusal(absolute), "it lies outside the data's folder"));
  const auto up = "../" + fs::path(other.path()).filename().string() + "/target.h5";
  EXPECT_TRUE(says(link_refusal(write_universe(folder / "b.h5", 0, external_link(up))), "outside the data's folder"));
  fs::create_symlink(other / "target.h5", folder / "seems-near.hdf");
  EXPECT_TRUE(says(link_refusal(write_universe(folder / "c.h5", 0, external_link("seems-near.hdf"))), "outside"));
  EXPECT_TRUE(says(link_refusal(write_universe(folder / "d.h5", 0, external_link("missing.h5"))), "No such file"));
}

TEST(Hdf5Links, ALinkWithinADataSetOfFoldersIsFollowed) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a");
  fs::create_directories(folder / "b");
  write_universe(folder / "b/target.h5", 3);
  write_universe(folder / "a/master.h5", 0, external_link("../b/target.h5"));
  const UniverseDataset data(folder.path(), {.normalisation = Normalisation::none});
  EXPECT_EQ(data.size(), 2);
  EXPECT_TRUE(says(link_refusal(folder / "a/master.h5"), "outside the data's folder"));
}

TEST(Hdf5Links, PipesAndDevicesAreRefusedAndNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe.h5").c_str(), 0600), 0);
  EXPECT_TRUE(says(link_refusal(folder / "pipe.h5"), "a pipe or a device"));
  EXPECT_TRUE(says(message_of<InputError>([&] { RawFile(folder / "pipe.h5"); }), "regular file"));
  EXPECT_TRUE(says(link_refusal("/dev/zero"), "a pipe, a device"));
  EXPECT_TRUE(says(link_refusal(write_universe(folder / "a.h5", 0, external_link("pipe.h5"))), "a pipe or a device"));
  // Among good files of the same structure, where HDF5 is not asked.
  fs::create_directories(folder / "many");
  for (int i = 0; i < 3; ++i) write_universe(folder / ("many/" + std::to_string(i) + ".h5"), 1);
  ASSERT_EQ(mkfifo((folder / "many/4.h5").c_str(), 0600), 0);
  EXPECT_TRUE(says(link_refusal(folder / "many"), "4.h5"));
}

TEST(Hdf5Links, ExternalStorageIsRefused) {
  const TemporaryFolder folder;
  EXPECT_TRUE(
      says(link_refusal(write_universe(folder / "a.h5", 0, external_storage("/etc/passwd"))), "external storage"));
  write_file(folder / "raw.bin", std::string(voxels * 2, '\1'));
  const auto near = write_universe(folder / "b.h5", 0, external_storage("raw.bin"));
  EXPECT_TRUE(says(link_refusal(near), "external storage"));
  std::vector<std::int16_t> x(voxels);
  const auto file = hdf5::File::open(near);
  EXPECT_TRUE(says(message_of<InputError>([&] { file.read("x", x.data(), voxels); }), "external storage"));
}

TEST(Hdf5Links, AVirtualDataSetReadsItsSources) {
  const TemporaryFolder folder;
  write_universe(folder / "source.hdf", 9, {}, 3000);
  EXPECT_EQ(read_linked_x(write_universe(folder / "a.h5", 0, virtual_set("source.hdf"))), expected_x(9));
}

TEST(Hdf5Links, AVirtualDataSetWithMissingPartsIsRefused) {
  const TemporaryFolder folder, other;
  const auto written = [&](const std::string& name, const std::function<void(hid_t)>& x) {
    return link_refusal(write_universe(folder / name, 0, x));
  };
  EXPECT_TRUE(says(written("a.h5", virtual_set("missing.h5")), "No such file"));
  write_universe(folder / "source.hdf", 9);
  EXPECT_TRUE(says(written("b.h5", virtual_set("source.hdf", "nothing")), "no dataset 'nothing'"));
  EXPECT_TRUE(says(written("c.h5", virtual_set("source.hdf", "x", 3)), "parts have no source"));
  write_universe(other / "source.h5", 9);
  EXPECT_TRUE(says(written("d.h5", virtual_set(other / "source.h5")), "outside the data's folder"));
  {
    auto short_source = hdf5::File::create(folder / "short.hdf");
    short_source.write("x", counts<std::int16_t>(32, 0).data(), {2, 4, 4, 1});
    short_source.close();
  }
  EXPECT_TRUE(says(written("e.h5", virtual_set("short.hdf")), "which is smaller than the selection"));
}

TEST(Hdf5Links, AVirtualDataSetOfItselfIsRefused) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(link_refusal(write_universe(folder / "a.h5", 0, virtual_set("."))), "or to itself"));
  write_universe(folder / "b.h5", 0, virtual_set("c.h5"));
  write_universe(folder / "c.h5", 0, virtual_set("b.h5"));
  EXPECT_TRUE(says(link_refusal(folder / "b.h5"), "or to itself"));
}

TEST(Hdf5Links, DataThatWereNeverWrittenAreRefused) {
  const TemporaryFolder folder;
  const auto make = [](hid_t file, bool chunked) {
    const hid_t space = H5Screate_simple(4, cube, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[] = {2, 4, 4, 1};
    if (chunked) H5Pset_chunk(creation, 4, chunk);
    const hid_t set = H5Dcreate2(file, "x", H5T_STD_I16LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation), H5Sclose(space);
    return set;
  };
  const auto contiguous = write_universe(folder / "a.h5", 0, [&](hid_t file) { H5Dclose(make(file, false)); });
  EXPECT_TRUE(says(link_refusal(contiguous), "all of its elements were never written"));
  const auto half = write_universe(folder / "b.h5", 0, [&](hid_t file) {
    const hid_t set = make(file, true), space = H5Dget_space(set), part = H5Screate_simple(4, cube, nullptr);
    const hsize_t start[] = {0, 0, 0, 0}, count[] = {2, 4, 4, 1};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
    H5Sselect_hyperslab(part, H5S_SELECT_SET, start, nullptr, count, nullptr);
    H5Dwrite(set, H5T_NATIVE_INT16, part, space, H5P_DEFAULT, counts<std::int16_t>(voxels, 1).data());
    H5Sclose(part), H5Sclose(space), H5Dclose(set);
  });
  EXPECT_TRUE(says(link_refusal(half), "some of its elements were never written"));
}

}  // namespace
}  // namespace keelson::cosmoflow
