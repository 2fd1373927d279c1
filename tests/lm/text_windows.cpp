#include "apps/lm/text/text_windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/data/loader.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::lm {
namespace {

using namespace testing;

using Ids = std::vector<std::int32_t>;

/// A text of `tokens` tokens, all lines ended, whose ids are easy to tell.
struct Text {
  explicit Text(std::int64_t tokens, unsigned words = 500) {
    std::mt19937 random(7);
    std::string text;
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const bool end = i == tokens - 1 || random() % 20 == 0;
      names.push_back(end ? "<eos>" : "w" + std::to_string(random() % words));
      text += end ? "\n" : names.back() + " ";
    }
    corpus = std::make_shared<TextCorpus>(scan_text({write_file(folder / "t.txt", text)}, TokenLevel::word));
    vocabulary = std::make_shared<Vocabulary>(corpus->scan());
    for (const auto& name : names) ids.push_back(vocabulary->id(name));
  }
  TextWindows windows(std::int64_t streams, std::int64_t unroll, bool pad = false) const {
    return TextWindows(corpus, vocabulary, {streams, unroll, pad});
  }
  TemporaryFolder folder;
  std::shared_ptr<TextCorpus> corpus;
  std::shared_ptr<Vocabulary> vocabulary;
  Ids ids;
};

struct Window {
  Ids x, y;
  bool operator==(const Window&) const = default;
};

Window read(const TextWindows& windows, std::int64_t index) {
  const auto length = static_cast<std::size_t>(windows.unroll());
  Window w{Ids(length, -7), Ids(length, -7)};
  void* const dst[] = {w.x.data(), w.y.data()};
  windows.read(index, dst);
  return w;
}

/// The PTB reader's rule on ids in memory.
std::vector<Window> naive(const Ids& ids, std::int64_t streams, std::int64_t unroll, bool pad) {
  const std::int64_t row = static_cast<std::int64_t>(ids.size()) / streams;
  std::vector<Window> all;
  for (std::int64_t t = 0; pad ? t < row - 1 : t + unroll <= row - 1; t += unroll)
    for (std::int64_t s = 0; s < streams; ++s) {
      Window w;
      for (std::int64_t k = t; k < t + unroll; ++k) {
        const bool there = k + 1 < row;
        w.x.push_back(there ? ids[static_cast<std::size_t>(s * row + k)] : 0);
        w.y.push_back(there ? ids[static_cast<std::size_t>(s * row + k + 1)] : -1);
      }
      all.push_back(w);
    }
  return all;
}

TEST(TextWindows, FollowThePtbReadersRule) {
  for (const std::int64_t tokens : {40, 41, 1003, 8192, 8193, 30011}) {
    const Text text(tokens);
    for (const std::int64_t streams : {1, 2, 3, 20})
      for (const std::int64_t unroll : {1, 2, 7, 35, 20000})
        for (const bool pad : {false, true}) {
          if (tokens < streams * (pad ? 2 : unroll + 1)) continue;
          const auto windows = text.windows(streams, unroll, pad);
          const auto expected = naive(text.ids, streams, unroll, pad);
          ASSERT_EQ(windows.size(), static_cast<std::int64_t>(expected.size()));
          ASSERT_EQ(windows.steps() * streams, windows.size());
          std::int64_t targets = 0, wrong = 0;
          for (std::int64_t i = 0; i < windows.size(); ++i) {
            const auto found = read(windows, i);
            wrong += !(found == expected[static_cast<std::size_t>(i)]);
            targets += std::count_if(found.y.begin(), found.y.end(), [](auto id) { return id >= 0; });
          }
          EXPECT_EQ(wrong, 0) << tokens << " tokens, " << streams << " streams of " << unroll << ", pad " << pad;
          EXPECT_EQ(windows.targets(), targets);
          if (pad) {
            EXPECT_EQ(targets, streams * (tokens / streams - 1));
          }
        }
  }
}

TEST(TextWindows, ReadInAnyOrderFromSeveralThreads) {
  const Text text(50000);
  const auto windows = text.windows(3, 35, true);
  const auto expected = naive(text.ids, 3, 35, true);
  std::vector<std::thread> threads;
  std::int64_t wrong[4] = {};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::int64_t> order(expected.size());
      std::iota(order.begin(), order.end(), 0);
      if (t > 0) std::shuffle(order.begin(), order.end(), std::mt19937(t));
      for (const auto i : order) wrong[t] += !(read(windows, i) == expected[static_cast<std::size_t>(i)]);
    });
  for (auto& t : threads) t.join();
  for (const auto w : wrong) EXPECT_EQ(w, 0);
}

TEST(TextWindows, ALoaderGivesEveryRankRowsOfItsOwn) {
  const Text text(20000);
  const std::int64_t streams = 6, unroll = 35;
  const auto windows = text.windows(streams, unroll);
  const auto row = windows.row_length();
  for (const int ranks : {1, 2, 3})
    for (int rank = 0; rank < ranks; ++rank) {
      const auto batch = streams / ranks;
      Loader loader(windows, {.batch = batch, .rank = rank, .ranks = ranks, .shuffle = false, .threads = {.count = 2}});
      ASSERT_EQ(loader.steps_per_epoch(), windows.steps());
      for (int epoch = 0; epoch < 2; ++epoch) {
        loader.start_epoch(epoch);
        for (std::int64_t step = 0; step < windows.steps(); ++step) {
          const auto* b = loader.next();
          ASSERT_NE(b, nullptr);
          ASSERT_EQ(b->count, batch);
          const auto* x = static_cast<const std::int32_t*>(b->fields[0]);
          const auto* y = static_cast<const std::int32_t*>(b->fields[1]);
          for (std::int64_t i = 0; i < batch; ++i) {
            const auto first = text.ids.begin() + (rank * batch + i) * row + step * unroll;
            ASSERT_TRUE(std::equal(x + i * unroll, x + (i + 1) * unroll, first)) << "step " << step << " row " << i;
            ASSERT_TRUE(std::equal(y + i * unroll, y + (i + 1) * unroll, first + 1));
          }
        }
        EXPECT_EQ(loader.next(), nullptr);
      }
    }
}

TEST(TextWindows, DescribeThemselves) {
  const Text text(1003);
  const auto windows = text.windows(20, 7);
  EXPECT_EQ(windows.describe(), "1003 tokens of t.txt in 20 streams of 50, 7 windows of 7");
  EXPECT_EQ(windows.fields()[0].name, "x");
  EXPECT_EQ(windows.fields()[1].name, "y");
  for (const auto& f : windows.fields()) {
    EXPECT_EQ(f.shape, Shape{7});
    EXPECT_EQ(f.dtype, DType::s32);
  }
}

TEST(TextWindows, RefuseATextTooShort) {
  const Text text(719);
  EXPECT_EQ(message_of<InputError>([&] { text.windows(20, 35); }),
            "a batch of 20 streams x 35 words needs at least 720 tokens, but t.txt has 719; give a smaller --batch or "
            "--unroll, or more text");
  EXPECT_EQ(text.windows(20, 35, true).steps(), 1);
  EXPECT_NE(message_of<InputError>([&] { text.windows(400, 35, true); }).find("at least 800 tokens"),
            std::string::npos);
  EXPECT_THROW(text.windows(0, 35), InputError);
  EXPECT_THROW(text.windows(20, 0), InputError);
  EXPECT_THROW(text.windows(std::int64_t{1} << 40, std::int64_t{1} << 40), InputError);
  const auto characters =
      std::make_shared<Vocabulary>(scan_text({text.corpus->scan().files[0].path}, TokenLevel::character));
  EXPECT_NE(message_of<InputError>([&] { TextWindows(text.corpus, characters, {}); }).find("--level"),
            std::string::npos);
}

}  // namespace
}  // namespace keelson::lm
