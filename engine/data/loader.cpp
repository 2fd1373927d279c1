#include "engine/data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/trace.hpp"
#include "engine/data/bag.hpp"
#include "engine/data/cache/batch_shares.hpp"
#include "engine/data/cache/detail/sample_exchange.hpp"
#include "engine/data/detail/loader_stages.hpp"
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

LoaderWaits& LoaderWaits::operator+=(const LoaderWaits& o) {
  reading += o.reading;
  decoding += o.decoding;
  ranks += o.ranks;
  return *this;
}

LoaderWaits& LoaderWaits::operator-=(const LoaderWaits& o) {
  reading -= o.reading;
  decoding -= o.decoding;
  ranks -= o.ranks;
  return *this;
}

SampleCounts& SampleCounts::operator+=(const SampleCounts& other) {
  read.memory += other.read.memory;
  read.disk += other.read.disk;
  read.copies += other.read.copies;
  read.files += other.read.files;
  received += other.received;
  sent += other.sent;
  return *this;
}

/// Steps use a ring of buffers: one for the step that the caller holds, and the others for the next steps. Samples go
/// through the stages in the order of the steps. A step is ready when all its samples are decoded. One mutex guards all
/// state. Only the caller's thread calls MPI.
struct Loader::Impl {
  using SampleJob = detail::SampleJob;
  struct PrefetchBuffer {
    Batch batch;
    std::vector<std::shared_ptr<void>> memory;
    char* field(std::size_t f) const { return static_cast<char*>(memory[f].get()); }
    std::vector<float> weight;
    std::vector<std::int64_t> indices;
    std::vector<std::byte> parameters;
    std::int64_t unread = 0;   ///< samples that this rank has not read yet
    std::int64_t awaited = 0;  ///< samples that have not come from other ranks
    std::int64_t open = 0;     ///< samples not yet decoded
    std::int64_t unsent = 0;   ///< samples for other ranks that are not yet read
    std::exception_ptr error;
    std::int64_t error_sample =
        0;  ///< the first failed sample of the batch, so that the reported error does not depend on timing
    std::unique_ptr<detail::SampleExchange> exchange;  ///< with other ranks; null: nothing is sent
  };

  Impl(const Dataset& dataset_, const LoaderOptions& options_);
  ~Impl();
  std::int64_t steps_from(std::int64_t sample) const {
    const std::int64_t global_batch = options.ranks * options.batch;
    return (size() - sample + global_batch - 1) / global_batch;
  }
  std::int64_t size() const { return chosen ? chosen->size() : dataset.size(); }  ///< samples of the epoch
  void make_buffers();
  void make_stages();
  void prepare(std::int64_t step);
  void set_weights(PrefetchBuffer& buffer, std::int64_t first);
  void fill_places_without_sample(PrefetchBuffer& buffer) const;
  std::int64_t sample_at(std::int64_t position) const {
    if (chosen) return chosen->order[static_cast<std::size_t>(position)];
    return order ? (*order)[position] : position;
  }
  std::vector<std::int64_t> own_samples(PrefetchBuffer& buffer, std::int64_t first, const GlobalBatch& global);
  SampleRequest request_of(const SampleJob& job);
  std::vector<void*> place_of(const SampleJob& job) const;
  const std::byte* read(const SampleJob& job, std::byte* room);
  void decode(const SampleJob& job, const std::byte* stored);
  void sample_is_done(const SampleJob& job, std::exception_ptr error);
  void add_received(std::size_t buffer, std::size_t position);
  void abandon_epoch(std::unique_lock<std::mutex>& lock);
  void advance_exchange(std::unique_lock<std::mutex>& lock);
  void wait_for(PrefetchBuffer& buffer, std::unique_lock<std::mutex>& lock);
  double& waits_of_stage(const PrefetchBuffer& buffer);
  bool exchanges() const { return cache && options.peers; }
  std::size_t number_of_buffer(std::int64_t step) const {
    return static_cast<std::size_t>(step % static_cast<std::int64_t>(buffers.size()));
  }
  PrefetchBuffer& buffer_of(std::int64_t step) { return buffers[number_of_buffer(step)]; }
  std::int64_t last_prepared() const { return std::min(steps, held + static_cast<std::int64_t>(buffers.size())); }

  const Dataset& dataset;
  const LoaderOptions options;
  const FieldEncoding* const encoding;     ///< null: the host decodes all fields
  std::unique_ptr<SampleCache> cache;      ///< null: none
  std::int64_t first_sample = 0;           ///< position in the epoch's order at which step 0 begins
  std::int64_t steps = 0;                  ///< steps from there to the end of the epoch
  std::vector<std::int64_t> sample_bytes;  ///< bytes of a sample's field, for each field
  detail::LoaderRoom room;

  mutable std::mutex mutex;
  std::vector<PrefetchBuffer> buffers;
  std::optional<EpochOrder> order;             ///< no value: the order of the data set
  std::shared_ptr<const EpochSamples> chosen;  ///< instead of `order`; null: all samples
  std::int64_t epoch = -1;
  std::int64_t held = 0;  ///< the step that the caller holds, or will get next
  bool caller_holds = false;
  std::int64_t read_samples = 0;  ///< without a cache
  LoaderWaits waits;
  std::optional<detail::LoaderStages> stages;  ///< ends before what its threads use
};

Loader::Impl::Impl(const Dataset& dataset_, const LoaderOptions& options_)
    : dataset(dataset_), options(options_), encoding(options_.decoding.encoding(dataset_)) {
  const auto require = [](std::int64_t found, std::int64_t least, const char* what, const char* expected) {
    if (found < least) refuse("The {} is {}. Expected {}", what, found, expected);
  };
  require(options.batch, 1, "batch size", "at least 1 sample per rank");
  require(options.threads.count, 1, "number of decoding threads", "at least 1");
  require(options.threads.readers, 0, "number of reading threads", "at least 1, or 0 for as many as decoding threads");
  require(options.threads.prefetch, 0, "number of batches decoded ahead", "at least 1, or 0 for a number that fits");
  KEELSON_EXPECT(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks);
  if (options.decoding.transform) options.decoding.transform->check(dataset);
  steps = steps_from(0);
  for (const Field& f : options.decoding.fields_of(dataset)) sample_bytes.push_back(f.bytes());
  if (encoding) sample_bytes[encoding->field()] = encoding->sample_bytes();
  if (options.cache.enabled()) {
    KEELSON_EXPECT(options.peers ? options.peers->size() == options.ranks : options.ranks == 1 || !options.shuffle);
    CachedSamples shares{.samples = dataset.size(), .ranks = options.ranks};
    if (!options.peers) shares.batch = options.batch;
    cache = std::make_unique<SampleCache>(dataset, options.cache, shares, options.rank, options.peers);
    if (!options.peers && cache->samples().kept() == 0) cache.reset();
  }
  make_buffers();
  make_stages();
}

void Loader::Impl::make_buffers() {
  const std::int64_t sample = std::accumulate(sample_bytes.begin(), sample_bytes.end(), std::int64_t{0});
  const bool two_stages = cache || (dataset.has_stored_form() && !encoding && options.decoding.rows.empty());
  // With an exchange one more: a sample is read, then sent, then decoded.
  const int extra = exchanges() ? 2 : 1;
  room = detail::room_for(options.threads, options.batch, sample * options.batch, extra,
                          two_stages ? std::max<std::int64_t>(dataset.stored_bytes(), 1) : 0, cache != nullptr);
  buffers.resize(static_cast<std::size_t>(room.prefetch) + static_cast<std::size_t>(extra));
  for (PrefetchBuffer& buffer : buffers) {
    buffer.weight.resize(static_cast<std::size_t>(options.batch));
    buffer.indices.resize(static_cast<std::size_t>(options.batch));
    for (std::int64_t bytes : sample_bytes) {
      const auto all = static_cast<std::size_t>(bytes * options.batch);
      buffer.memory.push_back(options.decoding.allocate ? options.decoding.allocate(all) : allocate(all));
      buffer.batch.fields.push_back(buffer.memory.back().get());
    }
    buffer.batch.weight = buffer.weight.data();
    if (encoding) {
      buffer.parameters.resize(static_cast<std::size_t>(options.batch * encoding->parameter_bytes()));
      buffer.batch.encoding = encoding;
      buffer.batch.parameters = buffer.parameters.data();
    }
    buffer.batch.indices = buffer.indices.data();
    buffer.batch.sample_offset = options.rank * options.batch;
    if (exchanges()) buffer.exchange = std::make_unique<detail::SampleExchange>(*options.peers, *cache);
  }
}

void Loader::Impl::make_stages() {
  detail::LoaderStages::Work work{
      .read = [this](const SampleJob& job, std::byte* place) { return read(job, place); },
      .decode = [this](const SampleJob& job, const std::byte* stored) { decode(job, stored); },
      .has_read = [this](const SampleJob& job) { --buffers[job.buffer].unread; },
      .is_done = [this](const SampleJob& job, std::exception_ptr error) { sample_is_done(job, std::move(error)); }};
  stages.emplace(mutex, std::move(work), options.threads, room.between, room.between > 0 ? dataset.stored_bytes() : 0);
}

/// The other ranks may still wait for samples of this one. While an exception passes, they may have stopped.
Loader::Impl::~Impl() {
  if (std::uncaught_exceptions() == 0) try {
      std::unique_lock lock(mutex);
      abandon_epoch(lock);
    } catch (const Error&) {  // ranks are lost
    }
  stages.reset();
}

/// The samples of this rank, of the global batch that begins at `first` in the epoch's order. Begins the messages.
std::vector<std::int64_t> Loader::Impl::own_samples(PrefetchBuffer& buffer, std::int64_t first,
                                                    const GlobalBatch& global) {
  std::vector<std::int64_t> samples;
  if (!exchanges()) {
    for (std::int64_t i = 0; i < global.count_of(options.rank); ++i)
      samples.push_back(sample_at(first + options.rank * options.batch + i));
    return samples;
  }
  const auto shares = deal_samples(global, cache->samples(), options.keep_places,
                                   [&](std::int64_t place) { return sample_at(first + place); });
  buffer.exchange->begin(shares);
  for (const BatchSample& s : shares[static_cast<std::size_t>(options.rank)]) samples.push_back(s.sample);
  return samples;
}

/// Of the buffer's samples, which belong to the global batch that begins at `first` in the epoch's order.
void Loader::Impl::set_weights(PrefetchBuffer& buffer, std::int64_t first) {
  Batch& b = buffer.batch;
  for (std::int64_t i = 0; i < options.batch; ++i) buffer.weight[i] = i < b.count ? 1.0f : 0.0f;
  if (chosen) {
    for (std::int64_t i = 0; i < b.count; ++i)
      buffer.weight[i] = chosen->weights[static_cast<std::size_t>(b.indices[i])];
    b.global_weight =
        static_cast<double>(b.global_count) * (static_cast<double>(chosen->represented) / static_cast<double>(size()));
    return;
  }
  b.global_weight = -1;
  if (!options.bag) return;
  const auto weight_of = [&](std::int64_t sample) { return bag_weight(options.seed, sample); };
  for (std::int64_t i = 0; i < b.count; ++i) buffer.weight[i] = static_cast<float>(weight_of(b.indices[i]));
  b.global_weight = 0;
  for (std::int64_t i = 0; i < b.global_count; ++i)
    b.global_weight += static_cast<double>(weight_of(sample_at(first + i)));
}

/// Sets the samples of step `step`, whose buffer must be free. Called with the mutex held.
void Loader::Impl::prepare(std::int64_t step) {
  const std::size_t number = number_of_buffer(step);
  PrefetchBuffer& buffer = buffers[number];
  if (buffer.exchange) buffer.exchange->end();
  const std::int64_t first = first_sample + step * options.ranks * options.batch;
  const GlobalBatch global{std::min(size() - first, options.ranks * options.batch), options.batch};
  const auto samples = own_samples(buffer, first, global);
  Batch& b = buffer.batch;
  b.global_count = global.count;
  b.count = std::ssize(samples);
  std::ranges::copy(samples, buffer.indices.begin());
  set_weights(buffer, first);
  std::ranges::fill(buffer.parameters, std::byte{0});
  for (std::size_t f = 0; f < sample_bytes.size() && b.count == 0; ++f)
    std::memset(buffer.field(f), 0, static_cast<std::size_t>(options.batch * sample_bytes[f]));
  buffer.unread = buffer.open = b.count;
  buffer.awaited = buffer.unsent = 0;
  buffer.error = nullptr;
  for (std::size_t i = 0; buffer.exchange && i < buffer.exchange->sends(); ++i) {
    if (!buffer.exchange->needs_reading(i)) continue;
    ++buffer.unsent;
    stages->add({SampleJob::Kind::send, number, static_cast<std::int64_t>(i)});
  }
  for (std::int64_t i = 0; i < b.count; ++i) {
    if (buffer.exchange && buffer.exchange->receives(static_cast<std::size_t>(i))) {
      --buffer.unread;
      ++buffer.awaited;
    } else {
      stages->add({SampleJob::Kind::own, number, i});
    }
  }
}

/// Gives the places without a sample the first sample of the batch: zeros could make a layer's result infinite, whose
/// product with the gradient 0 is NaN.
void Loader::Impl::fill_places_without_sample(PrefetchBuffer& buffer) const {
  const auto repeat = [&](auto* data, std::int64_t size) {
    const std::int64_t count = buffer.batch.count;
    for (std::int64_t i = count; count > 0 && i < options.batch; ++i) std::copy_n(data, size, data + i * size);
  };
  for (std::size_t f = 0; f < sample_bytes.size(); ++f) repeat(buffer.field(f), sample_bytes[f]);
  if (encoding) repeat(buffer.parameters.data(), encoding->parameter_bytes());
}

SampleRequest Loader::Impl::request_of(const SampleJob& job) {
  PrefetchBuffer& buffer = buffers[job.buffer];
  SampleRequest request{.id = {options.seed, epoch, buffer.indices[static_cast<std::size_t>(job.sample)]},
                        .transform = options.decoding.transform.get(),
                        .rows = options.decoding.rows};
  if (encoding) request.encoding = buffer.parameters.data() + job.sample * encoding->parameter_bytes();
  return request;
}

/// Where the fields of a sample are wanted.
std::vector<void*> Loader::Impl::place_of(const SampleJob& job) const {
  std::vector<void*> place(sample_bytes.size());
  for (std::size_t f = 0; f < place.size(); ++f) place[f] = buffers[job.buffer].field(f) + job.sample * sample_bytes[f];
  return place;
}

const std::byte* Loader::Impl::read(const SampleJob& job, std::byte* place) {
  if (job.kind == SampleJob::Kind::send) {
    buffers[job.buffer].exchange->read(static_cast<std::size_t>(job.sample));
    return nullptr;
  }
  const SampleRequest request = request_of(job);
  if (cache) return cache->read(request.id.index, place);
  if (!place) {
    dataset.read_sample(request, place_of(job).data());
    return nullptr;
  }
  dataset.read_stored(request.id.index, place);
  return place;
}

void Loader::Impl::decode(const SampleJob& job, const std::byte* stored) {
  // Of a sample of another rank, the message says whether it is good.
  if (job.kind == SampleJob::Kind::received)
    stored = buffers[job.buffer].exchange->received(static_cast<std::size_t>(job.sample));
  dataset.decode(request_of(job), stored, place_of(job).data());
}

void Loader::Impl::sample_is_done(const SampleJob& job, std::exception_ptr error) {
  PrefetchBuffer& buffer = buffers[job.buffer];
  const bool sends = job.kind == SampleJob::Kind::send;
  const std::int64_t place = sends ? -1 : job.sample;  // this rank's own reasons first
  if (error && (!buffer.error || place < buffer.error_sample)) {
    buffer.error = std::move(error);
    buffer.error_sample = place;
  }
  --(sends ? buffer.unsent : buffer.open);
  if (sends) return;
  if (room.between == 0) --buffer.unread;
  read_samples += cache ? 0 : 1;
}

/// A sample has come from another rank. Called with the mutex held.
void Loader::Impl::add_received(std::size_t buffer, std::size_t position) {
  --buffers[buffer].awaited;
  stages->add_decoding({SampleJob::Kind::received, buffer, static_cast<std::int64_t>(position)}, nullptr);
}

/// Lets messages advance, and gives samples that have come to the threads. Called with the mutex held, which is free
/// meanwhile.
void Loader::Impl::advance_exchange(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::vector<bool> blocked(static_cast<std::size_t>(options.ranks));
  std::vector<std::pair<std::size_t, std::size_t>> come;  // buffer, position
  for (std::int64_t step = held; step < last_prepared(); ++step)
    buffer_of(step).exchange->advance(
        blocked, [&](std::size_t position) { come.emplace_back(number_of_buffer(step), position); });
  lock.lock();
  for (const auto& [buffer, position] : come) add_received(buffer, position);
  if (!come.empty()) stages->wake();
}

/// What a wait for this batch is counted as now.
double& Loader::Impl::waits_of_stage(const PrefetchBuffer& buffer) {
  if (buffer.unread > 0) return waits.reading;
  return buffer.open > buffer.awaited || buffer.awaited == 0 ? waits.decoding : waits.ranks;
}

/// Waits until the step of the buffer is decoded, and all its samples for other ranks are on their way: these ranks
/// wait for them in the same step.
void Loader::Impl::wait_for(PrefetchBuffer& buffer, std::unique_lock<std::mutex>& lock) {
  using clock = std::chrono::steady_clock;
  auto since = clock::now();
  const auto counted = [&](const auto& wait) {
    double& seconds = waits_of_stage(buffer);
    wait();
    const auto now = clock::now();
    seconds += std::chrono::duration<double>(now - since).count();
    since = now;
  };
  while (!buffer.exchange && buffer.open > 0) counted([&] { stages->changed().wait(lock); });
  while (buffer.exchange) {
    advance_exchange(lock);
    const bool sent = buffer.exchange->all_started();
    if (sent && buffer.open == 0 && buffer.unsent == 0) return;  // a message may have left before its error is known
    if (sent && stages->is_idle()) {  // what is open comes from other ranks; the watchdog reports a long wait
      counted([&] {
        lock.unlock();
        std::optional<std::size_t> come;
        buffer.exchange->wait_for_one([&](std::size_t position) { come = position; });
        lock.lock();
        if (come) add_received(static_cast<std::size_t>(&buffer - buffers.data()), *come);
        stages->wake();
      });
    } else {
      counted([&] { stages->changed().wait_for(lock, std::chrono::microseconds(100)); });
    }
  }
}

/// Decodes nothing more. What this rank sends, and what is sent to it, still travels.
void Loader::Impl::abandon_epoch(std::unique_lock<std::mutex>& lock) {
  stages->abandon(lock);
  if (!exchanges()) return;
  std::vector<bool> blocked(static_cast<std::size_t>(options.ranks));
  for (std::int64_t step = held; step < last_prepared(); ++step)
    buffer_of(step).exchange->advance(blocked, [](std::size_t) {});
  for (PrefetchBuffer& buffer : buffers) buffer.exchange->end();
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options) : impl_(new Impl(dataset, options)) {}

Loader::~Loader() = default;

const FieldEncoding* Loader::encoding() const { return impl_->encoding; }

std::int64_t Loader::sample_bytes(std::size_t field) const { return impl_->sample_bytes.at(field); }

std::int64_t Loader::steps_per_epoch() const {
  const Impl& d = *impl_;
  return (d.dataset.size() + d.options.ranks * d.options.batch - 1) / (d.options.ranks * d.options.batch);
}

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

LoaderStatistics Loader::statistics() const {
  const Impl& d = *impl_;
  const std::lock_guard lock(d.mutex);
  LoaderStatistics s = d.stages->statistics();
  s.prefetch = d.room.prefetch;
  s.memory = d.room.bytes;
  s.waits = d.waits;
  return s;
}

CacheOptions Loader::cache_left() const {
  const CacheOptions& all = impl_->options.cache;
  return impl_->cache ? impl_->cache->left() : CacheOptions{all.memory, all.disk, all.folder};
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_sample, std::shared_ptr<const EpochSamples> samples) {
  Impl& d = *impl_;
  KEELSON_EXPECT(epoch >= 0 && first_sample >= 0);
  KEELSON_EXPECT(!samples || !d.options.bag);
  std::unique_lock lock(d.mutex);
  d.abandon_epoch(lock);
  d.epoch = epoch;
  d.chosen = std::move(samples);
  if (d.options.shuffle) d.order.emplace(d.dataset.size(), d.options.seed, epoch);
  d.first_sample = std::min(first_sample, d.size());
  d.steps = d.steps_from(d.first_sample);
  d.held = 0;
  d.caller_holds = false;
  for (std::int64_t step = 0; step < d.last_prepared(); ++step) d.prepare(step);
  d.stages->wake();
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
    d.stages->wake();
  }
  if (d.held >= d.steps) return nullptr;
  Impl::PrefetchBuffer& buffer = d.buffer_of(d.held);
  d.wait_for(buffer, lock);
  d.stages->count_batch(d.waits, d.held < std::ssize(d.buffers));
  if (buffer.error) std::rethrow_exception(buffer.error);  // throws again in each call, until another epoch is started
  d.fill_places_without_sample(buffer);
  d.caller_holds = true;
  return &buffer.batch;
}

}  // namespace keelson
