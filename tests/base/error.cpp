#include "engine/base/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace keelson {
namespace {

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

TEST(Error, RefuseIsTheUsersMistake) {
  EXPECT_THROW(refuse("found {}", 3), InputError);
  EXPECT_EQ(message_of([] { refuse("found {}, expected {}", 3, "four"); }), "found 3, expected four");
}

TEST(Error, FailIsNot) {
  try {
    fail("disk {} full", "sda");
  } catch (const InputError&) {
    FAIL() << "an InputError means exit code 2";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "disk sda full");
  }
}

TEST(Error, BrokenExpectationNamesPlaceAndCondition) {
  EXPECT_NO_THROW(KEELSON_EXPECT(1 + 1 == 2));
  const auto text = message_of([] { KEELSON_EXPECT(1 + 1 == 3); });
  EXPECT_NE(text.find("error.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson
