#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "data.hpp"
#include "engine/train/trainer.hpp"
#include "objects.hpp"
#include "records.hpp"

namespace keelson::python {

/// Calls methods of Python objects: those of keelson.Callback that they have.
class Callbacks final : public TrainObserver {
 public:
  /// `trainer`: the Python object, the first argument of each call. `parameters`: others may compute with them while a
  /// callback runs, and between steps. Both outlive this.
  Callbacks(const std::vector<nb::object>& objects, nb::handle trainer, NetworkParameters& parameters);
  void on_start(const RunState& state, const std::filesystem::path& resumed_from) override;
  void on_epoch_start(const RunState& state) override;
  void on_step(const RunState& state, const StepRecord& step) override;
  void on_validation_start(const RunState& state) override;
  void on_epoch(const RunState& state, const EpochRecord& epoch, const Evaluation* validation) override;
  void on_checkpoint(const RunState& state, const std::filesystem::path& path, bool best) override;
  /// Warns in Python's way (UserWarning).
  void on_set_aside(const RunState& state, const std::filesystem::path& folder) override;
  void on_stop(const RunState& state, StopReason reason) override;

 private:
  enum Event { start, epoch_start, step, validation_start, epoch, checkpoint, stop, events };
  template <class... Arguments>
  void call(Event event, const Arguments&... arguments);

  nb::handle trainer_;
  NetworkParameters& parameters_;
  std::vector<nb::object> methods_[events];
};

/// A Trainer with what it refers to. All but step() are called without Python's lock. One call at a time trains; while
/// it does, others may look at the trainer, and compute with its parameters, between two steps.
class TrainerObject final : public Closable {
 public:
  /// Without Python's lock. Takes the callbacks over, unless it throws: they can only be destroyed with that lock.
  TrainerObject(std::shared_ptr<NetworkParameters> parameters, std::shared_ptr<Dataset> training,
                std::shared_ptr<Dataset> validation, TrainerOptions options, std::unique_ptr<Callbacks>& callbacks);
  ~TrainerObject() override;
  /// Waits for a call under way. Throws Error where that call, by a callback, is what closes.
  void close() override;

  /// What `work` makes of the trainer, between two steps. Throws Error after close().
  template <class Work>
  auto look(const Work& work) {
    const Turn turn(*parameters_);
    return work(std::as_const(get()));
  }
  void wait();  ///< until all steps are done and the last checkpoint is written
  /// Steps, validations and checkpoints to the end, as Trainer::run(). Raises KeyboardInterrupt where that ended it.
  StopReason run();
  /// The next step, after what run() would do behind the step before: validation and checkpoints. None at the end.
  std::optional<StepRecord> next();
  /// A step on the caller's arrays, by field. With Python's lock.
  StepRecord step(const nb::dict& arrays);
  EpochRecord end_epoch();
  Evaluated validate();
  void save(bool best);
  void resume(const std::string& path);

 private:
  /// What each call that trains holds.
  class Call {
   public:
    explicit Call(TrainerObject& t)
        : lock_((t.parameters_->turns.require_not_awaited(), t.calls_)),
          turn_(*t.parameters_),
          parameters_(*t.parameters_) {
      parameters_.computed = nullptr;
    }
    ~Call() { parameters_.computed = nullptr; }
    Call(const Call&) = delete;

   private:
    const std::lock_guard<Turns> lock_;
    const Turn turn_;
    NetworkParameters& parameters_;
  };
  Trainer& get() const;  ///< in a turn; throws Error after close()
  /// Whether Python has a signal to handle. Called once per step, in the thread that trains.
  bool interrupted();
  /// Raises the exception of a signal's handler, or KeyboardInterrupt if that came to another rank.
  void raise_if_interrupted();
  void finish_step();
  void finish();
  /// Memory of field `f` with the samples of this array, of which there are `count`.
  void* staged(std::size_t f, const HostArray& array, std::int64_t count);

  std::shared_ptr<NetworkParameters> parameters_;
  Turns calls_;  ///< before those of the parameters
  std::shared_ptr<Dataset> training_, validation_;
  std::vector<std::shared_ptr<Metric>> metrics_;
  std::int64_t batch_, epochs_, max_steps_, checkpoint_epochs_, checkpoint_steps_;
  std::optional<nb::python_error> signal_;
  std::unique_ptr<Callbacks> callbacks_;
  std::unique_ptr<Trainer> trainer_;
  bool step_pending_ = true;  ///< next() has not done what follows the latest step
  bool ended_ = false;
  std::int64_t saved_step_ = -1;
  std::vector<std::shared_ptr<void>> staging_;  ///< by field
};

/// What the programs store about how they train, so that they can continue a run of Python: "lr", "optimizer" ...
std::map<std::string, std::string> program_config(const TrainerOptions& options);

}  // namespace keelson::python
