#include "apps/cosmoflow/universe/hdf5_file.hpp"

#include <hdf5.h>

#include <cstdlib>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

/// Stops HDF5 from printing its error stack; the stack stays readable.
class Silence {
 public:
  Silence() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Silence() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost message of HDF5's error stack: the cause.
std::string reason() {
  std::string text;
  const H5E_walk2_t keep_first = [](unsigned, const H5E_error2_t* e, void* out) -> herr_t {
    auto& s = *static_cast<std::string*>(out);
    if (s.empty() && e->desc) s = e->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "unknown HDF5 error" : text;
}

template <class T>
T good(T result, const std::filesystem::path& path, const std::string& what) {
  if (result < 0) fail("{}: cannot {}: {}", path.string(), what, reason());
  return result;
}

/// Closes an HDF5 object at the end of its scope.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): stands for the id in HDF5's calls

 private:
  hid_t id_;
};
using Space = Handle<H5Sclose>;
using Data = Handle<H5Dclose>;
using Attribute = Handle<H5Aclose>;
using Type = Handle<H5Tclose>;

Space space_of(const Hdf5File::Extents& extents) {
  if (extents.empty()) return Space(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> dims(extents.begin(), extents.end());
  return Space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

/// Variable-length UTF-8, what h5py reads as str.
Type text_type() {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return Type(type);
}

std::vector<const char*> pointers(std::span<const std::string> texts) {
  std::vector<const char*> p;
  for (const auto& t : texts) p.push_back(t.c_str());
  return p;
}

void write_data(const std::filesystem::path& path, hid_t file, const std::string& name, hid_t stored, hid_t given,
                const Hdf5File::Extents& extents, const void* values) {
  const Silence silence;
  const Space space = space_of(extents);
  const Data data(good(H5Dcreate2(file, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path,
                       "create " + name));
  if (values) good(H5Dwrite(data, given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), path, "write " + name);
}

void write_attribute(const std::filesystem::path& path, hid_t file, const std::string& name, hid_t stored, hid_t given,
                     const Hdf5File::Extents& extents, const void* values) {
  const Silence silence;
  const Space space = space_of(extents);
  const Attribute a(
      good(H5Acreate2(file, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT), path, "create attribute " + name));
  good(H5Awrite(a, given, values), path, "write attribute " + name);
}

std::size_t product(const Hdf5File::Extents& extents) {
  std::size_t n = 1;
  for (auto e : extents) n *= e;
  return n;
}

template <class T>
std::vector<T> read_data(const Hdf5File& f, const std::filesystem::path& path, hid_t file, const std::string& name,
                         hid_t type) {
  const Silence silence;
  const auto extents = f.extents(name);
  if (!extents) fail("{}: no array {}", path.string(), name);
  std::vector<T> values(product(*extents));
  const Data data(good(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path, "open " + name));
  good(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path, "read " + name);
  return values;
}

}  // namespace

Hdf5File Hdf5File::create(const std::filesystem::path& path) {
  const Silence silence;
  return {path, good(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), path, "create the file")};
}

std::optional<Hdf5File> Hdf5File::open(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Silence silence;
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) return std::nullopt;
  return Hdf5File(path, id);
}

Hdf5File::Hdf5File(Hdf5File&& other) noexcept : path_(std::move(other.path_)), id_(std::exchange(other.id_, -1)) {}

Hdf5File::~Hdf5File() {
  const Silence silence;
  if (id_ >= 0) H5Fclose(id_);
}

void Hdf5File::close() {
  const Silence silence;
  good(H5Fclose(std::exchange(id_, -1)), path_, "finish the file");
}

void Hdf5File::create_int16(const std::string& name, const Extents& extents) {
  write_data(path_, id_, name, H5T_STD_I16LE, H5T_NATIVE_INT16, extents, nullptr);
}

void Hdf5File::write_int16(const std::string& name, std::int64_t row, std::span<const std::int16_t> values) {
  const Silence silence;
  const Data data(good(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), path_, "open " + name));
  const Space space(good(H5Dget_space(data), path_, "inspect " + name));
  std::vector<hsize_t> count(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, count.data(), nullptr);
  std::vector<hsize_t> start(count.size(), 0);
  if (row >= 0) {
    KEELSON_EXPECT(count.size() > 1 && static_cast<hsize_t>(row) < count[0]);
    start[0] = static_cast<hsize_t>(row);
    count[0] = 1;
  }
  KEELSON_EXPECT(values.size() == product({count.begin(), count.end()}));
  good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path_,
       "address " + name);
  const Space memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  good(H5Dwrite(data, H5T_NATIVE_INT16, memory, space, H5P_DEFAULT, values.data()), path_, "write " + name);
}

void Hdf5File::write(const std::string& name, const Extents& extents, std::span<const float> values) {
  KEELSON_EXPECT(values.size() == product(extents));
  write_data(path_, id_, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, extents, values.data());
}

void Hdf5File::write(const std::string& name, const Extents& extents, std::span<const double> values) {
  KEELSON_EXPECT(values.size() == product(extents));
  write_data(path_, id_, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, extents, values.data());
}

void Hdf5File::write(const std::string& name, std::span<const std::string> values) {
  const Type type = text_type();
  write_data(path_, id_, name, type, type, {values.size()}, pointers(values).data());
}

void Hdf5File::attribute(const std::string& name, const std::string& value) {
  const Type type = text_type();
  const char* p = value.c_str();
  write_attribute(path_, id_, name, type, type, {}, &p);
}

void Hdf5File::attribute(const std::string& name, std::int64_t value) {
  write_attribute(path_, id_, name, H5T_STD_I64LE, H5T_NATIVE_INT64, {}, &value);
}

void Hdf5File::attribute(const std::string& name, double value) {
  write_attribute(path_, id_, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, &value);
}

void Hdf5File::attribute(const std::string& name, std::span<const double> values) {
  write_attribute(path_, id_, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {values.size()}, values.data());
}

void Hdf5File::attribute(const std::string& name, std::span<const std::string> values) {
  const Type type = text_type();
  write_attribute(path_, id_, name, type, type, {values.size()}, pointers(values).data());
}

std::optional<Hdf5File::Extents> Hdf5File::extents(const std::string& name) const {
  const Silence silence;
  const Data data(H5Dopen2(id_, name.c_str(), H5P_DEFAULT));
  if (data < 0) return std::nullopt;
  const Space space(good(H5Dget_space(data), path_, "inspect " + name));
  std::vector<hsize_t> dims(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  return Extents(dims.begin(), dims.end());
}

std::vector<std::int16_t> Hdf5File::read_int16(const std::string& name) const {
  return read_data<std::int16_t>(*this, path_, id_, name, H5T_NATIVE_INT16);
}

std::vector<float> Hdf5File::read_float(const std::string& name) const {
  return read_data<float>(*this, path_, id_, name, H5T_NATIVE_FLOAT);
}

std::vector<double> Hdf5File::read_double(const std::string& name) const {
  return read_data<double>(*this, path_, id_, name, H5T_NATIVE_DOUBLE);
}

std::vector<double> Hdf5File::double_attribute(const std::string& name) const {
  const Silence silence;
  const Attribute a(good(H5Aopen(id_, name.c_str(), H5P_DEFAULT), path_, "open attribute " + name));
  const Space space(good(H5Aget_space(a), path_, "inspect attribute " + name));
  std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  good(H5Aread(a, H5T_NATIVE_DOUBLE, values.data()), path_, "read attribute " + name);
  return values;
}

std::vector<std::string> Hdf5File::texts_attribute(const std::string& name) const {
  const Silence silence;
  const Attribute a(good(H5Aopen(id_, name.c_str(), H5P_DEFAULT), path_, "open attribute " + name));
  const Space space(good(H5Aget_space(a), path_, "inspect attribute " + name));
  const Type type = text_type();
  std::vector<char*> raw(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  good(H5Aread(a, type, raw.data()), path_, "read attribute " + name);
  std::vector<std::string> texts;
  for (char* p : raw) texts.emplace_back(p ? p : "");
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, raw.data());
  return texts;
}

std::optional<std::string> Hdf5File::text_attribute(const std::string& name) const {
  const Silence silence;
  if (H5Aexists(id_, name.c_str()) <= 0) return std::nullopt;
  const auto texts = texts_attribute(name);
  return texts.empty() ? std::nullopt : std::optional(texts.front());
}

}  // namespace keelson::universe
