#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "engine/tensor/tensor.hpp"

/// Arrays of NumPy and of all libraries with DLPack or the buffer protocol.
namespace keelson::python {

namespace nb = nanobind;

/// An array in host memory. Keeps the memory alive.
struct HostArray {
  nb::ndarray<nb::ro, nb::device::cpu> owner;
  const std::byte* data = nullptr;
  Shape shape, strides;       ///< logical; strides in elements
  nb::dlpack::dtype element;  ///< the array's dtype
};

/// The array of a Python object; objects that are no arrays are converted by numpy.asarray. Throws InputError, naming
/// `what`, if that is not possible, if the array lies on a device, or if it has more than max_rank dimensions.
HostArray host_array(nb::handle object, const std::string& what);
/// A shape as Python writes it: "(4, 1, 8)".
std::string shape_text(const Shape& shape);
/// A shape with the samples apart: "4 samples of (1, 8)"; for a shape without dimensions "a single number".
std::string samples_text(const Shape& shape);
/// The result of Python's str() for an object.
std::string text_of(nb::handle object);
/// NumPy's name of a dtype: "float64".
std::string dtype_name(const nb::dlpack::dtype& element);
/// Throws InputError, which says what to try, if the array's dtype is not `type` (float32 or int32).
void require_dtype(const HostArray& array, DType type, const std::string& what);

/// Copies elements of 4 bytes to memory without gaps, in plain or channels-last order. `sample`: copies only this index
/// of the array's first dimension; -1: the whole array.
void copy_dense(const HostArray& array, std::int64_t sample, bool channels_last, void* dst);
/// Whether the array's memory is already in the order of copy_dense().
bool is_dense(const HostArray& array, bool channels_last);

/// A new NumPy array, 64-byte aligned, not initialised.
nb::object new_array(const Shape& shape, DType type, bool channels_last, void** data);
/// A view of a tensor: a NumPy array that shares the host's memory, or an object with __dlpack__ if the tensor lies on
/// a GPU. Keeps `owner` alive. Throws InputError for a tensor whose layout only its backend can read.
nb::object view(const Tensor& tensor, bool on_host, nb::handle owner, const std::string& what);

}  // namespace keelson::python
