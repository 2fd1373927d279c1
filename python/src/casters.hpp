#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/plan/precision.hpp"
#include "engine/tensor/dtype.hpp"
#include "engine/tensor/shape.hpp"

namespace nanobind::detail {

/// A Shape is a tuple of whole numbers.
template <>
struct type_caster<keelson::Shape> {
  NB_TYPE_CASTER(keelson::Shape, io_name("collections.abc.Sequence[int]", "tuple[int, ...]"))

  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (!PySequence_Check(src.ptr()) || PyUnicode_Check(src.ptr())) return false;
    const Py_ssize_t size = PySequence_Size(src.ptr());
    if (size < 0 || size > keelson::max_rank) {
      PyErr_Clear();
      return false;
    }
    value = {};
    for (Py_ssize_t i = 0; i < size; ++i) {
      const object item = steal(PySequence_GetItem(src.ptr(), i));
      const object index = item.is_valid() ? steal(PyNumber_Index(item.ptr())) : object();
      const long long extent = index.is_valid() ? PyLong_AsLongLong(index.ptr()) : -1;
      if (PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      value.push_back(extent);
    }
    return true;
  }

  static handle from_cpp(const keelson::Shape& shape, rv_policy, cleanup_list*) noexcept {
    object tuple = steal(PyTuple_New(shape.rank()));
    for (int i = 0; i < shape.rank() && tuple.is_valid(); ++i)
      PyTuple_SetItem(tuple.ptr(), i, PyLong_FromLongLong(shape[i]));
    return tuple.release();
  }
};

}  // namespace nanobind::detail

namespace keelson::python {

/// The value that `word` names. For an unknown word, throws InputError that lists the known ones.
template <class T>
T choose(std::string_view what, std::string_view word, const std::vector<std::pair<std::string_view, T>>& words) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", name);
  }
  refuse("{} is '{}'. Expected one of {}", what, word, known);
}

/// "fp32", "tf32", "bf16" or "fp16". Throws InputError for another name.
Precision precision_of(std::string_view name);
/// NumPy's name of a dtype: "float32" for DType::f32.
std::string_view numpy_name(DType type);
/// The reverse, for the dtypes of graph inputs: float32 and int32. Throws InputError for another name.
DType input_dtype(std::string_view what, std::string_view name);

}  // namespace keelson::python
