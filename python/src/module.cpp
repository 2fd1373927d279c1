#include <nanobind/nanobind.h>

#include <cctype>
#include <string>

#include "engine/base/error.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace {

/// The classes of keelson._errors, which outlive the module.
PyObject *error, *input_error, *out_of_memory, *ranks_lost;

/// A message of the engine, in which options of programs ("--micro-batches") have the names that Python's arguments
/// have
/// ("micro_batches="). Only names between spaces and brackets: not those in a command of a program.
std::string with_python_names(const std::string& message) {
  if (message.find("keelson-") != std::string::npos) return message;
  std::string text;
  for (std::size_t i = 0; i < message.size();) {
    const bool begins = message.compare(i, 2, "--") == 0 && (i == 0 || message[i - 1] == ' ' || message[i - 1] == '(');
    if (!begins || i + 2 == message.size() || std::islower(static_cast<unsigned char>(message[i + 2])) == 0) {
      text += message[i++];
      continue;
    }
    std::string name;
    for (i += 2; i < message.size() && (std::isalnum(static_cast<unsigned char>(message[i])) != 0 || message[i] == '-');
         ++i)
      name += message[i] == '-' ? '_' : message[i];
    text += (name == "lr" ? "learning_rate" : name) + '=';
  }
  return text;
}

/// A message of the engine with NumPy's names of the dtypes: "float32" for the word "f32".
std::string with_numpy_dtypes(std::string text) {
  static const std::pair<std::string_view, std::string_view> names[] = {
      {"f32", "float32"}, {"f64", "float64"}, {"s32", "int32"}, {"f16", "float16"}};
  const auto in_word = [&](std::size_t i) {
    return i < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_' || text[i] == '/');
  };
  for (const auto& [name, numpy] : names)
    for (std::size_t i = text.find(name); i != text.npos; i = text.find(name, i)) {
      const bool is_word = !(i > 0 && in_word(i - 1)) && !in_word(i + name.size());
      if (is_word) text.replace(i, name.size(), numpy);
      i += is_word ? numpy.size() : name.size();
    }
  return text;
}

void translate(const std::exception_ptr& thrown, void*) {
  const auto set = [](PyObject* type, const std::exception& e) {
    PyErr_SetString(type, with_numpy_dtypes(with_python_names(e.what())).c_str());
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const keelson::InputError& e) {
    set(input_error, e);
  } catch (const keelson::OutOfMemory& e) {
    set(out_of_memory, e);
  } catch (const keelson::RanksLost& e) {
    set(ranks_lost, e);
  } catch (const keelson::Error& e) {
    set(error, e);
  }
}

PyObject* error_class(const char* name) { return nb::module_::import_("keelson._errors").attr(name).inc_ref().ptr(); }

/// The text of keelson._calls.one_line(); empty: that failed.
std::string one_line(const char* text) noexcept {
  try {
    return nb::cast<std::string>(nb::module_::import_("keelson._calls").attr("one_line")(text));
  } catch (...) {
    PyErr_Clear();
    return "";
  }
}

}  // namespace

/// What nanobind calls in place of PyErr_SetString (CMakeLists.txt).
extern "C" void keelson_set_error(PyObject* type, const char* text) {
  const std::string copy = text;  // Python's code may call nanobind, which makes its texts in one place
  const std::string line = type == PyExc_TypeError && copy.find("(): incompatible function arguments") != copy.npos
                               ? one_line(copy.c_str())
                               : "";
  PyErr_SetString(type, line.empty() ? copy.c_str() : line.c_str());
}

NB_MODULE(_engine, m) {
  using namespace keelson::python;
  m.doc() = "Keelson's engine. Import keelson instead.";
  // A notebook's variables live until the interpreter ends. They are not a leak.
  nb::set_leak_warnings(false);
  error = error_class("Error");
  input_error = error_class("InputError");
  out_of_memory = error_class("OutOfMemory");
  ranks_lost = error_class("RanksLost");
  nb::register_exception_translator(translate);

  m.attr("version") = KEELSON_VERSION;
  bind_communicator(m);
  bind_context(m);
  bind_var(m);
  bind_graph(m);
  nb::module_ layers = m.def_submodule("layers", "Layers as functions: each appends a node and returns its value.");
  bind_layers(layers);
  bind_losses(layers);
  nb::module_ nets = m.def_submodule("nets", "The networks that are part of Keelson.");
  bind_nets(nets);
  bind_parameters(m);
  nb::module_ optimizers = m.def_submodule("optim", "Optimizers and learning rates.");
  bind_optimizers(optimizers);
  nb::module_ data = m.def_submodule("data", "Data sets, and generators of made-up data.");
  bind_data(data);
  bind_readers(data);
  bind_records(m);
  nb::module_ metrics = m.def_submodule("metrics", "Numbers that measure how good a network is.");
  bind_metrics(metrics);
  bind_checkpoint(m);
  bind_network_change(m);
  bind_trainer(m);
  bind_inference(m);
  bind_onnx(m);
  nb::module_ search = m.def_submodule("search", "Searches for networks: what keelson.search uses.");
  bind_search(search);
  nb::module_ ensembles = m.def_submodule("ensemble", "Scores of several networks: what keelson.Ensemble uses.");
  bind_ensemble(ensembles);
  m.def("_shut_down", &shut_down, nb::arg("exit_code"), nb::arg("message"), nb::call_guard<nb::gil_scoped_release>());
}
