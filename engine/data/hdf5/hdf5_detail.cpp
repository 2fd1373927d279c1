#include <string_view>

#include "engine/base/error.hpp"

#include "engine/data/hdf5/detail/hdf5_handle.hpp"

namespace keelson::hdf5::detail {

namespace {
std::recursive_mutex& library_mutex() {
  static auto* mutex = new std::recursive_mutex;  // never destroyed: files in static objects may close late
  return *mutex;
}
}  // namespace

Lock::Lock() : guard_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_to_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Lock::~Lock() { H5Eset_auto2(H5E_DEFAULT, print_, print_to_); }

hid_t native(Type type) {
  switch (type) {
    case Type::i8:
      return H5T_NATIVE_INT8;
    case Type::u8:
      return H5T_NATIVE_UINT8;
    case Type::i16:
      return H5T_NATIVE_INT16;
    case Type::u16:
      return H5T_NATIVE_UINT16;
    case Type::i32:
      return H5T_NATIVE_INT32;
    case Type::u32:
      return H5T_NATIVE_UINT32;
    case Type::i64:
      return H5T_NATIVE_INT64;
    case Type::u64:
      return H5T_NATIVE_UINT64;
    case Type::f32:
      return H5T_NATIVE_FLOAT;
    case Type::f64:
      return H5T_NATIVE_DOUBLE;
    case Type::f16:
    case Type::other:
      break;
  }
  fail("internal error: HDF5 element type {} has no counterpart in memory", to_string(type));
}

Handle utf8_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

Type classify(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: {
      const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
      if (size == 1) return is_signed ? Type::i8 : Type::u8;
      if (size == 2) return is_signed ? Type::i16 : Type::u16;
      if (size == 4) return is_signed ? Type::i32 : Type::u32;
      if (size == 8) return is_signed ? Type::i64 : Type::u64;
      return Type::other;
    }
    case H5T_FLOAT: {
      std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
      if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return Type::other;
      if (size == 2 && exponent_bits == 5) return Type::f16;
      if (size == 4 && exponent_bits == 8 && mantissa_bits == 23) return Type::f32;
      if (size == 8 && exponent_bits == 11 && mantissa_bits == 52) return Type::f64;
      return Type::other;
    }
    default:
      return Type::other;
  }
}

std::string describe(hid_t type) {
  const Type t = classify(type);
  const hid_t host_order = H5Tget_order(H5T_NATIVE_INT);
  if (t != Type::other) {
    const bool foreign = H5Tget_size(type) > 1 && H5Tget_order(type) != static_cast<H5T_order_t>(host_order);
    const char* order = !foreign ? "" : H5Tget_order(type) == H5T_ORDER_BE ? "big-endian " : "little-endian ";
    return order + std::string(to_string(t));
  }
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return "string";
    case H5T_COMPOUND:
      return "compound";
    case H5T_ENUM:
      return "enumeration (or boolean)";
    case H5T_ARRAY:
      return "array";
    case H5T_VLEN:
      return "variable-length list";
    case H5T_INTEGER:
      return fmt::format("{}-byte integer", H5Tget_size(type));
    case H5T_FLOAT:
      return fmt::format("{}-byte floating point of an unusual format", H5Tget_size(type));
    default:
      return "neither integer nor floating point";
  }
}

std::string innermost_reason() {
  std::string text;
  const auto take_first = [](unsigned n, const H5E_error2_t* e, void* to) -> herr_t {
    if (n == 0 && e->desc != nullptr) *static_cast<std::string*>(to) = e->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  // HDF5's text about a failed system call has time, descriptor and buffer address; messages only need what failed and
  // why.
  constexpr std::string_view marker = "error message = '";
  if (const auto from = text.find(marker); from != std::string::npos) {
    const auto begin = from + marker.size();
    return text.substr(0, text.find(':')) + ": " + text.substr(begin, text.find('\'', begin) - begin);
  }
  return text.empty() ? "HDF5 gives no reason" : text;
}

Dims extents(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(rank > 0 ? rank : 0);
  if (rank > 0) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  return Dims(dims.begin(), dims.end());
}

Dims chunk_shape(hid_t creation) {
  if (H5Pget_layout(creation) != H5D_CHUNKED) return {};
  const int rank = H5Pget_chunk(creation, 0, nullptr);
  std::vector<hsize_t> dims(rank > 0 ? rank : 0);
  if (rank > 0) H5Pget_chunk(creation, rank, dims.data());
  return Dims(dims.begin(), dims.end());
}

std::string file_of(hid_t object) {
  const auto length = H5Fget_name(object, nullptr, 0);
  std::string name(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  if (length > 0) H5Fget_name(object, name.data(), name.size() + 1);
  return name;
}

std::string place(const std::string& path, const std::string& object) {
  return object == "/" ? path : fmt::format("{}: '{}'", path, object);
}

bool exists(hid_t file, const std::string& object, hid_t access) {
  // H5Lexists requires that every group in the path exists, and refuses the root.
  for (std::size_t end = 0; end != std::string::npos;) {
    end = object.find('/', end + 1);
    const std::string prefix = object.substr(0, end);
    if (prefix.empty() || prefix == "/" || prefix.back() == '/') continue;
    if (H5Lexists(file, prefix.c_str(), access) <= 0) return false;
    if (H5Oexists_by_name(file, prefix.c_str(), access) <= 0) return false;
  }
  return true;
}

}  // namespace keelson::hdf5::detail
