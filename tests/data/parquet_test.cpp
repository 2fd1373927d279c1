#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/tables/table_dataset.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/parquet_files.hpp"

namespace keelson::testing {
namespace {

std::string refusal(const std::string& path, const TableOptions& options = {}) {
  return message_of<InputError>([&] { TableDataset(path, options); });
}

::testing::AssertionResult has(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << message;
}

#if KEELSON_HAVE_PARQUET

/// The features of a row, then the targets or the class.
std::vector<float> row_of(const TableDataset& data, std::int64_t i) {
  std::vector<float> x(data.features().size()), y(data.targets().size());
  std::int32_t number = 0;
  void* const dst[] = {x.data(), data.classes().empty() ? static_cast<void*>(y.data()) : &number};
  data.read(i, dst);
  if (!data.classes().empty()) y[0] = static_cast<float>(number);
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

std::string write_parquet(const std::string& path, const std::vector<ColumnText>& columns,
                          const ParquetForm& form = {}) {
  return write_file(path, parquet_of(columns, form));
}

using Row = std::vector<float>;

TEST(Parquet, ReadsNumbersOfAllTypes) {
  const TemporaryFolder folder;
  std::vector<ColumnText> columns;
  for (const char* type : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
    columns.push_back({type, type, {"7", "0", "100"}});
  columns.push_back({"bool", "bool", {"true", "false", "true"}});
  columns.push_back({"halffloat", "halffloat", {"0.5", "-2", "1024"}});
  columns.push_back({"float", "float", {"0.1", "-1e30", "3"}});
  columns.push_back({"double", "double", {"0.1", "16777217", "-3e-40"}});
  columns.push_back({"decimal", "decimal", {"0.125", "-12345678901234567.001", "1.100"}});
  columns.push_back({"target", "int64", {"9007199254740993", "-4", "5"}});
  const std::vector<Row> expected{{7, 7, 7, 7, 7, 7, 7, 7, 1, 0.5f, 0.1f, 0.1f, 0.125f, 9007199254740993.0f},
                                  {0, 0, 0, 0, 0, 0, 0, 0, 0, -2, -1e30f, 16777216, -12345678901234567.001f, -4},
                                  {100, 100, 100, 100, 100, 100, 100, 100, 1, 1024, 3, -3e-40f, 1.1f, 5}};
  for (const ParquetForm& form : {ParquetForm{}, ParquetForm{2, true, false}}) {
    const TableDataset data(write_parquet(folder / "a.parquet", columns, form), {});
    ASSERT_EQ(data.size(), 3);
    EXPECT_EQ(data.targets(), (std::vector<std::string>{"target"}));
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(row_of(data, i), expected[static_cast<std::size_t>(i)]) << i;
  }
}

TEST(Parquet, ReadsClassesOfAllTypes) {
  const TemporaryFolder folder;
  const std::vector<std::pair<ColumnText, std::vector<std::string>>> kinds{
      {{"k", "string", {"dog", "cat", "dog", " bird "}}, {"bird", "cat", "dog"}},
      {{"k", "large_string", {"dog", "cat", "dog", "bird"}}, {"bird", "cat", "dog"}},
      {{"k", "binary", {"dog", "cat", "dog", "bird"}}, {"bird", "cat", "dog"}},
      {{"k", "dictionary", {"dog", "cat", "dog", "bird"}}, {"bird", "cat", "dog"}},
      {{"k", "int32", {"10", "9", "10", "-1"}}, {"-1", "9", "10"}},
      {{"k", "bool", {"true", "false", "true", "false"}}, {"false", "true"}}};
  for (const auto& [column, names] : kinds)
    for (const bool has_schema : {true, false}) {
      const std::string path = write_parquet(folder / "a.parquet", {{"x", "float", {"1", "2", "3", "4"}}, column},
                                             {.rows_per_group = 3, .has_schema = has_schema});
      const TableDataset data(path, {.classes = true});
      EXPECT_EQ(data.classes(), names) << column.type;
      EXPECT_EQ(row_of(data, 0)[1], row_of(data, 2)[1]);
      EXPECT_EQ(row_of(data, 0)[1], static_cast<float>(names.size() - 1)) << column.type;
      EXPECT_EQ(row_of(data, 3)[1], 0) << column.type;
    }
}

/// As a table in CSV: missing values, columns by name, mean and deviation, another table like it.
TEST(Parquet, IsReadAsText) {
  const TemporaryFolder folder;
  write_file(folder / "a.csv", "u,v,k\n1,2,b\n3,,a\n5,9,c\ninf,-1,c\n");
  const std::vector<ColumnText> columns{{"u", "double", {"1", "3", "5", "inf"}},
                                        {"v", "int64", {"2", {}, "9", "-1"}},
                                        {"k", "string", {"b", "a", "c", "c"}},
                                        {"__index_level_0__", "int64", {"4", "6", "8", "9"}}};
  write_parquet(folder / "b", columns, {.rows_per_group = 2});  // the first bytes tell the form
  for (const TableOptions& options :
       {TableOptions{.classes = true, .missing = -7.0f},
        TableOptions{.targets = {"k"}, .features = {"v"}, .classes = true, .standardise = true, .missing = 0.0f},
        TableOptions{.targets = {"1"}, .features = {"0"}, .missing = 0.0f}}) {
    if (!options.classes) {  // a target must not be missing
      EXPECT_TRUE(has(refusal(folder / "b", options), "column 'v' has a null in row group 0, row 1"));
      continue;
    }
    const TableDataset text(folder / "a.csv", options), parquet(folder / "b", options);
    EXPECT_EQ(parquet.features(), text.features());
    EXPECT_EQ(parquet.classes(), text.classes());
    EXPECT_EQ(parquet.means(), text.means());
    EXPECT_EQ(parquet.digest(), text.digest());
    for (std::int64_t i = 0; i < text.size(); ++i) EXPECT_EQ(row_of(parquet, i), row_of(text, i));
    const TableDataset like(folder / "b", text);
    EXPECT_EQ(row_of(like, 2), row_of(text, 2));
  }
}

TEST(Parquet, ReadsAFolderOfFiles) {
  const TemporaryFolder folder;
  write_parquet(folder / "a.parquet", {{"x", "int32", {"1", "3"}}, {"y", "int32", {"2", "4"}}});
  write_parquet(folder / "b.parquet", {{"x", "int32", {}}, {"y", "int32", {}}});
  write_parquet(folder / "c.parquet", {{"y", "double", {"6"}}, {"z", "string", {"-"}}, {"x", "bool", {"true"}}});
  const TableDataset data(folder.path(), {});
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(row_of(data, 1), (Row{3, 4}));
  EXPECT_EQ(row_of(data, 2), (Row{1, 6}));
  EXPECT_EQ(data.describe(), "3 rows of 1 feature with 1 target in 3 files under " + folder.path());
  write_parquet(folder / "c.parquet", {{"y", "int32", {"2"}}});
  EXPECT_TRUE(has(refusal(folder.path()), "c.parquet: has no column 'x', which"));
  write_file(folder / "d.csv", "x,y\n1,2\n");
  EXPECT_TRUE(has(refusal(folder.path()), "CSV"));
}

TEST(Parquet, RefusesByRowGroupAndColumn) {
  const TemporaryFolder folder;
  const auto refused = [&](const ColumnText& column, const TableOptions& options = {}) {
    ColumnText x{"x", "float", {}};
    x.values.assign(column.values.size(), "1");
    return refusal(write_parquet(folder / "a.parquet", {x, column}, {.rows_per_group = 2}), options);
  };
  EXPECT_TRUE(has(refused({"y", "float", {"1", "2", "3", {}}}), "column 'y' has a null in row group 1, row 1"));
  EXPECT_TRUE(has(refused({"y", "float", {"1", "2", "nan"}}), "column 'y' has nan in row group 1, row 0"));
  EXPECT_TRUE(has(refused({"y", "double", {"1e39"}}), "has inf in row group 0, row 0"));
  EXPECT_TRUE(has(refused({"y", "null", {{}}}), "has a null in row group 0, row 0"));
  EXPECT_TRUE(has(refused({"y", "string", {"1"}}), "column 'y' holds string. Expected numbers"));
  EXPECT_TRUE(has(refused({"y", "dictionary", {"1"}}), "column 'y' holds dictionary<"));
  EXPECT_TRUE(has(refused({"y", "timestamp", {"2020-01-01 00:00:00"}}), "holds timestamp"));
  EXPECT_TRUE(has(refused({"y", "list", {{}}}), "holds list<"));
  EXPECT_TRUE(has(refused({"y", "list", {{}}}, {.classes = true}), "Expected the names of classes"));
  EXPECT_TRUE(has(refused({"y", "string", {"a", {}}}, {.classes = true}), "a null in row group 0, row 1"));
  EXPECT_TRUE(has(refused({"y", "string", {"a", "b", " "}}, {.classes = true}), "an empty text in row group 1, row 0"));
  EXPECT_TRUE(has(refused({"y", "binary", {std::string("a\0b", 3)}}, {.classes = true}), "holds a NUL byte"));
  EXPECT_TRUE(
      has(refused({"y", "int8", {"1"}}, {.targets = {"z"}}), "has no column 'z'. Expected one of 2 columns: x, y"));
  EXPECT_TRUE(has(refused({"x", "int8", {"1"}}), "two columns have the name 'x'"));
  EXPECT_TRUE(has(refused({"y", "int8", {}}), "has no rows"));

  const std::string bytes = parquet_of({{"x", "int32", {"1", "2"}}, {"y", "int32", {"3", "4"}}});
  EXPECT_TRUE(has(refusal(write_file(folder / "a.parquet", "x,y\n1,2\n")), "is not Parquet"));
  EXPECT_TRUE(has(refusal(write_file(folder / "a.parquet", "")), "is not Parquet"));
  EXPECT_TRUE(has(refusal(write_file(folder / "a.parquet", "PARE" + bytes.substr(4))), "is encrypted"));
  EXPECT_TRUE(
      has(refusal(write_file(folder / "a.parquet", bytes.substr(0, bytes.size() - 9))), "Is the file damaged?"));
  std::string damaged = bytes;
  damaged.replace(4, 12, 12, '\xff');  // the header of the first page of x
  EXPECT_TRUE(has(refusal(write_file(folder / "a.parquet", damaged)), "a.parquet: row group 0, column 'x': "));
}

#else

TEST(Parquet, IsRefusedWithoutArrow) {
  const TemporaryFolder folder;
  for (const char* name : {"a.parquet", "b"}) {
    write_file(folder / name, "PAR1....PAR1");
    const std::string message = refusal(folder / name);
    EXPECT_TRUE(has(message, "KEELSON_WITH_PARQUET=ON"));
    EXPECT_TRUE(has(message, "Expected CSV"));
  }
}

#endif

}  // namespace
}  // namespace keelson::testing
