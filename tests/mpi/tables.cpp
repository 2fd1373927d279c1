#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/tables/table_dataset.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/parquet_files.hpp"

/// Tables that ranks parse together are those of one rank.
namespace keelson::testing {
namespace {

/// Rows with names of classes, of which some are in quotes, with ends of lines and quotes in them.
std::string random_table(std::int64_t rows, std::uint32_t stream) {
  const philox::Key key{7, stream};
  const std::vector<std::string> names{"cat", "\"a \"\"big\"\" dog\"", "\"two\nlines, and\n\"", "\"\n\"", "x y"};
  std::string text = "u,class,\"v\nw\"\n";
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto r = philox::bits(key, static_cast<std::uint64_t>(i));
    text += std::to_string(static_cast<int>(r % 1999) - 999) + "e-2," + names[r % names.size()] + "," +
            std::to_string(i) + (r % 3 == 0 ? "\r\n" : "\n");
  }
  return text;
}

std::vector<float> values_of(const TableDataset& data) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::vector<float> x(data.features().size());
    std::int32_t y = 0;
    void* const dst[] = {x.data(), &y};
    data.read(i, dst);
    all.insert(all.end(), x.begin(), x.end());
    all.push_back(static_cast<float>(y));
  }
  return all;
}

TEST(Tables, AreThoseOfOneRank) {
  std::optional<TemporaryFolder> folder;
  if (world().rank() == 0) folder.emplace();
  const std::string path = world().allgather(folder ? folder->path() : "")[0];
  const TableOptions options{.targets = {"class"}, .classes = true, .standardise = true};
  for (const std::int64_t rows : {1, 2, 3, 50, 401}) {
    if (folder)
      for (const char* name : {"/a.csv", "/b.csv", "/c.csv"})
        write_file(path + name, random_table(name[1] == 'b' ? 1 : rows, static_cast<std::uint32_t>(rows + name[1])));
    world().barrier();
    for (const std::string& where : {path, path + "/a.csv"}) {
      const TableDataset alone(where, options), together(where, options, &world());
      EXPECT_EQ(alone.size(), where == path ? 2 * rows + 1 : rows);
      EXPECT_EQ(together.classes(), alone.classes());
      EXPECT_EQ(together.means(), alone.means());
      EXPECT_EQ(values_of(together), values_of(alone)) << where << ", " << rows;
      EXPECT_EQ(together.digest(), alone.digest());
      EXPECT_EQ(values_of(TableDataset(where, alone, &world())), values_of(alone));
    }
    world().barrier();
  }
}

TEST(Tables, AreRefusedOnAllRanks) {
  std::optional<TemporaryFolder> folder;
  if (world().rank() == 0) {
    folder.emplace();
    write_file(*folder / "a.csv", "a,b\n1,2\n3,4\n5,6\n7,wrong\n9,10\n");
  }
  const std::string path = world().allgather(folder ? *folder / "a.csv" : "")[0];
  const auto message = message_of<InputError>([&] { TableDataset(path, {}, &world()); });
  EXPECT_NE(message.find("column 'b' has 'wrong' in line 5"), std::string::npos) << message;
  world().barrier();
}

#if KEELSON_HAVE_PARQUET

/// Files of several row groups, of which some ranks have none.
TEST(Tables, OfParquetAreThoseOfOneRank) {
  std::optional<TemporaryFolder> folder;
  if (world().rank() == 0) folder.emplace();
  const std::string path = world().allgather(folder ? folder->path() : "")[0];
  for (const std::int64_t rows : {1, 3, 50}) {
    if (folder)
      for (const char name : {'a', 'b', 'c'}) {
        ColumnText u{"u", "double", {}}, k{"class", "string", {}};
        for (std::int64_t i = 0; i < (name == 'b' ? 0 : rows); ++i) {
          const auto r = philox::bits({7, static_cast<std::uint32_t>(name)}, static_cast<std::uint64_t>(i));
          u.values.push_back(std::to_string(r % 1999) + "e-2");
          k.values.push_back("class " + std::to_string(r % 5));
        }
        write_file(path + "/" + name + ".parquet", parquet_of({u, k}, {.rows_per_group = 7}));
      }
    world().barrier();
    const TableOptions options{.classes = true, .standardise = true};
    const TableDataset alone(path, options), together(path, options, &world());
    EXPECT_EQ(alone.size(), 2 * rows);
    EXPECT_EQ(together.classes(), alone.classes());
    EXPECT_EQ(together.means(), alone.means());
    EXPECT_EQ(values_of(together), values_of(alone)) << rows;
    EXPECT_EQ(together.digest(), alone.digest());
    world().barrier();
  }
}

#endif

}  // namespace
}  // namespace keelson::testing
