#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "trainer.hpp"

namespace keelson::python {
namespace {

constexpr const char* method_names[] = {"on_start", "on_epoch_start", "on_step",           "on_validation_start",
                                        "on_epoch", "on_checkpoint",  "on_network_change", "on_stop"};
/// Begins the names of the history's lists in RunState::observed.
constexpr std::string_view history_entry = "history.";
/// Stands in checkpoints for a number that is not finite.
constexpr double not_finite = std::numeric_limits<double>::max();

}  // namespace

Callbacks::Callbacks(const std::vector<nb::object>& objects, nb::handle trainer, NetworkParameters& parameters,
                     std::vector<std::shared_ptr<Metric>> metrics)
    : trainer_(trainer), parameters_(parameters), metrics_(std::move(metrics)) {
  static_assert(std::size(method_names) == events);
  nb::list larger;
  for (const auto& m : metrics_)
    if (m->higher_is_better()) larger.append(m->name());
  history_ = nb::module_::import_("keelson._history").attr("History")(larger);
  for (const auto& object : objects)
    if (!add(object))
      refuse(
          "the callback {} has no method that the trainer calls. Expected one of on_start, on_epoch_start, on_step, "
          "on_validation_start, "
          "on_epoch, on_checkpoint, on_network_change and on_stop (see keelson.Callback)",
          nb::repr(object).c_str());
}

bool Callbacks::add(nb::handle object) {
  bool any = false;
  for (int e = 0; e < events; ++e) {
    if (!nb::hasattr(object, method_names[e])) continue;
    methods_[e].push_back(object.attr(method_names[e]));
    any = true;
  }
  return any;
}

Callbacks::With::With(Callbacks& callbacks, nb::handle object) : callbacks_(callbacks) {
  const nb::gil_scoped_acquire acquire;
  for (const auto& methods : callbacks.methods_) before_.push_back(methods.size());
  if (!object.is_none()) callbacks.add(object);
}

Callbacks::With::~With() {
  const nb::gil_scoped_acquire acquire;
  for (std::size_t e = 0; e < before_.size(); ++e) callbacks_.methods_[e].resize(before_[e]);
}

void Callbacks::restore_history(const RunState& state) {
  const nb::gil_scoped_acquire acquire;
  nb::dict stored;
  for (const auto& [name, values] : state.observed) {
    if (!name.starts_with(history_entry)) continue;
    nb::list column;
    for (const double v : values) column.append(v == not_finite ? std::numeric_limits<double>::quiet_NaN() : v);
    stored[name.substr(history_entry.size()).c_str()] = column;
  }
  history_.attr("_restore")(stored);
}

void Callbacks::before_checkpoint(RunState& state) {
  std::erase_if(state.observed, [](const auto& entry) { return entry.first.starts_with(history_entry); });
  {
    const nb::gil_scoped_acquire acquire;
    std::map<std::string, std::vector<double>> columns;
    while (!signals_.call(Signals::Kept::interrupts,
                          [&] { columns = nb::cast<decltype(columns)>(history_.attr("_stored")()); })) {
    }
    for (const auto& [name, column] : columns)
      if (!column.empty()) state.observed[std::string(history_entry) + name] = column;
  }
  Communicator* const ranks = parameters_.device->communicator();
  for (auto& [name, column] : state.observed) {
    if (!name.starts_with(history_entry)) continue;
    if (ranks && ranks->size() > 1)  // seconds differ between ranks
      ranks->on_host().broadcast(column.data(), column.size() * sizeof(double), 0);
    for (double& v : column)
      if (!std::isfinite(v)) v = not_finite;
  }
}

template <class Keep, class... Arguments>
void Callbacks::call_keeping(Event event, const Keep& keep, const Arguments&... arguments) {
  {
    const Turns::Pause pause(parameters_.turns);  // events never come within a step, so others may use the parameters
    const nb::gil_scoped_acquire acquire;
    while (!signals_.call(Signals::Kept::interrupts, keep)) {
    }
    for (const auto& method : methods_[event])
      signals_.call(Signals::Kept::interrupts, [&] { method(trainer_, nb::cast(arguments)...); });
  }
  if (event != step || parameters_.computed != trainer_of_steps_)
    parameters_.computed = nullptr;  // the next step overwrites the results of inferences
}

template <class... Arguments>
void Callbacks::call(Event event, const Arguments&... arguments) {
  parameters_.computed = event == step ? trainer_of_steps_ : nullptr;
  if (!methods_[event].empty()) return call_keeping(event, [] {}, arguments...);
  if (event == step) const Turns::Pause pause(parameters_.turns);
  if (parameters_.computed != trainer_of_steps_) parameters_.computed = nullptr;
}

void Callbacks::on_start(const RunState&, const std::filesystem::path& resumed_from) {
  call_keeping(start, [this] { history_.attr("reason") = nb::none(); }, resumed_from.string());
}
void Callbacks::on_epoch_start(const RunState&) { call(epoch_start); }
void Callbacks::on_step(const RunState&, const StepRecord& record) { call(step, record); }
void Callbacks::on_validation_start(const RunState&) { call(validation_start); }
void Callbacks::on_epoch(const RunState&, const EpochRecord& record, const Evaluation*) {
  const auto result = epoch_result(record, metrics_);
  call_keeping(epoch, [&] { history_.attr("_append")(result); }, result);
}
void Callbacks::on_checkpoint(const RunState&, const std::filesystem::path& path, bool best) {
  call(checkpoint, path.string(), best);
}
void Callbacks::on_set_aside(const RunState& state, const std::filesystem::path& folder) {
  const nb::gil_scoped_acquire acquire;
  const auto text =
      fmt::format("checkpoints that do not lead to step {} were moved to {}", state.step, folder.string());
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw nb::python_error();
}
void Callbacks::on_network_change(const RunState&, const Graph& graph, const std::string& text) {
  parameters_.follow(graph);
  call(network_change, text);
}
void Callbacks::on_stop(const RunState&, StopReason reason) {
  const auto text = to_string(reason);
  call_keeping(stop, [&] { history_.attr("reason") = text; }, text);
}

}  // namespace keelson::python
