#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "apps/common/blueprint.hpp"
#include "engine/base/error.hpp"
#include "engine/grow/deepen.hpp"
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

TrainerObject::TrainerObject(std::shared_ptr<NetworkParameters> parameters, std::shared_ptr<Dataset> training,
                             std::shared_ptr<Dataset> validation, TrainerOptions options, const NetworkChanges& changes,
                             std::unique_ptr<Callbacks>& callbacks)
    : Closable(Stage::work),
      parameters_(std::move(parameters)),
      whole_(parameters_->network),
      training_(read_for(*parameters_, std::move(training))),
      validation_(read_for(*parameters_, std::move(validation))),
      metrics_(options.evaluation.metrics),
      batch_(options.batch),
      staging_(training_->fields().size()) {
  const Call call(*this);
  options.interrupted = [this] { return interrupted(); };
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
  std::optional<NewParameters> smaller;
  if (changes.growth) {
    const Graph first = app::starting_network(whole_->graph, changes.growth->options, changes.growth->where);
    if (Topology(first).to_text() != Topology(whole_->graph).to_text()) smaller.emplace(*parameters_, first);
    app::let_grow(options, changes.growth->options, whole_->graph, {*training_, validation_.get(), ranks});
  }
  first_ = parameters_->network;
  trainer_ = std::make_unique<Trainer>(first_->graph, parameters_->values, *training_, validation_.get(), ranks,
                                       std::move(options));
  if (smaller) smaller->keep();
  callbacks_ = std::move(callbacks);
  trainer_->observe({callbacks_.get()});
}

/// Releases the GIL, since a thread that reads samples may need it before it can end. Takes no turn: no other thread
/// has this object, and the thread that drops it may be in a turn of other parameters.
TrainerObject::~TrainerObject() {
  const nb::gil_scoped_release release;
  trainer_.reset();
}

void TrainerObject::close() {
  if (calls_.mine())
    fail("this trainer was closed by its own callback. Expected close() after the call that trains has ended");
  const Call call(*this);
  trainer_.reset();
}

Trainer& TrainerObject::get() const {
  if (!trainer_) fail("this trainer was closed");
  return *trainer_;
}

bool TrainerObject::interrupted() {
  if (is_ending()) return true;
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) signal_.emplace();
  return signal_.has_value();
}

void TrainerObject::raise_if_interrupted() {
  if (get().stop_reason() != StopReason::interrupted) return;
  const nb::gil_scoped_acquire acquire;
  if (signal_) {
    nb::python_error raised = std::move(*signal_);
    signal_.reset();
    throw raised;
  }
  PyErr_SetString(PyExc_KeyboardInterrupt, "another rank was interrupted");
  throw nb::python_error();
}

StopReason TrainerObject::run() {
  const Call call(*this);
  const auto reason = get().run({callbacks_.get()}).reason;
  raise_if_interrupted();
  return reason;
}

void TrainerObject::finish() {
  if (ended_) return;
  ended_ = true;
  Trainer& t = get();
  t.finish();
  if (t.stop_reason()) callbacks_->on_stop(t.state(), *t.stop_reason());
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
  const auto used = static_cast<std::size_t>(field.shape.elements() * count) * size_of(field.dtype);
  std::memset(static_cast<std::byte*>(staging_[f].get()) + used, 0, bytes - used);
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
      refuse("the batch has no field '{}', which the training data have. Give {{'{}': array of {} x {}}}", f.name,
             f.name, batch_, to_string(f.shape));
    auto array = host_array(arrays[f.name.c_str()], f.name);
    require_dtype(array, f.dtype, f.name);
    Shape expected{array.shape.empty() ? 0 : array.shape[0]};
    for (const auto extent : f.shape) expected.push_back(extent);
    const std::int64_t count = expected[0];
    if (!(array.shape == expected) || count < 1 || count > batch_ || (!held.empty() && held[0].shape[0] != count))
      refuse("{} has the shape {}. Expected {}x{}: the same number of samples in all fields, and at most {}", f.name,
             to_string(array.shape), held.empty() ? batch_ : held[0].shape[0], to_string(f.shape), batch_);
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

EpochRecord TrainerObject::end_epoch() {
  const Call call(*this);
  step_pending_ = false;
  return get().end_epoch();
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
  step_pending_ = true;
  ended_ = false;
}

}  // namespace keelson::python
