#include <fmt/format.h>

#include "trainer.hpp"

namespace keelson::python {

Callbacks::Callbacks(const std::vector<nb::object>& objects, nb::handle trainer, NetworkParameters& parameters)
    : trainer_(trainer), parameters_(parameters) {
  constexpr const char* names[events] = {"on_start", "on_epoch_start", "on_step",           "on_validation_start",
                                         "on_epoch", "on_checkpoint",  "on_network_change", "on_stop"};
  for (const auto& object : objects) {
    bool any = false;
    for (int e = 0; e < events; ++e) {
      if (!nb::hasattr(object, names[e])) continue;
      methods_[e].push_back(object.attr(names[e]));
      any = true;
    }
    if (!any)
      refuse(
          "the callback {} has no method that the trainer calls. Expected one of on_start, on_epoch_start, on_step, "
          "on_validation_start, "
          "on_epoch, on_checkpoint, on_network_change and on_stop (see keelson.Callback)",
          nb::repr(object).c_str());
  }
}

template <class... Arguments>
void Callbacks::call(Event event, const Arguments&... arguments) {
  if (methods_[event].empty() && event != step) return;
  {
    const Turns::Pause pause(parameters_.turns);  // events never come within a step, so others may use the parameters
    if (!methods_[event].empty()) {
      const nb::gil_scoped_acquire acquire;
      for (const auto& method : methods_[event]) method(trainer_, nb::cast(arguments)...);
    }
  }
  parameters_.computed = nullptr;  // the next step overwrites the results of inferences
}

void Callbacks::on_start(const RunState&, const std::filesystem::path& resumed_from) {
  call(start, resumed_from.string());
}
void Callbacks::on_epoch_start(const RunState&) { call(epoch_start); }
void Callbacks::on_step(const RunState&, const StepRecord& record) { call(step, record); }
void Callbacks::on_validation_start(const RunState&) { call(validation_start); }
void Callbacks::on_epoch(const RunState&, const EpochRecord& record, const Evaluation*) { call(epoch, record); }
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
void Callbacks::on_stop(const RunState&, StopReason reason) { call(stop, to_string(reason)); }

}  // namespace keelson::python
