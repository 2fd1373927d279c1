#include "insitu/field.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "insitu/keelson/insitu.h"
#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {
namespace {

keelson_insitu_field_desc described(std::vector<float>& array, int memory) {
  keelson_insitu_field_desc d{};
  d.name = "u";
  d.data = array.data();
  d.dtype = KEELSON_INSITU_FLOAT;
  d.memory = memory;
  d.ndims = 2;
  d.extents[0] = 3, d.extents[1] = 2;
  d.ghosts[1] = 1;
  return d;
}

TEST(InsituField, AnArrayThatTheDeviceCannotReachIsCopiedThereAndBack) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  std::vector<float> array(12);
  std::iota(array.begin(), array.end(), 0.0f);
  const auto before = array;
  auto field = insitu::make_field(described(array, KEELSON_INSITU_HOST));
  EXPECT_EQ(field.span(), 12);
  EXPECT_EQ(field.origin(), 1);
  auto* there = insitu::reach(field, device, true);
  EXPECT_NE(static_cast<void*>(there), array.data());
  array[5] = 50;  // the host changes a cell, and the device another one
  EXPECT_EQ(insitu::reach(field, device, true), there);
  device.zero(there + 4, sizeof(float));
  insitu::bring_back(field, device);
  auto expected = before;
  expected[5] = 50, expected[1] = 0;
  EXPECT_EQ(array, expected);
}

TEST(InsituField, AnArrayOfTheDeviceStaysWhereItIs) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  std::vector<float> array(12);
  auto field = insitu::make_field(described(array, KEELSON_INSITU_DEVICE));
  EXPECT_EQ(static_cast<void*>(insitu::reach(field, device, true)), array.data());
}

}  // namespace
}  // namespace keelson::testing
