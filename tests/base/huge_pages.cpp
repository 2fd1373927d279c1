#include "engine/base/huge_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace keelson::testing {
namespace {

TEST(HugePages, ArraysBeginOnPagesWhereTheyAreAsLongAsOne) {
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1000}, huge_page_bytes / sizeof(float), huge_page_bytes / sizeof(float) * 5 / 2}) {
    const auto array = make_huge_page_array<float>(count);
    const auto address = reinterpret_cast<std::uintptr_t>(array.get());
    EXPECT_EQ(address % (count * sizeof(float) < huge_page_bytes ? 64 : huge_page_bytes), 0u) << count;
    std::fill_n(array.get(), count, 1.5f);
    EXPECT_EQ(array[count - 1], 1.5f);
  }
}

TEST(HugePages, AnyMemoryMayBeWishedFor) {
  std::vector<char> few(100);
  prefer_huge_pages(few.data(), few.size());
  prefer_huge_pages(nullptr, 0);
  EXPECT_EQ(few[99], 0);
}

}  // namespace
}  // namespace keelson::testing
