#include "engine/data/tfrecord/tfrecord.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/files/crc32c.hpp"
#include "engine/data/tfrecord/tf_example.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/tfrecords.hpp"

namespace keelson::testing {
namespace {

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Written by TensorFlow's RecordWriter: the records "abc" and "".
const std::string abc = bytes_of_hex("0300000000000000b099490e6162636e57f121"),
                  nothing = bytes_of_hex("000000000000000029039807d8ea82a2");

std::string record_text(const TfRecordFile& file, std::int64_t i) {
  std::string data(static_cast<std::size_t>(file.record(i).bytes), ' ');
  file.read_whole(i, data.data());
  return data;
}

TEST(Crc32c, IsThatOfCastagnoli) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c_by_table("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  std::string bytes;
  for (int i = 0; i < 40000; ++i) bytes += static_cast<char>(i * 37 + i / 5);
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{63}, std::size_t{3 * 4096},
                                 std::size_t{30011}, bytes.size()})
    for (const std::size_t from : {0, 1, 5}) {
      const std::size_t n = std::min(size, bytes.size() - from);
      const auto whole = crc32c(bytes.data() + from, n);
      EXPECT_EQ(whole, crc32c_by_table(bytes.data() + from, n));
      EXPECT_EQ(whole, crc32c(bytes.data() + from + n / 3, n - n / 3, crc32c(bytes.data() + from, n / 3)));
    }
}

TEST(TfRecord, ReadsRecordsPlainAndCompressed) {
  const TemporaryFolder folder;
  const std::string three = abc + nothing + abc;
  // A gzip file may have several members.
  const std::string two_members = compressed(three, Container::gzip) + compressed(abc, Container::gzip);
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"plain", three},
                                                        {"gzip", compressed(three, Container::gzip)},
                                                        {"zlib", compressed(three, Container::zlib)},
                                                        {"members", two_members}}) {
    const TfRecordFile file(write_file(folder / name, bytes));
    EXPECT_EQ(file.is_compressed(), name != "plain") << name;
    ASSERT_EQ(file.size(), name == "members" ? 4 : 3) << name;
    EXPECT_EQ(record_text(file, 0), "abc") << name;
    EXPECT_EQ(record_text(file, 1), "") << name;
    EXPECT_EQ(record_text(file, 2), "abc") << name;
    char part[2];
    file.read(2, 1, 2, part);
    EXPECT_EQ(std::string(part, 2), "bc") << name;
  }
  EXPECT_EQ(TfRecordFile(write_file(folder / "empty", "")).size(), 0);
}

TEST(TfRecord, RefusesDamagedFilesByRecordAndByte) {
  const TemporaryFolder folder;
  const std::string two = abc + abc;
  const auto damaged = [&](std::size_t at) {
    std::string bytes = two;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    return write_file(folder / "damaged", bytes);
  };
  EXPECT_NE(
      message_of<InputError>([&] { TfRecordFile file(damaged(19)); }).find("record 1 at byte 19 has a length that"),
      std::string::npos);
  const TfRecordFile data(damaged(19 + 13));
  EXPECT_EQ(record_text(data, 0), "abc");
  EXPECT_NE(
      message_of<InputError>([&] { record_text(data, 1); }).find("record 1 at byte 31 has data that do not match"),
      std::string::npos);
  for (const std::size_t size : {std::size_t{5}, std::size_t{25}, two.size() - 1})
    EXPECT_NE(message_of<InputError>([&] {
                TfRecordFile file(write_file(folder / "cut", two.substr(0, size)));
              }).find("record "),
              std::string::npos)
        << size;
  const std::string gzip = compressed(two, Container::gzip);
  EXPECT_NE(message_of<InputError>([&] {
              TfRecordFile file(write_file(folder / "cut", gzip.substr(0, gzip.size() - 3)));
            }).find("within compressed data"),
            std::string::npos);
  std::string wrong = gzip;
  wrong[wrong.size() - 6] ^= 1;  // the checksum
  EXPECT_NE(message_of<InputError>([&] {
              TfRecordFile file(write_file(folder / "wrong", wrong));
            }).find("cannot be decompressed"),
            std::string::npos);
}

TfExampleBytes positions_in(const std::string& example) {
  return {std::ssize(example),
          [&example](std::int64_t offset, std::int64_t bytes, void* dst) {
            ASSERT_LE(offset + bytes, std::ssize(example));
            std::memcpy(dst, example.data() + offset, static_cast<std::size_t>(bytes));
          },
          "x.tfrecord: record 3"};
}

TEST(TfExample, FindsFeaturesPackedAndNot) {
  const std::string long_text(10000, 'v');
  const std::string integers = field_of(3, field_of(1, varint_of(7) + varint_of(~std::uint64_t{0}))),
                    lone = field_of(3, varint_of(1 << 3 | 0) + varint_of(300));
  const std::string example = example_of({{"text", field_of(1, field_of(1, "one") + field_of(1, long_text))},
                                          {"packed", floats_feature({1.5f, -2})},
                                          {"single", single_floats_feature({3, 4})},
                                          {"integers", integers},
                                          {"lone", lone},
                                          {"none", ""},
                                          {"packed", floats_feature({9})}}) +
                              field_of(77, "unknown fields are skipped") + varint_of(5 << 3 | 1) + std::string(8, 'x');
  const TfExampleBytes bytes = positions_in(example);
  const auto features = parse_tf_example(bytes);
  ASSERT_EQ(features.size(), 6u);
  EXPECT_EQ(features[0].name, "text");
  ASSERT_EQ(features[0].values.size(), 2u);
  EXPECT_EQ(example.substr(static_cast<std::size_t>(features[0].values[1].offset), 10000), long_text);
  EXPECT_EQ(features[0].values[1].bytes, 10000);
  EXPECT_EQ(floats_of(bytes, features[1]), (std::vector<float>{3, 4}));
  EXPECT_EQ(integers_of(bytes, features[2]), (std::vector<std::int64_t>{7, -1}));
  EXPECT_EQ(integers_of(bytes, features[3]), (std::vector<std::int64_t>{300}));
  EXPECT_EQ(features[4].kind, TfFeature::Kind::none);
  EXPECT_EQ(features[5].name, "packed");
  EXPECT_EQ(floats_of(bytes, features[5]), (std::vector<float>{9}));
  EXPECT_NE(message_of<InputError>([&] { floats_of(bytes, features[0]); }).find("'text' has bytes. Expected floats"),
            std::string::npos);
}

TEST(TfExample, RefusesWhatIsNoExample) {
  const std::string good = example_of({{"a", floats_feature({1})}});
  for (std::size_t size = 1; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    const auto message = message_of<InputError>([&] { parse_tf_example(positions_in(cut)); });
    EXPECT_NE(message.find("x.tfrecord: record 3, byte "), std::string::npos) << size << ": " << message;
  }
  for (const std::string& wrong :
       {std::string(11, '\xff'), varint_of(1 << 3 | 3) + "abc", example_of({{"a", field_of(2, field_of(1, "abc"))}}),
        example_of({{"a", field_of(3, varint_of(1 << 3 | 5) + bytes_of_float(1))}})})
    EXPECT_NE(message_of<InputError>([&] { parse_tf_example(positions_in(wrong)); }), "");
}

}  // namespace
}  // namespace keelson::testing
