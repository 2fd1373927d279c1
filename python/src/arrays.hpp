#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "engine/tensor/tensor.hpp"

/// Arrays of NumPy and of everybody who speaks DLPack or the buffer protocol.
namespace keelson::python {

namespace nb = nanobind;

/// An array in host memory, which it keeps alive.
struct HostArray {
  nb::ndarray<nb::ro, nb::device::cpu> owner;
  const std::byte* data = nullptr;
  Shape shape, strides;       ///< logical; strides in elements
  nb::dlpack::dtype element;  ///< as the array has it
};

/// The array of a Python object; other objects go through numpy.asarray. Throws InputError, naming `what`, for an
/// object that is no array, lies on a device, or has more than max_rank dims.
HostArray host_array(nb::handle object, const std::string& what);
/// What str() gives for an object.
std::string text_of(nb::handle object);
/// "float64", as NumPy says.
std::string dtype_name(const nb::dlpack::dtype& element);
/// Throws InputError, with what to try, where the array has another dtype than float32 or int32 (`type`).
void require_dtype(const HostArray& array, DType type, const std::string& what);

/// Copies elements of 4 bytes to memory without gaps, in the order that `layout` of the array's shape has: plain or
/// channels-last. `sample`: of the array's first dim, or -1: all of it.
void copy_dense(const HostArray& array, std::int64_t sample, bool channels_last, void* dst);
/// Whether the array's memory is what copy_dense() would write.
bool is_dense(const HostArray& array, bool channels_last);

/// A new array of NumPy, 64-byte aligned, not initialised.
nb::object new_array(const Shape& shape, DType type, bool channels_last, void** data);
/// A view of a tensor: an array of NumPy that shares the host's memory, or an object with __dlpack__ where the tensor
/// lies on a GPU. `owner` is kept alive. Throws InputError for a tensor whose layout only its backend can read.
nb::object view(const Tensor& tensor, bool on_host, nb::handle owner, const std::string& what);

}  // namespace keelson::python
