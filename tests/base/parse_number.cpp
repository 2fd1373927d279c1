#include "engine/base/parse_number.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"

namespace keelson {
namespace {

TEST(ParseNumber, ReadsDecimalNumbers) {
  EXPECT_EQ(parse_number<double>("0.25"), 0.25);
  EXPECT_EQ(parse_number<double>("-1.5e-3"), -0.0015);
  EXPECT_EQ(parse_number<double>("7"), 7.0);
  EXPECT_EQ(parse_number<float>("0.1"), 0.1f);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<int>("010"), 10) << "not octal";
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), 18446744073709551615ull);
}

TEST(ParseNumber, RefusesEverythingElse) {
  for (const char* text : {"", " 1", "1 ", "0,001", "1_5", "1'000", "0x10", "nan", "inf", "-inf", "infinity", "1e400",
                           "1e", "1.5.2", "--1", "+1", "one"})
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  for (const char* text : {"", " 1", "1.0", "1e3", "1_5", "1,000", "0x10", "2147483648", "-2147483649"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<std::uint64_t>("-1"), std::nullopt);
}

TEST(Environment, SecondsAreReadStrictly) {
  setenv("KEELSON_TEST_SECONDS", "2.5", 1);
  EXPECT_EQ(seconds_from_environment("KEELSON_TEST_SECONDS", 7), 2.5);
  for (const char* text : {"nan", "inf", "-1", "1e10", "soon", "2,5"}) {
    setenv("KEELSON_TEST_SECONDS", text, 1);
    EXPECT_THROW(seconds_from_environment("KEELSON_TEST_SECONDS", 7), InputError) << text;
  }
  unsetenv("KEELSON_TEST_SECONDS");
  EXPECT_EQ(seconds_from_environment("KEELSON_TEST_SECONDS", 7), 7);
}

TEST(Printable, EscapesWhatCouldSteerATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\r\x07\x7f"), "a\\x1b[31mb\\x0d\\x07\\x7f");
  EXPECT_EQ(printable("Zel'dovich, 3³ cells\n\tend"), "Zel'dovich, 3³ cells\n\tend");
}

}  // namespace
}  // namespace keelson
