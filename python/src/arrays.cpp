#include "arrays.hpp"

#include <fmt/ranges.h>

#include <cstring>
#include <new>
#include <vector>

#include "casters.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"

namespace keelson::python {
namespace {

constexpr std::size_t alignment = 64;

/// A dimension of the destination: its extent, and the stride of the source in elements.
struct Run {
  std::int64_t extent, stride;
};

/// `runs`: from the slowest to the fastest. Returns the end of the written memory.
std::uint32_t* copy_runs(const std::uint32_t* src, const Run* runs, std::size_t count, std::uint32_t* dst) {
  if (count == 0) {
    *dst = *src;
    return dst + 1;
  }
  const auto [extent, stride] = runs[0];
  if (count == 1 && stride == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(extent) * sizeof *src);
    return dst + extent;
  }
  if (count == 1) {
    for (std::int64_t i = 0; i < extent; ++i) dst[i] = src[i * stride];
    return dst + extent;
  }
  for (std::int64_t i = 0; i < extent; ++i) dst = copy_runs(src + i * stride, runs + 1, count - 1, dst);
  return dst;
}

/// The dimensions from `first` on, in the order of dense memory, without dimensions of one element. Neighbouring
/// dimensions that are contiguous in the source are merged.
std::vector<Run> runs_of(const HostArray& a, int first, bool channels_last) {
  std::vector<int> order;
  for (int i = 0; i < a.shape.rank(); ++i)
    if (i >= first && !(channels_last && i == 1)) order.push_back(i);
  if (channels_last) order.push_back(1);
  std::vector<Run> runs;
  for (const int i : order) {
    if (a.shape[i] == 1) continue;
    if (!runs.empty() && runs.back().stride == a.strides[i] * a.shape[i])
      runs.back() = {runs.back().extent * a.shape[i], a.strides[i]};
    else
      runs.push_back({a.shape[i], a.strides[i]});
  }
  return runs;
}

nb::dlpack::dtype element_of(DType type) {
  using Code = nb::dlpack::dtype_code;
  const bool integer = type == DType::s32, unsigned_integer = type == DType::u8 || type == DType::u16;
  const Code code = integer               ? Code::Int
                    : unsigned_integer    ? Code::UInt
                    : type == DType::bf16 ? Code::Bfloat
                                          : Code::Float;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(type)), 1};
}

}  // namespace

std::string shape_text(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape.begin(), shape.end(), ", "), shape.rank() == 1 ? "," : "");
}

std::string samples_text(const Shape& shape) {
  if (shape.empty()) return "a single number";
  Shape sample;
  for (int i = 1; i < shape.rank(); ++i) sample.push_back(shape[i]);
  return fmt::format("{} of {}", counted(shape[0], "sample"), shape_text(sample));
}

std::string text_of(nb::handle object) {
  const auto text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

std::string dtype_name(const nb::dlpack::dtype& element) {
  using Code = nb::dlpack::dtype_code;
  const char* kind = "unknown";
  switch (static_cast<Code>(element.code)) {
    case Code::Int:
      kind = "int";
      break;
    case Code::UInt:
      kind = "uint";
      break;
    case Code::Float:
      kind = "float";
      break;
    case Code::Bfloat:
      kind = "bfloat";
      break;
    case Code::Complex:
      kind = "complex";
      break;
    case Code::Bool:
      return "bool";
    default:
      break;
  }
  return fmt::format("{}{}", kind, element.bits);
}

HostArray host_array(nb::handle object, const std::string& what) {
  HostArray a;
  if (!nb::try_cast(object, a.owner)) {
    nb::ndarray<nb::ro> elsewhere;
    if (nb::try_cast(object, elsewhere))
      refuse("{} lies in the memory of a device. Expected an array on the host: copy it there (x.cpu())", what);
    nb::object converted;
    try {
      converted = nb::module_::import_("numpy").attr("asarray")(object);
    } catch (nb::python_error& e) {
      refuse("{} is a {}, which NumPy cannot read ({}). Expected an array", what, nb::type_name(object.type()).c_str(),
             e.what());
    }
    if (!nb::try_cast(converted, a.owner))
      refuse("{} is a {} of dtype {}. Expected an array of numbers", what, nb::type_name(object.type()).c_str(),
             text_of(converted.attr("dtype")));
  }
  if (a.owner.ndim() > max_rank) refuse("{} has {} dimensions. Expected at most {}", what, a.owner.ndim(), max_rank);
  a.data = static_cast<const std::byte*>(a.owner.data());
  for (std::size_t i = 0; i < a.owner.ndim(); ++i) {
    a.shape.push_back(static_cast<std::int64_t>(a.owner.shape(i)));
    a.strides.push_back(a.owner.stride(i));
  }
  a.element = a.owner.dtype();
  return a;
}

void require_dtype(const HostArray& array, DType type, const std::string& what) {
  if (array.element == element_of(type)) return;
  const auto expected = numpy_name(type);
  refuse("{} has the dtype {}. Expected {}: give x.astype('{}')", what, dtype_name(array.element), expected, expected);
}

void copy_dense(const HostArray& array, std::int64_t sample, bool channels_last, void* dst) {
  const auto runs = runs_of(array, sample < 0 ? 0 : 1, channels_last);
  if (array.shape.elements() == 0) return;
  const auto* src = reinterpret_cast<const std::uint32_t*>(array.data);
  if (sample > 0) src += sample * array.strides[0];
  copy_runs(src, runs.data(), runs.size(), static_cast<std::uint32_t*>(dst));
}

bool is_dense(const HostArray& array, bool channels_last) {
  const auto runs = runs_of(array, 0, channels_last);
  return runs.empty() || (runs.size() == 1 && runs[0].stride == 1);
}

nb::object new_array(const Shape& shape, DType type, bool channels_last, void** data) {
  const auto bytes = std::max<std::size_t>(static_cast<std::size_t>(shape.elements()) * size_of(type), alignment);
  *data = ::operator new(bytes, std::align_val_t(alignment));
  const nb::capsule owner(*data, [](void* p) noexcept { ::operator delete(p, std::align_val_t(alignment)); });
  std::vector<std::size_t> extents(shape.begin(), shape.end());
  const Layout layout = channels_last ? Layout::channels_last(shape) : Layout::plain(shape);
  std::vector<std::int64_t> strides(layout.strides().begin(), layout.strides().end());
  nb::ndarray<nb::numpy> array(*data, extents.size(), extents.data(), owner, strides.data(), element_of(type),
                               nb::device::cpu::value);
  return nb::cast(array);
}

nb::object view(const Tensor& tensor, bool on_host, nb::handle owner, const std::string& what) {
  if (!tensor.layout().is_strided())
    refuse("{} lies in memory as {}, which only its backend can read. Take a copy", what,
           tensor.layout().describe(tensor.shape()));
  const Shape& shape = tensor.shape();
  std::vector<std::size_t> extents(shape.begin(), shape.end());
  std::vector<std::int64_t> strides(tensor.layout().strides().begin(), tensor.layout().strides().end());
  if (on_host)
    return nb::cast(nb::ndarray<nb::numpy>(tensor.raw(), extents.size(), extents.data(), owner, strides.data(),
                                           element_of(tensor.dtype()), nb::device::cpu::value));
  return nb::cast(nb::ndarray<>(tensor.raw(), extents.size(), extents.data(), owner, strides.data(),
                                element_of(tensor.dtype()), nb::device::cuda::value));
}

}  // namespace keelson::python
