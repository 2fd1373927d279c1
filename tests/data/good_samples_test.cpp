#include "engine/data/good_samples.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

/// Sample i is the number i.
class SomeBroken final : public Dataset {
 public:
  explicit SomeBroken(std::int64_t size, std::set<std::int64_t> bad = {}) : size_(size), bad_(std::move(bad)) {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    if (bad_.contains(index)) refuse("n.h5: 'x' holds nan at ({}).\nExpected finite numbers", index);
    *static_cast<float*>(dst[0]) = static_cast<float>(index);
  }
  std::string describe() const override { return "numbers"; }

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  std::vector<Field> fields_{{"x", {1}}};
};

TEST(GoodSamples, AreAllButTheBrokenOnes) {
  for (const auto& broken : std::vector<std::vector<std::int64_t>>{{}, {0}, {11}, {3, 4, 5}, {0, 2, 10, 11}, {6}}) {
    const SomeBroken data(12);
    const GoodSamples good(data, broken);
    std::set<std::int64_t> seen(broken.begin(), broken.end());
    ASSERT_EQ(good.size(), 12 - std::ssize(broken));
    float before = -1;
    for (std::int64_t i = 0; i < good.size(); ++i) {
      float x = -1, decoded = -1;
      void* const dst[] = {&x};
      good.read(i, dst);
      EXPECT_GT(x, before);
      before = x;
      EXPECT_EQ(good.original(i), static_cast<std::int64_t>(x));
      EXPECT_TRUE(seen.insert(good.original(i)).second);
      std::byte stored[sizeof(float)];
      void* const to[] = {&decoded};
      good.read_stored(i, stored);
      good.decode({.id = {.index = i}}, stored, to);
      EXPECT_EQ(decoded, x);
    }
    EXPECT_EQ(seen.size(), 12U);
    EXPECT_NE(good.digest(), data.digest());
  }
  EXPECT_NE(GoodSamples(SomeBroken(9), {3}).digest(), GoodSamples(SomeBroken(9), {4}).digest());
}

TEST(GoodSamples, AreFoundByReading) {
  const SomeBroken data(50, {7, 31, 30});
  for (const int threads : {1, 3}) {
    std::int64_t read = 0;
    const auto broken = find_broken_samples(data, 3, threads, nullptr, [&](std::int64_t n) { read = n; });
    ASSERT_EQ(broken.size(), 3U);
    EXPECT_EQ(broken[0].index, 7);
    EXPECT_EQ(broken[1].index, 30);
    EXPECT_EQ(broken[2].index, 31);
    EXPECT_EQ(broken[0].reason, "n.h5: 'x' holds nan at (7). Expected finite numbers");
    EXPECT_EQ(read, 50);
  }
  try {
    find_broken_samples(data, 2, 2, nullptr);
    ADD_FAILURE();
  } catch (const InputError& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("3 of 50 samples cannot be read, and at most 2 may be left out"), std::string::npos) << said;
    EXPECT_NE(said.find("holds nan at (7)"), std::string::npos) << said;
  }
}

TEST(GoodSamples, OfFilesThatAreNotBroken) {
  std::vector<std::int64_t> tried;
  const auto read = [&](std::int64_t file) {
    tried.push_back(file);
    if (file < 2) refuse("file {} is broken", file);
  };
  EXPECT_EQ(find_good_file(5, 2, read), 2);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_THROW(find_good_file(5, 1, read), InputError);
  EXPECT_THROW(find_good_file(2, 2, read), InputError);
  EXPECT_EQ(tried.size(), 7U);

  std::vector<std::string> all{"a"};
  add_broken_files(all, {}, 1, nullptr);
  add_broken_files(all, {"b\nin two lines", "c"}, 3, nullptr);
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b in two lines", "c"}));
  EXPECT_THROW(add_broken_files(all, {"d"}, 3, nullptr), InputError);
}

}  // namespace
}  // namespace keelson
