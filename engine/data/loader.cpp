#include "engine/data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/base/background_thread.hpp"
#include "engine/base/error.hpp"
#include "engine/base/trace.hpp"
#include "engine/data/cache/batch_shares.hpp"
#include "engine/data/cache/detail/sample_exchange.hpp"
#include "engine/data/epoch_order.hpp"

namespace keelson {

namespace {

constexpr std::size_t alignment = 64;

/// Does not touch the pages: a page is placed near the thread that decodes into it first.
std::shared_ptr<void> allocate(std::size_t bytes) {
  return {::operator new(std::max(bytes, alignment), std::align_val_t(alignment)),
          [](void* p) { ::operator delete(p, std::align_val_t(alignment)); }};
}

}  // namespace

std::vector<Field> SampleDecoding::fields_of(const Dataset& data) const {
  std::vector<Field> fields = data.fields();
  for (std::size_t f = 0; f < rows.size(); ++f)
    if (rows[f]) fields[f] = fields[f].with_rows(*rows[f]);
  return fields;
}

SampleCounts& SampleCounts::operator+=(const SampleCounts& other) {
  read.memory += other.read.memory;
  read.disk += other.read.disk;
  read.files += other.read.files;
  received += other.received;
  sent += other.sent;
  return *this;
}

/// Steps use a ring of buffers: one for the step that the caller holds, and the others for the next steps. Threads take
/// jobs in the order in which they came: the samples of the steps, one by one. A step is ready when all its samples are
/// decoded. One mutex guards all state; no thread holds it while it decodes. Only the caller's thread calls MPI.
struct Loader::Impl {
  struct PrefetchBuffer {
    Batch batch;
    std::vector<std::shared_ptr<void>> memory;
    char* field(std::size_t f) const { return static_cast<char*>(memory[f].get()); }
    std::vector<float> weight;
    std::vector<std::int64_t> indices;
    std::vector<ops::VoxelSample> voxels;
    std::int64_t open = 0;  ///< samples not yet decoded
    std::exception_ptr error;
    std::int64_t error_sample =
        0;  ///< the first failed sample of the batch, so that the reported error does not depend on timing
    std::unique_ptr<detail::SampleExchange> exchange;  ///< with other ranks; null: nothing is sent
  };
  struct Job {
    enum class Kind : std::uint8_t { decode, decode_received, send };
    Kind kind;
    PrefetchBuffer* buffer;
    std::int64_t sample;  ///< of the batch; of Kind::send the number of the message
  };

  Impl(const Dataset& dataset_, const LoaderOptions& options_);
  ~Impl();
  std::int64_t steps_from(std::int64_t sample) const {
    const std::int64_t global_batch = options.ranks * options.batch;
    return (dataset.size() - sample + global_batch - 1) / global_batch;
  }
  void end_threads();
  void prepare(std::int64_t step);
  std::vector<std::int64_t> own_samples(PrefetchBuffer& buffer, std::int64_t first, const GlobalBatch& global);
  void work();
  void do_job(const Job& job);
  void decode(PrefetchBuffer& buffer, std::int64_t sample, const std::byte* received);
  void abandon_epoch(std::unique_lock<std::mutex>& lock);
  void advance_exchange(std::unique_lock<std::mutex>& lock);
  void wait_for(PrefetchBuffer& buffer, std::unique_lock<std::mutex>& lock);
  bool exchanges() const { return cache && cache->samples().ranks > 1; }
  PrefetchBuffer& buffer_of(std::int64_t step) {
    return buffers[static_cast<std::size_t>(step % static_cast<std::int64_t>(buffers.size()))];
  }
  std::int64_t last_prepared() const { return std::min(steps, held + static_cast<std::int64_t>(buffers.size())); }

  const Dataset& dataset;
  const LoaderOptions options;
  const CodedField* const coded;           ///< null: the host decodes all fields
  std::unique_ptr<SampleCache> cache;      ///< null: none
  std::int64_t first_sample = 0;           ///< position in the epoch's order at which step 0 begins
  std::int64_t steps = 0;                  ///< steps from there to the end of the epoch
  std::vector<std::int64_t> sample_bytes;  ///< bytes of a sample's field, for each field

  std::mutex mutex;
  std::condition_variable work_to_do, batch_ready;
  std::vector<PrefetchBuffer> buffers;
  std::optional<EpochOrder> order;  ///< no value: the order of the data set
  std::int64_t epoch = -1;
  std::int64_t held = 0;  ///< the step that the caller holds, or will get next
  bool caller_holds = false;
  std::deque<Job> jobs;
  std::int64_t read_samples = 0;  ///< without a cache
  int busy = 0;                   ///< threads that work
  bool stop = false;
  std::vector<std::thread> threads;
};

Loader::Impl::Impl(const Dataset& dataset_, const LoaderOptions& options_)
    : dataset(dataset_), options(options_), coded(options_.decoding.coded(dataset_)) {
  const auto require = [](bool ok, const char* what, std::int64_t found, const char* expected) {
    if (!ok) refuse("The {} is {}. Expected {}", what, found, expected);
  };
  require(options.batch >= 1, "batch size", options.batch, "at least 1 sample per rank");
  require(options.threads.count >= 1, "number of decoding threads", options.threads.count, "at least 1");
  require(options.threads.prefetch >= 1, "number of batches decoded ahead", options.threads.prefetch, "at least 1");
  KEELSON_EXPECT(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks);
  if (options.decoding.transform) options.decoding.transform->check(dataset);
  steps = steps_from(0);
  for (const Field& f : options.decoding.fields_of(dataset)) sample_bytes.push_back(f.bytes());
  if (coded) {
    const Shape& decoded = dataset.fields()[coded->field].shape;
    sample_bytes[coded->field] =
        decoded.elements() / decoded[0] * coded->stored_channels * static_cast<std::int64_t>(sizeof(std::uint16_t));
  }

  if (options.cache.enabled()) cache = std::make_unique<SampleCache>(dataset, options.cache, options.peers);
  KEELSON_EXPECT(!cache || cache->samples().ranks == options.ranks);
  // With an exchange one more: a sample is read, then sent, then decoded.
  buffers.resize(static_cast<std::size_t>(options.threads.prefetch) + (exchanges() ? 2 : 1));
  for (PrefetchBuffer& buffer : buffers) {
    buffer.weight.resize(static_cast<std::size_t>(options.batch));
    buffer.indices.resize(static_cast<std::size_t>(options.batch));
    for (std::int64_t bytes : sample_bytes) {
      const auto all = static_cast<std::size_t>(bytes * options.batch);
      buffer.memory.push_back(options.decoding.allocate ? options.decoding.allocate(all) : allocate(all));
      buffer.batch.fields.push_back(buffer.memory.back().get());
    }
    buffer.batch.weight = buffer.weight.data();
    if (coded) {
      buffer.voxels.resize(static_cast<std::size_t>(options.batch));
      buffer.batch.coded = coded;
      buffer.batch.voxels = buffer.voxels.data();
    }
    buffer.batch.indices = buffer.indices.data();
    buffer.batch.sample_offset = options.rank * options.batch;
    if (exchanges()) buffer.exchange = std::make_unique<detail::SampleExchange>(*options.peers, *cache);
  }
  try {
    for (int i = 0; i < options.threads.count; ++i)
      threads.push_back(start_background_thread("decoder", [this] { work(); }, options.threads.cpus));
  } catch (const std::system_error& e) {
    const auto started = threads.size();
    end_threads();
    fail(
        "only {} of {} decoding threads can be started ({}); give fewer --loader-threads, or raise the limit on "
        "processes (ulimit -u) or on memory",
        started, options.threads.count, e.code().message());
  }
}

/// The other ranks may still wait for samples of this one. While an exception passes, they may have stopped.
Loader::Impl::~Impl() {
  if (std::uncaught_exceptions() == 0) try {
      std::unique_lock lock(mutex);
      abandon_epoch(lock);
    } catch (const Error&) {  // ranks are lost
    }
  end_threads();
}

void Loader::Impl::end_threads() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  work_to_do.notify_all();
  for (auto& t : threads) t.join();
}

/// The samples of this rank, of the global batch that begins at `first` in the epoch's order. Begins the messages.
std::vector<std::int64_t> Loader::Impl::own_samples(PrefetchBuffer& buffer, std::int64_t first,
                                                    const GlobalBatch& global) {
  const auto sample_at = [&](std::int64_t place) { return order ? (*order)[first + place] : first + place; };
  std::vector<std::int64_t> samples;
  if (!exchanges()) {
    for (std::int64_t i = 0; i < global.count_of(options.rank); ++i)
      samples.push_back(sample_at(options.rank * options.batch + i));
    return samples;
  }
  const auto shares = deal_samples(global, cache->samples(), options.keep_places, sample_at);
  buffer.exchange->begin(shares);
  for (const BatchSample& s : shares[static_cast<std::size_t>(options.rank)]) samples.push_back(s.sample);
  return samples;
}

/// Sets the samples of step `step`, whose buffer must be free. Called with the mutex held.
void Loader::Impl::prepare(std::int64_t step) {
  PrefetchBuffer& buffer = buffer_of(step);
  if (buffer.exchange) buffer.exchange->end();
  const std::int64_t first = first_sample + step * options.ranks * options.batch;
  const GlobalBatch global{std::min(dataset.size() - first, options.ranks * options.batch), options.batch};
  const auto samples = own_samples(buffer, first, global);
  Batch& b = buffer.batch;
  b.global_count = global.count;
  b.count = std::ssize(samples);
  std::ranges::copy(samples, buffer.indices.begin());
  for (std::int64_t i = 0; i < options.batch; ++i) {
    buffer.weight[i] = i < b.count ? 1.0f : 0.0f;
    if (coded && i >= b.count) buffer.voxels[i] = {};
  }
  for (std::size_t f = 0; f < sample_bytes.size(); ++f) {
    const std::int64_t used = b.count * sample_bytes[f], all = options.batch * sample_bytes[f];
    std::memset(buffer.field(f) + used, 0, static_cast<std::size_t>(all - used));
  }
  buffer.open = b.count;
  buffer.error = nullptr;
  for (std::size_t i = 0; buffer.exchange && i < buffer.exchange->sends(); ++i)
    if (buffer.exchange->needs_reading(i)) jobs.push_back({Job::Kind::send, &buffer, static_cast<std::int64_t>(i)});
  for (std::int64_t i = 0; i < b.count; ++i)
    if (!buffer.exchange || !buffer.exchange->receives(static_cast<std::size_t>(i)))
      jobs.push_back({Job::Kind::decode, &buffer, i});
}

/// `received`: the sample in its stored form; null: read here.
void Loader::Impl::decode(PrefetchBuffer& buffer, std::int64_t sample, const std::byte* received) {
  thread_local std::vector<void*> dst;
  dst.resize(sample_bytes.size());
  for (std::size_t f = 0; f < dst.size(); ++f) dst[f] = buffer.field(f) + sample * sample_bytes[f];
  const std::int64_t index = buffer.indices[static_cast<std::size_t>(sample)];
  const SampleId id{options.seed, epoch, index};
  const SampleTransform* const transform = options.decoding.transform.get();
  auto* const voxels = coded ? &buffer.voxels[static_cast<std::size_t>(sample)] : nullptr;
  if (cache || received) {
    thread_local std::vector<std::byte> scratch;
    if (!received) scratch.resize(static_cast<std::size_t>(cache->bytes()));
    const std::byte* const stored = received ? received : cache->read(index, scratch.data());
    if (coded)
      *voxels = dataset.decode_to_codes(id, transform, stored, dst.data());
    else
      dataset.decode(id, transform, options.decoding.rows, stored, dst.data());
  } else if (coded) {
    *voxels = dataset.read_codes(id, transform, dst.data());
  } else if (!options.decoding.rows.empty()) {
    dataset.read_rows(id, transform, options.decoding.rows, dst.data());
  } else if (transform) {
    dataset.read_transformed(id, *transform, dst.data());
  } else {
    dataset.read(index, dst.data());
  }
}

void Loader::Impl::do_job(const Job& job) {
  if (job.kind == Job::Kind::send) return job.buffer->exchange->read(static_cast<std::size_t>(job.sample));
  const TraceSpan span("decode a sample", "input");
  const bool came = job.kind == Job::Kind::decode_received;
  decode(*job.buffer, job.sample,
         came ? job.buffer->exchange->received(static_cast<std::size_t>(job.sample)) : nullptr);
}

void Loader::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    work_to_do.wait(lock, [&] { return stop || !jobs.empty(); });
    if (stop) return;
    const Job job = jobs.front();
    jobs.pop_front();
    ++busy;
    lock.unlock();
    std::exception_ptr error;
    try {
      do_job(job);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy;
    PrefetchBuffer& buffer = *job.buffer;
    const std::int64_t place = job.kind == Job::Kind::send ? -1 : job.sample;  // this rank's own reasons first
    if (error && (!buffer.error || place < buffer.error_sample)) {
      buffer.error = std::move(error);
      buffer.error_sample = place;
    }
    error = nullptr;
    if (job.kind != Job::Kind::send) {
      --buffer.open;
      read_samples += cache ? 0 : 1;
    }
    if (buffer.open == 0 || stop || busy == 0) batch_ready.notify_all();
  }
}

/// Lets messages advance, and gives samples that have come to the threads. Called with the mutex held, which is free
/// meanwhile.
void Loader::Impl::advance_exchange(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::vector<bool> blocked(static_cast<std::size_t>(options.ranks));
  std::vector<Job> come;
  for (std::int64_t step = held; step < last_prepared(); ++step) {
    PrefetchBuffer& buffer = buffer_of(step);
    buffer.exchange->advance(blocked, [&](std::size_t position) {
      come.push_back({Job::Kind::decode_received, &buffer, static_cast<std::int64_t>(position)});
    });
  }
  lock.lock();
  jobs.insert(jobs.end(), come.begin(), come.end());
  if (!come.empty()) work_to_do.notify_all();
}

/// Waits until the step of the buffer is decoded, and all its samples for other ranks are on their way: these ranks
/// wait for them in the same step.
void Loader::Impl::wait_for(PrefetchBuffer& buffer, std::unique_lock<std::mutex>& lock) {
  if (!buffer.exchange) return batch_ready.wait(lock, [&] { return buffer.open == 0; });
  for (;;) {
    advance_exchange(lock);
    const bool sent = buffer.exchange->all_started();
    if (sent && buffer.open == 0) return;
    if (sent && jobs.empty() && busy == 0) {  // what is open comes from other ranks; the watchdog reports a long wait
      lock.unlock();
      const auto arrived = [&](std::size_t position) {
        const std::lock_guard guard(mutex);
        jobs.push_back({Job::Kind::decode_received, &buffer, static_cast<std::int64_t>(position)});
      };
      buffer.exchange->wait_for_one(arrived);
      lock.lock();
      work_to_do.notify_all();
      continue;
    }
    batch_ready.wait_for(lock, std::chrono::microseconds(100));
  }
}

/// Decodes nothing more. What this rank sends, and what is sent to it, still travels.
void Loader::Impl::abandon_epoch(std::unique_lock<std::mutex>& lock) {
  std::erase_if(jobs, [](const Job& j) { return j.kind != Job::Kind::send; });
  work_to_do.notify_all();
  batch_ready.wait(lock, [&] { return busy == 0 && jobs.empty(); });
  if (!exchanges()) return;
  std::vector<bool> blocked(static_cast<std::size_t>(options.ranks));
  for (std::int64_t step = held; step < last_prepared(); ++step)
    buffer_of(step).exchange->advance(blocked, [](std::size_t) {});
  for (PrefetchBuffer& buffer : buffers) buffer.exchange->end();
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options) : impl_(new Impl(dataset, options)) {}

Loader::~Loader() = default;

const CodedField* Loader::coded() const { return impl_->coded; }

std::int64_t Loader::sample_bytes(std::size_t field) const { return impl_->sample_bytes.at(field); }

std::int64_t Loader::steps_per_epoch() const { return impl_->steps_from(0); }

SampleCounts Loader::counts() const {
  Impl& d = *impl_;
  const std::lock_guard lock(d.mutex);
  if (!d.cache) return {.read = {.files = d.read_samples}};
  SampleCounts counts{.read = d.cache->counts()};
  for (const auto& buffer : d.buffers) {
    if (!buffer.exchange) continue;
    counts.received += buffer.exchange->received();
    counts.sent += buffer.exchange->sent();
  }
  return counts;
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_sample) {
  Impl& d = *impl_;
  KEELSON_EXPECT(epoch >= 0 && first_sample >= 0);
  std::unique_lock lock(d.mutex);
  d.abandon_epoch(lock);
  d.epoch = epoch;
  if (d.options.shuffle) d.order.emplace(d.dataset.size(), d.options.seed, epoch);
  d.first_sample = std::min(first_sample, d.dataset.size());
  d.steps = d.steps_from(d.first_sample);
  d.held = 0;
  d.caller_holds = false;
  for (std::int64_t step = 0; step < d.last_prepared(); ++step) d.prepare(step);
  d.work_to_do.notify_all();
}

const Batch* Loader::next() {
  Impl& d = *impl_;
  const TraceSpan span("input wait", "input");
  std::unique_lock lock(d.mutex);
  KEELSON_EXPECT(d.epoch >= 0);
  if (d.caller_holds) {
    const std::int64_t prepared = d.last_prepared();
    ++d.held;
    d.caller_holds = false;
    if (d.last_prepared() > prepared) d.prepare(prepared);
    d.work_to_do.notify_all();
  }
  if (d.held >= d.steps) return nullptr;
  Impl::PrefetchBuffer& buffer = d.buffer_of(d.held);
  d.wait_for(buffer, lock);
  if (buffer.error) std::rethrow_exception(buffer.error);  // throws again in each call, until another epoch is started
  d.caller_holds = true;
  return &buffer.batch;
}

}  // namespace keelson
