#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "apps/common/blueprint.hpp"
#include "apps/common/report/rate_page.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/grow/deepen.hpp"
#include "network_change.hpp"
#include "trainer.hpp"

namespace keelson::python {

class TrainerObject::NewParameters {
 public:
  NewParameters(NetworkParameters& p, const Graph& graph)
      : parameters_(p),
        network_(p.network),
        values_(std::exchange(p.values, Parameters(graph, p.device->get(), p.values.seed()))) {
    p.follow(graph);
  }
  NewParameters(const NewParameters&) = delete;
  ~NewParameters() {
    if (kept_) return;
    parameters_.network = network_;
    parameters_.values = std::move(values_);
  }
  void keep() { kept_ = true; }

 private:
  NetworkParameters& parameters_;
  std::shared_ptr<Network> network_;
  Parameters values_;
  bool kept_ = false;
};

namespace {

/// Keeps a trainer's object until the end of a block, also if a function that the trainer drops, such as a transform,
/// has the last reference to the trainer.
class KeptAlive {
 public:
  explicit KeptAlive(const TrainerObject& t) {
    const nb::gil_scoped_acquire acquire;
    object_ = nb::find(t);
  }
  ~KeptAlive() {
    const nb::gil_scoped_acquire acquire;
    object_.reset();
  }
  KeptAlive(const KeptAlive&) = delete;

 private:
  nb::object object_;
};

std::string why_no_gradients(const TrainerOptions& o, const Communicator* ranks) {
  if (o.precision == Precision::fp16) return "precision is 'fp16', whose gradients are scaled";
  if (!ranks || ranks->size() == 1) return "";
  if (o.exchange.shards != OptimizerShards::none)
    return fmt::format("shard_optimizer is '{}', and each rank has a part of them", to_string(o.exchange.shards));
  if (o.sync.kind != SyncMode::Kind::synchronous)
    return fmt::format("sync is '{}', and each rank has its own", o.sync.to_string());
  return "";
}

}  // namespace

TrainerObject::TrainerObject(std::shared_ptr<NetworkParameters> parameters, std::shared_ptr<Dataset> training,
                             std::shared_ptr<Dataset> validation, TrainerOptions options, const NetworkChanges& changes,
                             const std::filesystem::path& report, std::unique_ptr<Callbacks>& callbacks)
    : Closable(Stage::work),
      parameters_(std::move(parameters)),
      whole_(parameters_->network),
      training_(read_for(*parameters_, std::move(training))),
      validation_(read_for(*parameters_, std::move(validation))),
      metrics_(options.evaluation.metrics),
      batch_(options.batch),
      epochs_(options.epochs),
      without_gradients_(why_no_gradients(options, parameters_->device->communicator())),
      staging_(training_->fields().size()) {
  const Call call(*this);
  options.interrupted = [&signals = callbacks->signals()] { return signals.interrupted(); };
  Communicator* const ranks = parameters_->device->communicator();
  if (changes.apoptosis)
    options.change_network = Apoptosis(*changes.apoptosis, {.graph = whole_->graph,
                                                            .training = *training_,
                                                            .ranks = ranks,
                                                            .batch = options.batch,
                                                            .epochs = options.epochs,
                                                            .seed = options.seed,
                                                            .precision = options.precision,
                                                            .threads = options.threads});
  if (changes.function.is_valid()) options.change_network = change_of(changes.function, parameters_);
  std::optional<NewParameters> smaller;
  if (changes.growth) {
    const Graph first = app::starting_network(whole_->graph, changes.growth->options, changes.growth->where);
    if (Topology(first).to_text() != Topology(whole_->graph).to_text()) smaller.emplace(*parameters_, first);
    app::let_grow(options, changes.growth->options, whole_->graph, {*training_, validation_.get(), ranks});
  }
  first_ = parameters_->network;
  std::optional<TrainerOptions> shown;
  if (!report.empty()) shown = options;
  trainer_ = std::make_unique<Trainer>(first_->graph, parameters_->values, *training_, validation_.get(), ranks,
                                       std::move(options));
  on_first_rank(ranks, [&] {  // on all ranks, also if only the first one is given a folder
    if (!shown) return;
    report_ = std::make_unique<Report>(
        report, *trainer_,
        report_input(*trainer_, first_->graph, *shown, *training_, parameters_->device->get().describe()));
  });
  // From here on nothing is refused: the caller's parameters change, and callbacks must not end without the GIL.
  if (smaller) smaller->keep();
  callbacks_ = std::move(callbacks);
  callbacks_->mark_steps(this);
  trainer_->observe(observers());
}

std::vector<TrainObserver*> TrainerObject::observers() const {
  std::vector<TrainObserver*> all{callbacks_.get()};
  if (report_) all.push_back(report_.get());
  return all;
}

/// Releases the GIL, since a thread that reads samples may need it before it can end. Takes no turn: no other thread
/// has this object, and the thread that drops it may be in a turn of other parameters.
TrainerObject::~TrainerObject() {
  const nb::gil_scoped_release release;
  report_.reset();
  trainer_.reset();
}

void TrainerObject::close() {
  const KeptAlive self(*this);
  if (calls_.mine())
    fail("this trainer was closed by its own callback. Expected close() after the call that trains has ended");
  const Call call(*this);
  report_.reset();
  trainer_.reset();
}

Trainer& TrainerObject::get() const {
  if (!trainer_) fail("this trainer was closed");
  return *trainer_;
}

void TrainerObject::raise_if_interrupted() {
  if (get().stop_reason() == StopReason::interrupted || callbacks_->signals().raised()) callbacks_->signals().raise();
}

void TrainerObject::run(nb::handle progress) {
  if (calls_.mine()) fail("run() was called by a callback of this trainer. Expected one run() after the other");
  const Call call(*this);
  const Callbacks::With shown(*callbacks_, progress);
  get().run(observers());
  raise_if_interrupted();
}

void TrainerObject::stop() {
  if (parameters_->turns.is_awaited()) return get().stop();  // called by a transform: the trainer waits for its sample
  const Turn turn(*parameters_);
  get().stop();
}

void TrainerObject::set_learning_rate(double rate) {
  parameters_->turns.require_not_awaited();
  const std::lock_guard lock(calls_);
  const Turn turn(*parameters_);
  get().set_learning_rate(rate);
}

void TrainerObject::finish() {
  if (ended_) return;
  ended_ = true;
  Trainer& t = get();
  t.finish();
  if (!t.stop_reason()) return;
  for (TrainObserver* observer : observers()) observer->on_stop(t.state(), *t.stop_reason());
}

std::optional<StepRecord> TrainerObject::next() {
  const Call call(*this);
  Trainer& t = get();
  if (std::exchange(step_pending_, false)) t.after_step();
  if (t.step()) {
    step_pending_ = true;
    return t.last_step();
  }
  finish();
  raise_if_interrupted();
  return std::nullopt;
}

void* TrainerObject::staged(std::size_t f, const HostArray& array, std::int64_t count) {
  const Field& field = training_->fields()[f];
  const bool channels_last = field.shape.rank() >= 3;
  constexpr std::size_t alignment = 64;
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data) % alignment == 0;
  if (count == batch_ && aligned && is_dense(array, channels_last))
    return const_cast<std::byte*>(array.data);  // the step only reads the array
  const auto bytes = static_cast<std::size_t>(field.shape.elements() * batch_) * size_of(field.dtype);
  if (!staging_[f])
    staging_[f] = {::operator new(bytes, std::align_val_t(alignment)),
                   [](void* p) { ::operator delete(p, std::align_val_t(alignment)); }};
  copy_dense(array, -1, channels_last, staging_[f].get());
  const auto sample = bytes / static_cast<std::size_t>(batch_);
  auto* const first = static_cast<std::byte*>(staging_[f].get());
  // as the loader fills the places without a sample
  for (std::int64_t i = count; i < batch_; ++i)
    std::memcpy(first + static_cast<std::size_t>(i) * sample, first, sample);
  return staging_[f].get();
}

StepRecord TrainerObject::step(const nb::dict& arrays) {
  const auto& fields = training_->fields();
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    std::string known;
    bool found = false;
    for (const auto& f : fields) {
      found = found || f.name == name;
      known += (known.empty() ? "" : ", ") + f.name;
    }
    if (!found) refuse("the batch has a field '{}'. Expected {}, as the training data have them", name, known);
  }
  std::vector<HostArray> held;
  for (const auto& f : fields) {
    if (!arrays.contains(f.name.c_str()))
      refuse("the batch has no field '{}', which the training data have. Give {{'{}': array}}, with samples of {}",
             f.name, f.name, shape_text(f.shape));
    auto array = host_array(arrays[f.name.c_str()], f.name);
    require_dtype(array, f.dtype, f.name);
    Shape expected{array.shape.empty() ? 0 : array.shape[0]};
    for (const auto extent : f.shape) expected.push_back(extent);
    const std::int64_t count = expected[0];
    if (!(array.shape == expected) || count < 1 || count > batch_ || (!held.empty() && held[0].shape[0] != count))
      refuse("{} has the shape {}: {}. Expected {} {} of {}{}", f.name, shape_text(array.shape),
             samples_text(array.shape), held.empty() ? "at most" : "as many samples as the other fields have,",
             counted(held.empty() ? batch_ : held[0].shape[0], "sample"), shape_text(f.shape),
             count < 1 && !array.shape.empty() ? ", and at least one" : "");
    held.push_back(std::move(array));
  }
  Batch batch;
  batch.count = batch.global_count = held[0].shape[0];
  const nb::gil_scoped_release release;
  const Call call(*this);
  Trainer& t = get();
  for (std::size_t f = 0; f < fields.size(); ++f) batch.fields.push_back(staged(f, held[f], batch.count));
  if (Communicator* ranks = parameters_->device->communicator()) {
    batch.sample_offset = ranks->rank() * batch_;
    if (ranks->size() > 1) ranks->on_host().allreduce(&batch.global_count, 1, Reduction::sum);
  }
  t.step(batch);
  step_pending_ = true;
  raise_if_interrupted();
  return t.last_step();
}

EpochResult TrainerObject::end_epoch() {
  const Call call(*this);
  step_pending_ = false;
  return epoch_result(get().end_epoch(), metrics_);
}

Evaluated TrainerObject::validate() {
  const Call call(*this);
  const auto evaluation = get().validate();
  return evaluated(evaluation, metrics_);
}

void TrainerObject::wait() {
  const Call call(*this);
  get().wait();
}

std::map<std::string, std::vector<float>> TrainerObject::gradients() {
  if (!without_gradients_.empty()) refuse("there are no gradients to look at, since {}", without_gradients_);
  const Turn turn(*parameters_);
  const Trainer& t = get();
  if (parameters_->computed != this)
    refuse(
        "there are no gradients: they are there after a step, until a validation, an inference or another trainer on "
        "the "
        "same parameters overwrites them. Call gradients() right after trainer.step(), in a loop over the trainer, or "
        "in "
        "on_step() of a callback");
  std::map<std::string, std::vector<float>> all;
  const auto& rows = parameters_->values.all();
  for (const Parameter& p : rows)
    if (t.executor().has_gradient(p.name)) all[p.name] = t.executor().gradient(p.name);
  return all;
}

RateRange TrainerObject::lr_range(const RateRangeOptions& options, const std::filesystem::path& page) {
  if (reads_in_order(*training_))
    refuse(
        "lr_range() with data that can be read in one order alone: it reads samples from the beginning, while the "
        "trainer reads ahead. Give the trainer arrays or files");
  const Call call(*this);
  Trainer& t = get();
  t.wait();  // the search overwrites what steps under way read
  Communicator* const ranks = parameters_->device->communicator();
  const RateRange range =
      find_rates(parameters_->network->graph, parameters_->values, *training_, ranks, t.options(), options);
  if (range.interrupted) callbacks_->signals().raise();
  on_first_rank(ranks, [&] {
    if (!page.empty())
      write_atomically(page, app::render_rates(range, t.options().network + ": learning rates", training_->describe()));
  });
  return range;
}

void TrainerObject::save(bool best) {
  const Call call(*this);
  get().save_checkpoint(best);
}

void TrainerObject::resume(const std::string& path) {
  const Call call(*this);
  Communicator* ranks = parameters_->device->communicator();
  get().resume(CheckpointReader(path, false, ranks ? &ranks->on_host() : nullptr));
  const auto& topology = get().state().topology;
  if (!topology.empty()) parameters_->follow(with_topology(whole_->graph, Topology::parse(topology)));
  callbacks_->restore_history(get().state());
  step_pending_ = true;
  ended_ = false;
}

}  // namespace keelson::python
