#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "blueprint.hpp"
#include "data.hpp"
#include "engine/train/apoptosis.hpp"
#include "engine/train/rate_range.hpp"
#include "engine/train/trainer.hpp"
#include "objects.hpp"
#include "records.hpp"
#include "report.hpp"
#include "signals.hpp"

namespace keelson::python {

/// Calls the methods of keelson.Callback that Python objects have, and collects the results of epochs.
class Callbacks final : public TrainObserver {
 public:
  /// `trainer`: the Python object, which is the first argument of each call. `parameters`: other calls may use them
  /// while a callback runs, and between steps. Both must outlive this object. `metrics`: those of validations.
  Callbacks(const std::vector<nb::object>& objects, nb::handle trainer, NetworkParameters& parameters,
            std::vector<std::shared_ptr<Metric>> metrics);
  /// KeyboardInterrupt of a method, and of the history's: other exceptions of methods end the training at once.
  Signals& signals() { return signals_; }
  const nb::object& history() const { return history_; }  ///< a keelson.History
  /// The history is the one that a checkpoint has stored. Called without the GIL.
  void restore_history(const RunState& state);

  /// While one lives, the methods of another object are called, too. Made and destroyed without the GIL.
  class With {
   public:
    With(Callbacks& callbacks, nb::handle object);
    ~With();
    With(const With&) = delete;

   private:
    Callbacks& callbacks_;
    std::vector<std::size_t> before_;  ///< numbers of methods
  };

  void on_start(const RunState& state, const std::filesystem::path& resumed_from) override;
  void on_epoch_start(const RunState& state) override;
  void on_step(const RunState& state, const StepRecord& step) override;
  void on_validation_start(const RunState& state) override;
  void on_epoch(const RunState& state, const EpochRecord& epoch, const Evaluation* validation) override;
  void on_checkpoint(const RunState& state, const std::filesystem::path& path, bool best) override;
  /// Issues a Python warning (UserWarning).
  void on_set_aside(const RunState& state, const std::filesystem::path& folder) override;
  void on_network_change(const RunState& state, const Graph& graph, const std::string& text) override;
  void on_stop(const RunState& state, StopReason reason) override;
  /// Puts the history into the checkpoint. Collective.
  void before_checkpoint(RunState& state) override;
  /// After a step, NetworkParameters::computed is this trainer until something else is computed.
  void mark_steps(const void* trainer) { trainer_of_steps_ = trainer; }

 private:
  enum Event { start, epoch_start, step, validation_start, epoch, checkpoint, network_change, stop, events };
  bool add(nb::handle object);  ///< false: the object has none of the methods
  /// `keep`: called with the GIL, before the methods; again if an interrupt has ended it early.
  template <class Keep, class... Arguments>
  void call_keeping(Event event, const Keep& keep, const Arguments&... arguments);
  template <class... Arguments>
  void call(Event event, const Arguments&... arguments);

  nb::handle trainer_;
  NetworkParameters& parameters_;
  std::vector<std::shared_ptr<Metric>> metrics_;
  nb::object history_;
  const void* trainer_of_steps_ = nullptr;
  Signals signals_;
  std::vector<nb::object> methods_[events];
};

/// How the network of a training changes.
struct NetworkChanges {
  std::optional<ApoptosisOptions> apoptosis;  ///< none: it keeps its units
  std::optional<Blueprint> growth;            ///< none: it does not grow
  nb::object function;                        ///< of Python, which returns changes; invalid: none
};

/// A Trainer with the objects that it refers to. All functions except step() are called without the GIL. Only one call
/// at a time trains. Meanwhile, other calls may read the trainer, and compute with its parameters, between two steps.
class TrainerObject final : public Closable {
 public:
  /// Called without the GIL. `report`: folder; empty: no report. Takes the callbacks over, unless it throws, since
  /// callbacks can only be destroyed with the GIL.
  TrainerObject(std::shared_ptr<NetworkParameters> parameters, std::shared_ptr<Dataset> training,
                std::shared_ptr<Dataset> validation, TrainerOptions options, const NetworkChanges& changes,
                const std::filesystem::path& report, std::unique_ptr<Callbacks>& callbacks);
  ~TrainerObject() override;
  /// Waits for a running call to end. Throws Error if a callback of that call calls close().
  void close() override;

  /// Calls `work` with the trainer, between two steps, and returns its result. Throws Error after close().
  template <class Work>
  auto look(const Work& work) {
    const Turn turn(*parameters_);
    return work(std::as_const(get()));
  }
  void wait();  ///< until all steps are done and the last checkpoint is written
  /// Makes all steps, validations and checkpoints, as Trainer::run(). Raises KeyboardInterrupt if an interrupt ended
  /// training. `progress`: another callback; None: none.
  void run(nb::handle progress);
  const nb::object& history() const { return callbacks_->history(); }  ///< a keelson.History
  const std::shared_ptr<NetworkParameters>& parameters() const { return parameters_; }
  std::int64_t epochs() const { return epochs_; }
  void stop();  ///< Trainer::stop()
  /// Trainer::set_learning_rate(). A callback may call it; another thread waits for the end of run().
  void set_learning_rate(double rate);
  /// Makes the next step, after the validation and the checkpoint that are due after the previous step. None at the
  /// end.
  std::optional<StepRecord> next();
  /// Makes a step on the caller's arrays, by field. Called with the GIL.
  StepRecord step(const nb::dict& arrays);
  EpochResult end_epoch();
  Evaluated validate();
  void save(bool best);
  /// Gradients of the latest step, before the optimizer, by parameter. Throws InputError where they are not whole, or
  /// not there any more.
  std::map<std::string, std::vector<float>> gradients();
  void resume(const std::string& path);
  /// find_rates() for the present network. Writes a page to this path on the first rank; empty: none.
  RateRange lr_range(const RateRangeOptions& options, const std::filesystem::path& page);

 private:
  /// Makes the parameters those of this network, anew, until the guard ends without keep().
  class NewParameters;
  /// The guard that each call that trains holds.
  class Call {
   public:
    explicit Call(TrainerObject& t)
        : lock_((t.parameters_->turns.require_not_awaited(), t.calls_)),
          turn_(*t.parameters_),
          parameters_(*t.parameters_),
          trainer_(&t) {
      parameters_.computed = nullptr;
    }
    ~Call() {
      if (parameters_.computed != trainer_) parameters_.computed = nullptr;  // a trainer's gradients stay
    }
    Call(const Call&) = delete;

   private:
    const std::lock_guard<Turns> lock_;
    const Turn turn_;
    NetworkParameters& parameters_;
    const TrainerObject* trainer_;
  };
  Trainer& get() const;  ///< called in a turn; throws Error after close()
  /// Raises the exception that a signal has led to, or KeyboardInterrupt if another rank got the signal.
  void raise_if_interrupted();
  void finish();
  std::vector<TrainObserver*> observers() const;
  /// Memory of field `f` that contains the `count` samples of this array.
  void* staged(std::size_t f, const HostArray& array, std::int64_t count);

  std::shared_ptr<NetworkParameters> parameters_;
  std::shared_ptr<Network> whole_;  ///< as given
  std::shared_ptr<Network> first_;  ///< with which the training begins
  Turns calls_;                     ///< taken before the parameters' turns
  std::shared_ptr<Dataset> training_, validation_;
  std::vector<std::shared_ptr<Metric>> metrics_;
  std::int64_t batch_, epochs_;
  std::string without_gradients_;  ///< why gradients() refuses; empty: it does not
  std::unique_ptr<Callbacks> callbacks_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Report> report_;  ///< on the first rank, if there is one
  bool step_pending_ = true;        ///< next() has not yet done the work that follows the latest step
  bool ended_ = false;
  std::vector<std::shared_ptr<void>> staging_;  ///< by field
};

/// The training options in the form in which the programs store them, so that the programs can continue a run of
/// Python: "lr", "optimizer" ...
std::map<std::string, std::string> program_config(const TrainerOptions& options);

}  // namespace keelson::python
