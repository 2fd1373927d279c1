#include "engine/onnx/protobuf.hpp"

#include <gtest/gtest.h>

/// The examples of protobuf.dev/programming-guides/encoding, and numbers at the ends of their ranges.
namespace keelson::testing {
namespace {

using namespace std::string_literals;

TEST(OnnxProtobuf, WritesVarints) {
  onnx::Message m;
  m.integer(1, 150);
  EXPECT_EQ(m.text(), "\x08\x96\x01"s);
  const auto of = [](int field, std::int64_t value) {
    onnx::Message one;
    one.integer(field, value);
    return one.text();
  };
  EXPECT_EQ(of(1, 0), "\x08\x00"s);
  EXPECT_EQ(of(1, 127), "\x08\x7f"s);
  EXPECT_EQ(of(1, 128), "\x08\x80\x01"s);
  EXPECT_EQ(of(16, 1), "\x80\x01\x01"s);  // the tag has two bytes
  EXPECT_EQ(of(1, -1), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  EXPECT_EQ(of(1, std::int64_t{1} << 62), "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40"s);
}

TEST(OnnxProtobuf, WritesRealNumbersTextsAndMessages) {
  onnx::Message m;
  m.real(2, 1.5f);
  EXPECT_EQ(m.text(), "\x15\x00\x00\xc0\x3f"s);
  onnx::Message outer, inner, empty;
  inner.integer(1, 150);
  outer.message(3, inner);
  outer.bytes(2, "testing");
  outer.bytes(2, "");
  outer.message(4, empty);
  EXPECT_EQ(outer.text(), "\x1a\x03\x08\x96\x01\x12\x07testing\x12\x00\x22\x00"s);
}

TEST(OnnxProtobuf, BeginsAFieldWhoseBytesFollow) {
  onnx::Message head, whole;
  const std::string bytes(300, 'x');
  head.begin(9, bytes.size());
  whole.bytes(9, bytes);
  EXPECT_EQ(head.text() + bytes, whole.text());
}

}  // namespace
}  // namespace keelson::testing
