#include <algorithm>
#include <system_error>
#include <utility>

#include "engine/base/background_thread.hpp"
#include "engine/base/error.hpp"
#include "engine/base/trace.hpp"
#include "engine/data/detail/loader_stages.hpp"

namespace keelson::detail {

namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

LoaderRoom room_for(const LoaderThreads& threads, std::int64_t batch, std::int64_t batch_bytes, int extra,
                    std::int64_t stored_bytes, bool needs_stages) {
  constexpr std::int64_t usual = 256 << 20, least_between = 2;
  const std::int64_t memory = threads.memory > 0 ? threads.memory : usual;
  const std::int64_t readers = std::max(threads.readers_to_start(), threads.most_readers);
  const std::int64_t decoders = std::max(threads.count, threads.most_count);
  LoaderRoom room{threads.prefetch};
  if (room.prefetch == 0) {
    const std::int64_t wanted = std::max<std::int64_t>(2, (std::max(readers, decoders) + batch - 1) / batch);
    const std::int64_t fit = memory / std::max<std::int64_t>(batch_bytes, 1) - extra;
    room.prefetch = static_cast<int>(std::clamp<std::int64_t>(fit, threads.memory > 0 ? 1 : 2, wanted));
  }
  const std::int64_t batches = (room.prefetch + extra) * batch_bytes;
  if (stored_bytes > 0) {
    const std::int64_t fit = (memory - batches) / stored_bytes;
    const bool stages = needs_stages || fit >= least_between;
    room.between = stages ? std::clamp(fit, least_between, readers + decoders + batch) : 0;
  }
  room.bytes = batches + room.between * stored_bytes;
  if (threads.memory > 0 && room.bytes > threads.memory)
    refuse(
        "{} bytes of memory for reading samples (--loader-memory) are too few: {} batches of {} bytes and {} samples "
        "of {} bytes between reading and decoding need {}. Give so many, or a smaller batch or --prefetch",
        threads.memory, room.prefetch + extra, batch_bytes, room.between, stored_bytes, room.bytes);
  return room;
}

LoaderStages::LoaderStages(std::mutex& mutex, Work work, const LoaderThreads& threads, std::int64_t rooms,
                           std::int64_t room_bytes)
    : mutex_(mutex), work_(std::move(work)), cpus_(threads.cpus) {
  for (std::int64_t i = 0; i < rooms; ++i) {
    rooms_.push_back(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room_bytes)));
    free_.push_back(rooms_.back().get());
  }
  const int readers = threads.readers_to_start(), decoders = rooms > 0 ? threads.count : 0;
  reading_.most = std::max(readers, threads.most_readers);
  decoding_.most = rooms > 0 ? std::max(decoders, threads.most_count) : 0;
  try {
    const std::lock_guard lock(mutex_);  // threads that have begun look at the number of those that work
    for (int i = 0; i < readers; ++i) start(reading_, "reader", &LoaderStages::read);
    for (int i = 0; i < decoders; ++i) start(decoding_, "decoder", &LoaderStages::decode);
  } catch (const std::system_error& e) {
    const auto started = reading_.threads.size() + decoding_.threads.size();
    end();
    fail(
        "only {} of {} threads that read and decode samples can be started ({}); give fewer --loader-threads and "
        "--reader-threads, or raise the limit on processes (ulimit -u) or on memory",
        started, readers + decoders, e.code().message());
  }
}

LoaderStages::~LoaderStages() { end(); }

void LoaderStages::start(Stage& stage, const char* name, Run run) {
  const int number = static_cast<int>(stage.threads.size());
  stage.threads.push_back(start_background_thread(name, [this, run, number] { (this->*run)(number); }, cpus_));
  ++stage.working;
}

void LoaderStages::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (Stage* stage : {&reading_, &decoding_}) {
    stage->work.notify_all();
    for (auto& t : stage->threads) t.join();
  }
}

void LoaderStages::wake() {
  reading_.work.notify_all();
  decoding_.work.notify_all();
}

void LoaderStages::read(int number) {
  std::unique_lock lock(mutex_);
  for (auto since = Clock::now();;) {
    const auto works = [&] { return number < reading_.working; };
    reading_.work.wait(lock, [&] { return stop_ || (works() && !reads_.empty()); });
    const auto given = Clock::now();
    reading_.work.wait(lock, [&] { return stop_ || (works() && can_read()); });
    if (stop_) return;
    const auto begin = Clock::now();
    reading_.starved += seconds_between(since, given);
    reading_.blocked += seconds_between(given, begin);
    const SampleJob job = reads_.front();
    reads_.pop_front();
    std::byte* room = nullptr;
    if (job.kind != SampleJob::Kind::send && !rooms_.empty()) {
      room = free_.back();
      free_.pop_back();
    }
    ++busy_;
    lock.unlock();
    std::exception_ptr error;
    const std::byte* stored = nullptr;
    try {
      const TraceSpan span("read a sample", "input");
      stored = work_.read(job, room);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    since = Clock::now();
    reading_.busy += seconds_between(begin, since);
    if (room && stored != room) {  // failed, or in other memory
      free_.push_back(room);
      room = nullptr;
      reading_.work.notify_all();
    }
    if (stored) {
      decodings_.push_back({job, stored, room});
      work_.has_read(job);
      decoding_.work.notify_all();
    } else {
      work_.is_done(job, std::move(error));
    }
    error = nullptr;
    changed_.notify_all();
  }
}

void LoaderStages::decode(int number) {
  std::unique_lock lock(mutex_);
  for (auto since = Clock::now();;) {
    decoding_.work.wait(lock, [&] { return stop_ || (number < decoding_.working && !decodings_.empty()); });
    if (stop_) return;
    const auto begin = Clock::now();
    decoding_.starved += seconds_between(since, begin);
    const Decoding d = decodings_.front();
    decodings_.pop_front();
    ++busy_;
    lock.unlock();
    std::exception_ptr error;
    try {
      const TraceSpan span("decode a sample", "input");
      work_.decode(d.job, d.stored);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    since = Clock::now();
    decoding_.busy += seconds_between(begin, since);
    if (d.room) {
      free_.push_back(d.room);
      reading_.work.notify_all();
    }
    work_.is_done(d.job, std::move(error));
    error = nullptr;
    changed_.notify_all();
  }
}

void LoaderStages::abandon(std::unique_lock<std::mutex>& lock) {
  std::erase_if(reads_, [](const SampleJob& j) { return j.kind != SampleJob::Kind::send; });
  const auto drop = [&] {
    for (const Decoding& d : decodings_)
      if (d.room) free_.push_back(d.room);
    decodings_.clear();
  };
  drop();
  wake();
  changed_.wait(lock, [&] {
    drop();  // of threads that were reading
    return is_idle();
  });
}

/// Threads are started one by one while they help: the waits must become shorter by a tenth. The first one that does
/// not help is the last one.
void LoaderStages::grow(Stage& stage, double waited, Run run, const char* name) {
  constexpr double helps = 0.9;
  const double before = std::exchange(stage.waited_before, -1);
  if (before >= 0 && waited > helps * before) {
    stage.most = --stage.working;
    return;
  }
  if (stage.working >= stage.most) return;
  try {
    start(stage, name, run);
    stage.waited_before = waited;
  } catch (const std::system_error&) {  // the system allows no more
    stage.most = stage.working;
  }
}

void LoaderStages::look_again(const LoaderWaits& waits) {
  looked_at_ = Clock::now();
  batches_then_ = batches_;
  waits_then_ = waits;
}

void LoaderStages::count_batch(const LoaderWaits& waits, bool is_first) {
  ++batches_;
  reading_.queued += static_cast<double>(reads_.size());
  decoding_.queued += static_cast<double>(decodings_.size());
  if (is_first) return look_again(waits);
  constexpr std::int64_t least_batches = 16;
  constexpr double least_seconds = 0.3, little = 0.05;  // a share of the time
  const std::int64_t batches = batches_ - batches_then_;
  const double elapsed = seconds_between(looked_at_, Clock::now());
  if (batches < least_batches || elapsed < least_seconds) return;
  const double reading = waits.reading - waits_then_.reading, decoding = waits.decoding - waits_then_.decoding;
  look_again(waits);
  const bool by_reading = reading >= decoding;
  Stage& stage = by_reading ? reading_ : decoding_;
  const double waited = std::max(reading, decoding);
  if (waited < little * elapsed) return;
  grow(stage, waited / static_cast<double>(batches), by_reading ? &LoaderStages::read : &LoaderStages::decode,
       by_reading ? "reader" : "decoder");
}

LoaderStatistics LoaderStages::statistics() const {
  const auto batches = static_cast<double>(std::max<std::int64_t>(batches_, 1));
  const auto of = [&](const Stage& s) {
    return LoaderStatistics::Stage{s.working, s.busy, s.starved, s.blocked, s.queued / batches};
  };
  return {.reading = of(reading_), .decoding = of(decoding_), .rooms = std::ssize(rooms_)};
}

}  // namespace keelson::detail
