#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>

#include <algorithm>

#include "arrays.hpp"
#include "casters.hpp"
#include "engine/base/error.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

[[noreturn]] void raise_unknown(const NetworkParameters& p, const std::string& name) {
  std::string known;
  for (const auto& parameter : p.values.all()) {
    if (known.size() > 400) {
      known += ", ...";
      break;
    }
    known += (known.empty() ? "" : ", ") + parameter.name;
  }
  const auto text = fmt::format("no parameter is called '{}'. Expected one of: {}", name, known);
  const auto type = nb::module_::import_("keelson._errors").attr("UnknownName");
  PyErr_SetString(type.ptr(), text.c_str());
  throw nb::python_error();
}

Parameter& parameter_of(NetworkParameters& p, const std::string& name) {
  for (auto& parameter : p.values.all())
    if (parameter.name == name) return parameter;
  raise_unknown(p, name);
}

nb::object array_of(const Shape& shape, const std::vector<float>& values) {
  void* data = nullptr;
  nb::object array = new_array(shape, DType::f32, false, &data);
  std::copy(values.begin(), values.end(), static_cast<float*>(data));
  return array;
}

nb::object get(NetworkParameters& p, const std::string& name, int moment) {
  const Parameter& parameter = parameter_of(p, name);
  return array_of(parameter.shape_of(moment), in_turn(p, [&] { return p.values.get(parameter, moment); }));
}

/// Sets a parameter's values. If the parameter has no memory yet, they become its initial values.
void set(NetworkParameters& p, const std::string& name, nb::handle given) {
  Parameter& parameter = parameter_of(p, name);
  const auto array = host_array(given, name);
  require_dtype(array, DType::f32, name);
  if (!(array.shape == parameter.shape))
    refuse("{} was given an array of the shape {}. Expected {}", name, shape_text(array.shape),
           shape_text(parameter.shape));
  std::vector<float> values(static_cast<std::size_t>(array.shape.elements()));
  copy_dense(array, -1, false, values.data());
  in_turn(p, [&] {
    if (parameter.value)
      p.values.set(parameter, values);
    else
      parameter.start = std::move(values);
  });
}

nb::object mapping(const char* view) { return nb::module_::import_("collections.abc").attr(view); }

std::vector<std::string> names(const NetworkParameters& p) {
  std::vector<std::string> all;
  for (const auto& parameter : p.values.all()) all.push_back(parameter.name);
  return all;
}

}  // namespace

void bind_parameters(nb::module_& m) {
  nb::class_<NetworkParameters>(
      m, "Parameters",
      "The parameters of a network, by name: a mapping to NumPy arrays (float32).\n\n"
      "p['conv1/weights'] is a copy, and p['conv1/weights'] = array writes the values. All trainers and inferences on\n"
      "these parameters see the same values. The seed determines the initial values.")
      .def(nb::init<std::shared_ptr<Network>, std::shared_ptr<ContextObject>, std::uint64_t>(), nb::arg("graph"),
           nb::arg("context"), nb::arg("seed") = 1)
      .def(
          "__getitem__", [](NetworkParameters& p, const std::string& name) { return get(p, name, -1); },
          nb::arg("name"), nb::sig("def __getitem__(self, name: str) -> numpy.typing.NDArray[numpy.float32]"),
          "A copy of the values. Raises UnknownName, which is a KeyError.")
      .def("__setitem__", &set, nb::arg("name"), nb::arg("values"), "Writes the values: float32, of the same shape.")
      .def("__len__", [](const NetworkParameters& p) { return p.values.all().size(); })
      .def("__contains__",
           [](const NetworkParameters& p, const std::string& name) { return p.values.find(name) != nullptr; })
      .def("__contains__", [](const NetworkParameters&, nb::handle) { return false; })
      .def("__iter__", [](const NetworkParameters& p) { return nb::iter(nb::cast(names(p))); })
      .def(
          "keys", [](nb::handle self) { return mapping("KeysView")(self); },
          nb::sig("def keys(self) -> collections.abc.KeysView[str]"), "Names, in the network's order.")
      .def(
          "values", [](nb::handle self) { return mapping("ValuesView")(self); },
          nb::sig("def values(self) -> collections.abc.ValuesView[numpy.typing.NDArray[numpy.float32]]"), "Copies.")
      .def(
          "items", [](nb::handle self) { return mapping("ItemsView")(self); },
          nb::sig("def items(self) -> collections.abc.ItemsView[str, numpy.typing.NDArray[numpy.float32]]"),
          "Names and copies.")
      .def(
          "get",
          [](NetworkParameters& p, const std::string& name, nb::object otherwise) {
            return p.values.find(name) ? get(p, name, -1) : otherwise;
          },
          nb::arg("name"), nb::arg("default") = nb::none(),
          nb::sig("def get(self, name: str, default=None) -> numpy.typing.NDArray[numpy.float32] | typing.Any"),
          "A copy of the values, or `default` if no parameter has this name.")
      .def(
          "state",
          [](NetworkParameters& p, const std::string& name) {
            std::vector<nb::object> arrays;
            const Parameter& parameter = parameter_of(p, name);
            const auto moments = in_turn(p, [&] { return parameter.moments.size(); });
            for (std::size_t i = 0; i < moments; ++i) arrays.push_back(get(p, name, static_cast<int>(i)));
            return arrays;
          },
          nb::arg("name"), nb::sig("def state(self, name: str) -> list[numpy.typing.NDArray[numpy.float32]]"),
          "Copies of the optimizer's arrays for a parameter; empty before the first trainer.")
      .def(
          "view",
          [](nb::handle self, const std::string& name) {
            auto& p = nb::cast<NetworkParameters&>(self);
            const Parameter& parameter = parameter_of(p, name);
            const Tensor value = in_turn(p, [&] { return parameter.value; });
            if (!value)
              refuse("{} has no memory before the first trainer or inference on these parameters: make one first",
                     name);
            return view(value, p.device->get().device().shares_host_memory(), self, name);
          },
          nb::arg("name"),
          "The values without a copy: a NumPy array, or on a GPU an object with __dlpack__. It keeps the "
          "parameters\n"
          "alive, and changes with each step. Raises InputError if only the backend can read the memory.")
      .def(
          "save", &save_parameters, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
          "Writes the values into a file, which is a checkpoint without optimizer: load(), keelson.Checkpoint and the\n"
          "programs read it. Collective.")
      .def("load", &load_parameters, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
           "Reads the values of such a file, or of any checkpoint (keelson.Checkpoint). Raises InputError, naming the "
           "first\n"
           "parameter that differs, if the file is of another network. Collective.")
      .def_prop_ro(
          "graph", [](const NetworkParameters& p) { return p.network; }, "The graph.")
      .def_prop_ro(
          "context", [](const NetworkParameters& p) { return p.device; }, "The context in whose memory the arrays lie.")
      .def_prop_ro(
          "seed", [](const NetworkParameters& p) { return p.values.seed(); }, "Seed of the initial values.")
      .def_prop_ro(
          "count", [](const NetworkParameters& p) { return p.values.count(); },
          "Number of elements of all parameters and statistics together.")
      .def("__repr__", [](const NetworkParameters& p) {
        return fmt::format("<keelson.Parameters: {} arrays, {} elements>", p.values.all().size(), p.values.count());
      });
}

}  // namespace keelson::python
