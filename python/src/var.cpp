#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/operators.h>

#include "arrays.hpp"
#include "casters.hpp"
#include "engine/layers/layers.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

/// The mean of all elements of a sample: (N, 1).
Var mean_of(Var x) {
  if (x.shape().shape.rank() > 3) x = global_average_pool(x);
  x = flatten(x);
  const std::int64_t elements = x.shape().shape[1];
  if (elements == 1) return x;
  return flatten(average_pool(reshape(x, {1, elements, 1}), {.kernel = {elements, 1}}));
}

std::int64_t elements_of(const Value& v) { return v.var.shape().shape.elements(); }

void bind_sums(nb::class_<Value>& value) {
  value
      .def(
          "__add__", [](const Value& a, const Value& b) { return Value{a.network, a.var + b.var}; }, nb::is_operator(),
          "The sum of two values of one shape, or of a value and a number.")
      .def(
          "__add__", [](const Value& a, float b) { return Value{a.network, scale(a.var, 1, b)}; }, nb::is_operator())
      .def(
          "__radd__", [](const Value& a, float b) { return Value{a.network, scale(a.var, 1, b)}; }, nb::is_operator(),
          "The sum of a number and a value.")
      .def(
          "__sub__", [](const Value& a, const Value& b) { return Value{a.network, a.var - b.var}; }, nb::is_operator(),
          "The difference of two values of one shape, or of a value and a number.")
      .def(
          "__sub__", [](const Value& a, float b) { return Value{a.network, scale(a.var, 1, -b)}; }, nb::is_operator())
      .def(
          "__rsub__", [](const Value& a, float b) { return Value{a.network, scale(a.var, -1, b)}; }, nb::is_operator(),
          "The difference of a number and a value.")
      .def("__neg__", [](const Value& a) { return Value{a.network, scale(a.var, -1)}; }, "The value times -1.");
}

void bind_products(nb::class_<Value>& value) {
  value
      .def(
          "__mul__", [](const Value& a, const Value& b) { return Value{a.network, a.var * b.var}; }, nb::is_operator(),
          "The product of two values of one shape, or of a value and a number, element by element.")
      .def(
          "__mul__", [](const Value& a, float b) { return Value{a.network, scale(a.var, b)}; }, nb::is_operator())
      .def(
          "__rmul__", [](const Value& a, float b) { return Value{a.network, scale(a.var, b)}; }, nb::is_operator(),
          "The product of a number and a value.")
      .def(
          "__truediv__", [](const Value& a, const Value& b) { return Value{a.network, a.var * power(b.var, -1)}; },
          nb::is_operator(), "The quotient of two values of one shape, or of a value and a number.")
      .def(
          "__truediv__", [](const Value& a, float b) { return Value{a.network, scale(a.var, 1 / b)}; },
          nb::is_operator())
      .def(
          "__rtruediv__", [](const Value& a, float b) { return Value{a.network, scale(power(a.var, -1), b)}; },
          nb::is_operator(), "The quotient of a number and a value.")
      .def(
          "__pow__", [](const Value& a, float b) { return Value{a.network, power(a.var, b)}; }, nb::is_operator(),
          "The value to the power of a number: x ** 2, x ** 0.5.");
}

void bind_reductions(nb::class_<Value>& value) {
  value.def(
           "__abs__", [](const Value& a) { return Value{a.network, abs(a.var)}; }, "abs(x): the absolute values.")
      .def(
          "mean", [](const Value& a) { return Value{a.network, mean_of(a.var)}; },
          "The mean of all elements of each sample: (N, 1).")
      .def(
          "sum",
          [](const Value& a) { return Value{a.network, scale(mean_of(a.var), static_cast<float>(elements_of(a)))}; },
          "The sum of all elements of each sample: (N, 1).");
}

/// NumPy arrays leave the operators to Var, which refuses them.
void refuse_arrays(nb::class_<Value>& value) {
  value.attr("__array_ufunc__") = nb::none();
  for (const char* name :
       {"__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__"})
    value.def(
        name,
        [](const Value&, const nb::ndarray<>&) -> Value {
          refuse(
              "an array was combined with a value of a graph, which has no numbers yet. Make it an input of the "
              "graph: graph.input(name, sample)");
        },
        nb::is_operator());
}

}  // namespace

void bind_var(nb::module_& m) {
  nb::class_<Value> value(
      m, "Var",
      "A value of a graph: the result of one node, and an argument of layer functions.\n\n"
      "a + b, a - b, a * b and a / b of two values of one shape, or of a value and a number, -a, abs(a) and a ** 2\n"
      "work element by element.");
  value
      .def_prop_ro(
          "shape", [](const Value& v) { return v.var.shape().shape; },
          "Shape for a batch of one sample: (1, C, [D,] H, W) or (1, features).")
      .def_prop_ro(
          "dtype", [](const Value& v) { return std::string(numpy_name(v.var.shape().dtype)); },
          "NumPy's name of the dtype.")
      .def_prop_ro(
          "name", [](const Value& v) { return v.network->graph.nodes()[static_cast<std::size_t>(v.var.node)].name; },
          "Name of the node.")
      .def_prop_ro(
          "graph", [](const Value& v) { return v.network; }, "The graph of the value.")
      .def("__repr__", [](const Value& v) {
        return fmt::format("<keelson.Var {}: {}>", v.network->graph.nodes()[static_cast<std::size_t>(v.var.node)].name,
                           shape_text(v.var.shape().shape));
      });
  bind_sums(value);
  bind_products(value);
  bind_reductions(value);
  refuse_arrays(value);
}

}  // namespace keelson::python
