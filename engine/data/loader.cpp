#include "engine/data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/base/background_thread.hpp"
#include "engine/base/error.hpp"
#include "engine/base/trace.hpp"
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

/// Steps use a ring of prefetch + 1 buffers: one for the step that the caller holds, and the others for the next steps.
/// Threads take samples one by one in the order of use. A step is ready when all its samples are decoded. One mutex
/// guards all state; no thread holds it while it decodes.
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
  };

  Impl(const Dataset& dataset_, const LoaderOptions& options_);
  ~Impl();
  std::int64_t steps_from(std::int64_t sample) const {
    const std::int64_t global_batch = options.ranks * options.batch;
    return (dataset.size() - sample + global_batch - 1) / global_batch;
  }
  void end_threads();
  void prepare(std::int64_t step);
  void work();
  void decode(PrefetchBuffer& buffer, std::int64_t sample);
  PrefetchBuffer& buffer_of(std::int64_t step) {
    return buffers[static_cast<std::size_t>(step % static_cast<std::int64_t>(buffers.size()))];
  }
  std::int64_t last_prepared() const { return std::min(steps, held + static_cast<std::int64_t>(buffers.size())); }

  const Dataset& dataset;
  const LoaderOptions options;
  const CodedField* const coded;           ///< null: the host decodes all fields
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
  std::int64_t job_step = 0, job_sample = 0;  ///< the next sample to hand out
  int busy = 0;                               ///< threads that decode
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

  buffers.resize(static_cast<std::size_t>(options.threads.prefetch) + 1);
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
  }
  job_step = steps;  // there is no work before an epoch is started
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

Loader::Impl::~Impl() { end_threads(); }

void Loader::Impl::end_threads() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  work_to_do.notify_all();
  for (auto& t : threads) t.join();
}

/// Sets the samples of step `step`, whose buffer must be free. Called with the mutex held.
void Loader::Impl::prepare(std::int64_t step) {
  PrefetchBuffer& buffer = buffer_of(step);
  const std::int64_t size = dataset.size();
  const std::int64_t first = first_sample + step * options.ranks * options.batch,
                     mine = first + options.rank * options.batch;
  Batch& b = buffer.batch;
  b.global_count = std::min(size - first, options.ranks * options.batch);
  b.count = std::clamp<std::int64_t>(size - mine, 0, options.batch);
  for (std::int64_t i = 0; i < options.batch; ++i) {
    buffer.weight[i] = i < b.count ? 1.0f : 0.0f;
    if (coded && i >= b.count) buffer.voxels[i] = {};
    if (i < b.count) buffer.indices[i] = order ? (*order)[mine + i] : mine + i;
  }
  for (std::size_t f = 0; f < sample_bytes.size(); ++f) {
    const std::int64_t used = b.count * sample_bytes[f], all = options.batch * sample_bytes[f];
    std::memset(buffer.field(f) + used, 0, static_cast<std::size_t>(all - used));
  }
  buffer.open = b.count;
  buffer.error = nullptr;
}

void Loader::Impl::decode(PrefetchBuffer& buffer, std::int64_t sample) {
  thread_local std::vector<void*> dst;
  dst.resize(sample_bytes.size());
  for (std::size_t f = 0; f < dst.size(); ++f) dst[f] = buffer.field(f) + sample * sample_bytes[f];
  const std::int64_t index = buffer.indices[static_cast<std::size_t>(sample)];
  const SampleId id{options.seed, epoch, index};
  if (coded)
    buffer.voxels[static_cast<std::size_t>(sample)] =
        dataset.read_codes(id, options.decoding.transform.get(), dst.data());
  else if (!options.decoding.rows.empty())
    dataset.read_rows(id, options.decoding.transform.get(), options.decoding.rows, dst.data());
  else if (options.decoding.transform)
    dataset.read_transformed(id, *options.decoding.transform, dst.data());
  else
    dataset.read(index, dst.data());
}

void Loader::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    work_to_do.wait(lock, [&] { return stop || job_step < last_prepared(); });
    if (stop) return;
    PrefetchBuffer& buffer = buffer_of(job_step);
    if (job_sample == buffer.batch.count) {
      ++job_step;
      job_sample = 0;
      continue;
    }
    const std::int64_t sample = job_sample++;
    ++busy;
    lock.unlock();
    std::exception_ptr error;
    try {
      const TraceSpan span("decode a sample", "input");
      decode(buffer, sample);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy;
    if (error && (!buffer.error || sample < buffer.error_sample)) {
      buffer.error = std::move(error);
      buffer.error_sample = sample;
    }
    error = nullptr;
    if (--buffer.open == 0 || stop || busy == 0) batch_ready.notify_all();
  }
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options) : impl_(new Impl(dataset, options)) {}

Loader::~Loader() = default;

const CodedField* Loader::coded() const { return impl_->coded; }

std::int64_t Loader::sample_bytes(std::size_t field) const { return impl_->sample_bytes.at(field); }

std::int64_t Loader::steps_per_epoch() const { return impl_->steps_from(0); }

void Loader::start_epoch(std::int64_t epoch, std::int64_t first_sample) {
  Impl& d = *impl_;
  KEELSON_EXPECT(epoch >= 0 && first_sample >= 0);
  std::unique_lock lock(d.mutex);
  d.job_step = d.last_prepared();  // threads take no more samples of the abandoned epoch
  d.batch_ready.wait(lock, [&] { return d.busy == 0; });
  d.epoch = epoch;
  if (d.options.shuffle) d.order.emplace(d.dataset.size(), d.options.seed, epoch);
  d.first_sample = std::min(first_sample, d.dataset.size());
  d.steps = d.steps_from(d.first_sample);
  d.held = 0;
  d.caller_holds = false;
  d.job_step = d.held;
  d.job_sample = 0;
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
  d.batch_ready.wait(lock, [&] { return buffer.open == 0; });
  if (buffer.error) std::rethrow_exception(buffer.error);  // throws again in each call, until another epoch is started
  d.caller_holds = true;
  return &buffer.batch;
}

}  // namespace keelson
