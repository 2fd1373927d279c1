#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/tables/table_dataset.hpp"
#include "engine/data/tables/table_text.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/tfrecords.hpp"

namespace keelson::testing {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_in(const RawFile& file, const TextRange& range, char delimiter = ',') {
  Rows rows;
  for_each_row(file, range, [&](std::string_view row, std::int64_t) { rows.push_back(fields_of_row(row, delimiter)); });
  return rows;
}

const std::string quoted_table = "name,\"a \"\"word\"\"\",3\r\n\n\"two\nlines\",,-1\n\"x,y\",\"\n\n\",\n,\nlast,\"\",7";
const Rows quoted_rows{
    {"name", "a \"word\"", "3"}, {"two\nlines", "", "-1"}, {"x,y", "\n\n", ""}, {"", ""}, {"last", "", "7"}};

TEST(TableText, FollowsRfc4180) {
  const TemporaryFolder folder;
  const RawFile file(write_file(folder / "a.csv", quoted_table));
  EXPECT_EQ(rows_in(file, {0, file.size()}), quoted_rows);
  const RawFile marked(write_file(folder / "b.csv", "\xEF\xBB\xBFid;v\n1;2\n"));
  EXPECT_EQ(rows_in(marked, {0, marked.size()}, ';'), (Rows{{"id", "v"}, {"1", "2"}}));
  EXPECT_EQ(line_of(file, file.size() - 1), 9);
}

/// Any cut gives each row to one part, also within quotes.
TEST(TableText, HasEachRowInOnePart) {
  const TemporaryFolder folder;
  const RawFile file(write_file(folder / "a.csv", quoted_table));
  for (std::int64_t a = 0; a <= file.size(); ++a)
    for (std::int64_t b = a; b <= file.size(); b += 3) {
      Rows all;
      for (const auto& [begin, end] : {std::pair(std::int64_t{0}, a), std::pair(a, b), std::pair(b, file.size())}) {
        if (begin == end) continue;
        for (auto& row : rows_in(file, {begin, end, count_quotes(file, 0, begin) % 2 != 0})) all.push_back(row);
      }
      EXPECT_EQ(all, quoted_rows) << a << ", " << b;
    }
}

TEST(TableText, ParsesNumbers) {
  float number = 0;
  for (const auto& [text, value] : std::vector<std::pair<std::string, float>>{{"1", 1},
                                                                              {" -2.5e3 ", -2500},
                                                                              {"+4", 4},
                                                                              {".5", 0.5f},
                                                                              {"1e-46", 0},
                                                                              {"1e39", INFINITY},
                                                                              {"16777217", 16777216}})
    EXPECT_TRUE(parse_field(text, number) && number == value) << text << ": " << number;
  for (const char* text : {"", " ", "a", "1a", "1 2", "0x10", "--1"}) EXPECT_FALSE(parse_field(text, number)) << text;
  EXPECT_TRUE(parse_field("nan", number) && std::isnan(number));
  EXPECT_EQ(delimiter_of("a;b;\"c,d,e,f\""), ';');
  EXPECT_EQ(delimiter_of("1 2 3"), ' ');
}

/// The same bits as the standard library's, for numbers of all lengths, and at the middles between floats.
TEST(TableText, ParsesPlainFieldsToTheNearestFloat) {
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  std::vector<std::string> texts{"0",
                                 "-0",
                                 "0.0",
                                 "7",
                                 "-7.",
                                 ".5",
                                 "-.25",
                                 "16777217",
                                 "16777219.0",
                                 "0.1",
                                 "1e5",
                                 "-1.5e-3",
                                 "8388609.5",
                                 "9007199254740993",
                                 "00000000000001",
                                 "123456789012345",
                                 "0.000000000001"};
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 2 ? "-" : "";
    const int digits = 1 + static_cast<int>(random() % 24), dot = static_cast<int>(random() % 20);
    for (int d = 0; d < digits; ++d) {
      if (d == dot) text += '.';
      text += static_cast<char>('0' + random() % 10);
    }
    texts.push_back(text);
  }
  for (int i = 0; i < 20000; ++i) {  // the middle between two floats, exactly
    const double middle = (static_cast<double>(random() % (1u << 23)) + (1u << 23) + 0.5) / 1024;
    texts.push_back(fmt::format("{:.14g}", middle));
    texts.push_back(fmt::format("{:.14f}", middle * 1e-4));
    texts.push_back(fmt::format("{:.17g}", middle * (1 + 1e-16)));
  }
  for (const std::string& text : texts)
    for (const std::string behind : {"", ",", ",123456789012345678901234567890123456789012345678901"}) {
      const std::string row = text + behind;
      float expected = 0, found = 7;
      std::from_chars(text.data(), text.data() + text.size(), expected);
      const char* last = parse_plain_field(row.data(), row.data() + row.size(), ',', found);
      ASSERT_EQ(last, row.data() + text.size()) << row;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(expected)) << row;
    }
  float number = 0;
  for (const std::string text :
       {"", "-", ".", "-.", "a", "1a", "1 ", " 1", "\"1\"", "1.2.3", "nan", "inf", "1e99", "1:", "1/"})
    EXPECT_EQ(parse_plain_field(text.data(), text.data() + text.size(), ',', number), nullptr) << text;
}

struct TableSample {
  std::vector<float> x, y;
  friend bool operator==(const TableSample&, const TableSample&) = default;
};

TableSample sample_of(const TableDataset& data, std::int64_t i) {
  TableSample s;
  s.x.resize(static_cast<std::size_t>(data.fields()[0].shape.elements()));
  s.y.resize(static_cast<std::size_t>(data.fields()[1].shape.elements()));
  void* const dst[] = {s.x.data(), s.y.data()};
  data.read(i, dst);
  if (data.fields()[1].dtype == DType::s32) s.y[0] = static_cast<float>(*reinterpret_cast<std::int32_t*>(s.y.data()));
  return s;
}

TEST(TableDataset, ReadsColumnsByNameAndNumber) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.csv", "a,b,c,kind\n1,2,3,cat\n4,5,6,dog\n7,8,9.5,cat\n");
  const TableDataset all(path, {.targets = {"kind"}, .classes = true});
  EXPECT_EQ(all.features(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(all.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(all.fields()[1].dtype, DType::s32);
  EXPECT_EQ(sample_of(all, 1), (TableSample{{4, 5, 6}, {1}}));
  EXPECT_EQ(all.describe(), "3 rows of 3 features with 2 classes in 1 file under " + path);
  const TableDataset some(path, {.targets = {"2", "a"}, .features = {"b"}});
  EXPECT_EQ(some.targets(), (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(sample_of(some, 2), (TableSample{{8}, {9.5f, 7}}));
  const TableDataset standard(path, {.targets = {"a"}, .features = {"-2"}, .standardise = true});
  EXPECT_NEAR(standard.means()[0], 18.5 / 3, 1e-12);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const double x = sample_of(standard, i).x[0];
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum, 0, 1e-6);
  EXPECT_NEAR(squares, 3, 1e-6);
  // Without a header, columns are numbers, and classes that are numbers are sorted as numbers.
  const TableDataset plain(write_file(folder / "b.tsv", "1\t10\n2\t9\n3\t-1\n"), {.classes = true});
  EXPECT_EQ(plain.size(), 3);
  EXPECT_EQ(plain.classes(), (std::vector<std::string>{"-1", "9", "10"}));
  EXPECT_EQ(plain.targets(), (std::vector<std::string>{"1"}));
}

TEST(TableDataset, ReadsAnotherTableAlike) {
  const TemporaryFolder folder;
  const TableDataset train(write_file(folder / "train.csv", "u,v,k\n1,2,b\n3,4,a\n5,9,c\n"),
                           {.targets = {"k"}, .features = {"v"}, .classes = true, .standardise = true});
  const TableDataset test(write_file(folder / "test.csv", "k,v,extra\nc,4,0\na,2,0\n"), train);
  EXPECT_EQ(test.means(), train.means());
  EXPECT_EQ(sample_of(test, 0), (TableSample{sample_of(train, 1).x, {2}}));
  EXPECT_EQ(sample_of(test, 1), (TableSample{sample_of(train, 0).x, {0}}));
  write_file(folder / "test.csv", "k,v\nd,4\n");
  EXPECT_NE(
      message_of<InputError>([&] { TableDataset(folder / "test.csv", train); }).find("class 'd' is not one of the 3"),
      std::string::npos);
}

TEST(TableDataset, ReadsSeveralFiles) {
  const TemporaryFolder folder;
  write_file(folder / "a.csv", "x,y\n1,2\n3,4\n");
  write_file(folder / "b.csv", "x,y\n5,6");
  write_file(folder / "c.csv", "x,y\n7,8\n");
  const TableDataset data(folder.path(), {});
  ASSERT_EQ(data.size(), 4);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(sample_of(data, i),
              (TableSample{{2.0f * static_cast<float>(i) + 1}, {2.0f * static_cast<float>(i) + 2}}));
  write_file(folder / "b.csv", "x,z\n5,6\n");
  EXPECT_NE(message_of<InputError>([&] { TableDataset(folder.path(), {}); }).find("other names than that of"),
            std::string::npos);
}

TEST(TableDataset, RefusesByLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const TableOptions& options = {}) {
    const std::string path = write_file(folder / "a.csv", text);
    return message_of<InputError>([&] { TableDataset(path, options); });
  };
  const auto says = [](const std::string& message, const std::string& what) {
    return message.find(what) != std::string::npos ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure() << message;
  };
  EXPECT_TRUE(says(refused(""), "first line is empty"));
  EXPECT_TRUE(says(refused(compressed("a,b\n1,2\n", Container::gzip)), "is compressed. Expected a table as text"));
  EXPECT_TRUE(says(refused("a,b\n"), "has no rows"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n3\n"), "line 3 has 1 fields. Expected 2"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n3,4,5\n"), "line 3 has more than 2 fields"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n3,x\n"), "column 'b' has 'x' in line 3"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n,3\n"), "column 'a' has an empty field in line 3"));
  EXPECT_TRUE(says(refused("a,b\n1,2\nnan,3\n"), "column 'a' has 'nan' in line 3"));
  EXPECT_TRUE(says(refused("a,b\n1,\n", {.classes = true}), "Expected the name of a class"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n", {.targets = {"c"}}), "has no column 'c'. Expected one of 2 columns: a, b"));
  EXPECT_TRUE(says(refused("a,b\n1,2\n", {.targets = {"b"}, .features = {"b"}}), "asked for twice"));
  EXPECT_TRUE(says(refused("a,a\n1,2\n"), "two columns have the name 'a'"));
  EXPECT_TRUE(says(refused("a\n1\n"), "all of them are targets"));
  EXPECT_TRUE(says(refused("a,b,c\n1,2,3\n", {.targets = {"a", "b"}, .classes = true}), "classes of 2 targets"));
  const std::string path = write_file(folder / "a.csv", "a,b\n1,2\n,3\n");
  EXPECT_EQ(sample_of(TableDataset(path, {.missing = -1.0f}), 1), (TableSample{{-1}, {3}}));
}

}  // namespace
}  // namespace keelson::testing
