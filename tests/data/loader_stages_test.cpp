#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/data/loader.hpp"
#include "tests/support/data_files.hpp"

/// The two stages of a loader: threads that read samples, and threads that decode them.
namespace keelson {
namespace {

/// Closed until opened: those who pass wait.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting;
    opens_.wait(lock, [&] { return open_; });
    --waiting;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opens_.notify_all();
  }
  std::atomic<int> waiting = 0;

 private:
  std::mutex mutex_;
  std::condition_variable opens_;
  bool open_ = false;
};

/// Sample i is 24 numbers, i + 0 ... i + 23; its stored form has a byte for each.
class Bytes : public Dataset {
 public:
  explicit Bytes(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    std::byte stored[elements];
    read_stored(index, stored);
    decode({.id = {.index = index}}, stored, dst);
  }
  bool has_stored_form() const override { return true; }
  std::int64_t stored_bytes() const override { return elements; }
  void read_stored(std::int64_t index, std::byte* dst) const override {
    if (read_milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(read_milliseconds));
    if (index == unreadable) refuse("sample {} is unreadable", index);
    for (int i = 0; i < elements; ++i) dst[i] = static_cast<std::byte>(index + i);
    ++reads;
  }
  void decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const override {
    if (gate) gate->pass();
    if (decode_milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(decode_milliseconds));
    if (request.id.index == wrong) refuse("sample {} is wrong", request.id.index);
    const auto decode_whole = [&](void* const* to) {
      for (int i = 0; i < elements; ++i) static_cast<float*>(to[0])[i] = static_cast<float>(stored[i]);
    };
    take_rows(request.rows, decode_whole, dst);
    ++decodings;
  }
  std::string describe() const override { return "bytes"; }

  static constexpr int elements = 24;
  int read_milliseconds = 0, decode_milliseconds = 0;
  std::int64_t unreadable = -1, wrong = -1;
  Gate* gate = nullptr;  ///< before decoding
  mutable std::atomic<int> reads = 0, decodings = 0;

 private:
  std::int64_t size_;
  std::vector<Field> fields_{{"x", {1, 4, 6}}};
};

LoaderOptions staged_options(std::int64_t batch, int readers, int decoders) {
  LoaderOptions o;
  o.batch = batch;
  o.seed = 3;
  o.threads.readers = readers;
  o.threads.count = decoders;
  return o;
}

void expect_sample(const Batch& b, std::int64_t i) {
  const auto* x = static_cast<const float*>(b.fields[0]) + i * Bytes::elements;
  for (int k = 0; k < Bytes::elements; ++k) ASSERT_EQ(x[k], static_cast<float>((b.indices[i] + k) % 256));
}

TEST(LoaderStages, HaveTheSamplesOfAnyNumberOfThreads) {
  const Bytes data(41);
  for (const int readers : {1, 4})
    for (const int decoders : {1, 3})
      for (const std::int64_t batch : {1, 6}) {
        Loader loader(data, staged_options(batch, readers, decoders));
        for (int epoch = 0; epoch < 3; ++epoch) {
          loader.start_epoch(epoch, epoch);
          std::int64_t samples = epoch;
          for (const Batch* b; (b = loader.next()) != nullptr; samples += b->count)
            for (std::int64_t i = 0; i < b->count; ++i) expect_sample(*b, i);
          EXPECT_EQ(samples, 41);
        }
        const LoaderStatistics s = loader.statistics();
        EXPECT_EQ(s.reading.threads, readers);
        EXPECT_EQ(s.decoding.threads, decoders);
        EXPECT_GT(s.rooms, 0);
      }
}

/// Rows of samples are read where they are wanted, without a whole sample in between.
TEST(LoaderStages, AreOneForRows) {
  const Bytes data(8);
  auto o = staged_options(2, 2, 2);
  o.decoding.rows = {Rows{1, 3}};
  Loader loader(data, o);
  loader.start_epoch(0);
  while (const Batch* b = loader.next())
    for (std::int64_t i = 0; i < b->count; ++i)
      for (int k = 0; k < 12; ++k)
        ASSERT_EQ(static_cast<const float*>(b->fields[0])[12 * i + k], static_cast<float>(b->indices[i] + 6 + k));
  EXPECT_EQ(loader.statistics().decoding.threads, 0);
  EXPECT_EQ(loader.statistics().rooms, 0);
}

TEST(LoaderStages, HoldNoMoreSamplesThanTheirRoomHas) {
  Bytes data(100);
  Gate gate;
  data.gate = &gate;
  auto o = staged_options(10, 3, 2);
  const std::int64_t batch_bytes = 10 * Bytes::elements * static_cast<std::int64_t>(sizeof(float));
  o.threads.memory = 3 * batch_bytes + 5 * Bytes::elements;
  Loader loader(data, o);
  const LoaderStatistics s = loader.statistics();
  EXPECT_EQ(s.prefetch, 2);
  EXPECT_EQ(s.rooms, 5);
  EXPECT_EQ(s.memory, o.threads.memory);
  loader.start_epoch(0);
  while (gate.waiting < 2 || data.reads < 5) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(data.reads, 5);
  EXPECT_EQ(data.decodings, 0);
  gate.open();
  std::int64_t samples = 0;
  while (const Batch* b = loader.next()) samples += b->count;
  EXPECT_EQ(samples, 100);
  EXPECT_GT(loader.statistics().reading.blocked, 0);
}

TEST(LoaderStages, AreRefusedLessMemoryThanTheyNeed) {
  const Bytes data(100);
  auto o = staged_options(10, 1, 1);
  o.threads.memory = 1000;
  const std::string message = message_of<InputError>([&] { Loader(data, o); });
  EXPECT_NE(message.find("1000 bytes of memory for reading samples (--loader-memory) are too few"), std::string::npos)
      << message;
  o.threads.prefetch = 0;  // as many batches as fit
  o.threads.memory = 2 * 960 + 2 * 24;
  EXPECT_EQ(Loader(data, o).statistics().prefetch, 1);
}

TEST(LoaderStages, NameTheStageForWhichStepsWait) {
  for (const bool slow_reading : {true, false}) {
    Bytes data(12);
    (slow_reading ? data.read_milliseconds : data.decode_milliseconds) = 10;
    Loader loader(data, staged_options(1, 1, 1));
    loader.start_epoch(0);
    while (loader.next() != nullptr) {
    }
    const LoaderStatistics s = loader.statistics();
    EXPECT_EQ(s.waits.reading > s.waits.decoding, slow_reading) << s.waits.reading << ' ' << s.waits.decoding;
    EXPECT_GT(slow_reading ? s.reading.busy : s.decoding.busy, 0.1);
    EXPECT_EQ(s.waits.ranks, 0);
  }
}

TEST(LoaderStages, GetMoreThreadsWhileThatHelps) {
  for (const bool slow_reading : {true, false}) {
    Bytes data(120);
    (slow_reading ? data.read_milliseconds : data.decode_milliseconds) = 20;
    auto o = staged_options(1, 1, 1);
    o.threads.prefetch = 0;
    o.threads.most_readers = o.threads.most_count = 3;
    Loader loader(data, o);
    EXPECT_GE(loader.statistics().prefetch, 3);
    loader.start_epoch(0);
    std::int64_t samples = 0;
    while (const Batch* b = loader.next()) samples += b->count;
    EXPECT_EQ(samples, 120);
    const LoaderStatistics s = loader.statistics();
    EXPECT_GT(slow_reading ? s.reading.threads : s.decoding.threads, 1);
    EXPECT_EQ(slow_reading ? s.decoding.threads : s.reading.threads, 1);
  }
}

TEST(LoaderStages, TellTheFirstFailureOfABatch) {
  for (const bool reading : {true, false}) {
    Bytes data(16);
    (reading ? data.unreadable : data.wrong) = 7;
    auto o = staged_options(4, 3, 3);
    o.shuffle = false;
    Loader loader(data, o);
    for (int epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      EXPECT_NE(loader.next(), nullptr);
      const std::string message = message_of<InputError>([&] { loader.next(); });
      EXPECT_EQ(message, reading ? "sample 7 is unreadable" : "sample 7 is wrong");
    }
  }
}

TEST(LoaderStages, SurviveEpochsThatAreAbandoned) {
  const Bytes data(37);
  for (int epoch = 0; epoch < 200; ++epoch) {
    auto o = staged_options(3, 1 + epoch % 3, 1 + epoch % 2);
    Loader loader(data, o);
    for (int again = 0; again < 3; ++again) {
      loader.start_epoch(epoch, again);
      for (int step = 0; step < (epoch + again) % 5; ++step)
        if (const Batch* b = loader.next())
          for (std::int64_t i = 0; i < b->count; ++i) expect_sample(*b, i);
    }
  }
}

}  // namespace
}  // namespace keelson
