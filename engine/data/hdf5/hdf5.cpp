#include "engine/data/hdf5/hdf5.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_chunks.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "engine/data/hdf5/detail/hdf5_links.hpp"

namespace keelson::hdf5 {
namespace fs = std::filesystem;

using detail::Handle;
using detail::innermost_reason;
using detail::Lock;
using detail::place;

std::string_view to_string(Type type) {
  constexpr std::string_view names[] = {"int8",  "uint8",  "int16",   "uint16",  "int32",   "uint32",
                                        "int64", "uint64", "float16", "float32", "float64", "other"};
  return names[static_cast<int>(type)];
}

std::int64_t size_of(Type type) {
  constexpr std::int64_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 0};
  return bytes[static_cast<int>(type)];
}

std::string to_string(const Dims& dims) { return dims.empty() ? "scalar" : fmt::format("({})", fmt::join(dims, ", ")); }

std::int64_t DatasetInfo::elements() const {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

namespace {

void check_looks_like_hdf5(const std::string& path) {
  if (const auto why = detail::why_unreadable(path); !why.empty())
    refuse("{}: cannot be read: {}. Expected an HDF5 file; check the path", path, why);
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && status.st_size == 0)
    refuse("{}: is empty (0 bytes). Expected an HDF5 file; copy or make it again", path);
  if (access(path.c_str(), R_OK) != 0)
    refuse("{}: cannot be read: {}. Check its permissions", path, std::strerror(errno));
}

struct FileDescriptor {
  FileDescriptor(const std::string& path, int flags) : fd(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

bool write_all(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const auto n = ::write(fd, data, bytes);
    if (n < 0 && errno != EINTR) return false;
    if (n < 0) continue;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// Turns HDF5's file locks off: they are useless for read-only data, and many parallel file systems have no locks.
void forget_locking([[maybe_unused]] hid_t access_list) {
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  H5Pset_file_locking(access_list, false, true);
#endif
}

bool has_signature(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  forget_locking(access);
#if H5_VERSION_GE(1, 12, 0)
  return H5Fis_accessible(path.c_str(), access) > 0;
#else
  return H5Fis_hdf5(path.c_str()) > 0;
#endif
}

Handle create_dataset(hid_t file, const std::string& path, const std::string& name, hid_t type, const Dims& shape,
                      const Dims& chunk = {}, int level = 0) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const Handle space(
      dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
      H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  if (!chunk.empty()) {
    const std::vector<hsize_t> extents(chunk.begin(), chunk.end());
    H5Pset_chunk(creation, static_cast<int>(extents.size()), extents.data());
    if (level > 0) {
      H5Pset_shuffle(creation);
      H5Pset_deflate(creation, static_cast<unsigned>(level));
    }
  }
  Handle dataset(H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  if (!dataset.ok()) {
    fail("{} of shape {} cannot be made ({})", place(path, name), to_string(shape), innermost_reason());
  }
  return dataset;
}

std::int64_t raw_offset(hid_t dataset, hid_t creation, hid_t type, Type element) {
  if (element == Type::other || element == Type::f16 || H5Tequal(type, detail::native(element)) <= 0) return -1;
  if (H5Pget_layout(creation) != H5D_CONTIGUOUS || H5Pget_external_count(creation) != 0) return -1;
  const haddr_t offset = H5Dget_offset(dataset);
  return offset == HADDR_UNDEF ? -1 : static_cast<std::int64_t>(offset);
}

void check_box(const std::string& where, const Dims& shape, const Dims& offset, const Dims& count) {
  bool inside = offset.size() == shape.size() && count.size() == shape.size() && !shape.empty();
  for (std::size_t i = 0; inside && i < shape.size(); ++i)
    inside = offset[i] >= 0 && count[i] >= 0 && offset[i] + count[i] <= shape[i];
  if (!inside) {
    fail("{}: the box of {} at {} does not lie in its shape {}", where, to_string(count), to_string(offset),
         to_string(shape));
  }
}

void check_elements(const std::string& where, const Dims& shape, std::int64_t found, std::int64_t expected) {
  if (expected >= 0 && found != expected)
    refuse("{} has the shape {}. Expected {} elements", where, to_string(shape), expected);
}

/// The spaces of a transfer: in the file (the whole dataset, or a box in it) and in memory.
std::pair<Handle, Handle> select(hid_t dataset, const std::string& where, const Dims* offset, const Dims* count) {
  Handle file_space(H5Dget_space(dataset), H5Sclose);
  if (offset == nullptr) {
    Handle all(H5Scopy(file_space), H5Sclose);
    return {std::move(file_space), std::move(all)};
  }
  check_box(where, detail::extents(file_space), *offset, *count);
  const std::vector<hsize_t> start(offset->begin(), offset->end()), extent(count->begin(), count->end());
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  return {std::move(file_space),
          Handle(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose)};
}

}  // namespace

File::File(std::string path, std::int64_t id, bool writing, std::shared_ptr<detail::LinkPolicy> links)
    : path_(std::move(path)), id_(id), links_(std::move(links)), writing_(writing) {}

std::int64_t File::access() const { return links_ ? links_->access() : H5P_DEFAULT; }

std::int64_t File::open_dataset(const std::string& name) const {
  if (!detail::exists(id_, name, access())) {
    if (links_) links_->explain();
    std::vector<std::string> members;
    const auto add = [](hid_t, const char* member, const H5L_info_t*, void* to) -> herr_t {
      static_cast<std::vector<std::string>*>(to)->emplace_back(member);
      return 0;
    };
    H5Literate(id_, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &members);
    refuse("{}: has no dataset '{}'. The file holds {}", path_, name,
           members.empty() ? "nothing" : fmt::format("'{}'", fmt::join(members, "', '")));
  }
  const hid_t dataset = H5Dopen2(id_, name.c_str(), access());
  if (dataset < 0 && links_) links_->explain();
  if (dataset < 0) refuse("{} is not a dataset that can be read ({})", place(path_, name), innermost_reason());
  return dataset;
}

File File::open(const std::string& path, const std::string& folder) {
  check_looks_like_hdf5(path);
  const Lock lock;
  if (!has_signature(path))
    refuse(
        "{}: is not an HDF5 file (it lacks the signature). Expected HDF5; was it cut off or is it of another format?",
        path);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  forget_locking(access);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (id < 0)
    refuse("{}: is HDF5 but cannot be opened ({}). Is the copy complete? Fetch or make it again", path,
           innermost_reason());
  File file(path, id, false, std::make_shared<detail::LinkPolicy>(path, folder));
  file.chunked_ = std::make_shared<detail::ChunkedDataOfFile>();
  return file;
}

File File::create(const std::string& path) {
  if (const FileDescriptor empty(path, O_WRONLY | O_CREAT | O_TRUNC); empty.fd < 0)
    fail("{}: cannot be created ({}). Check the folder, its permissions and the free space", path,
         std::strerror(errno));
  return in_memory(path);
}

File File::in_memory(const std::string& path) {
  const Lock lock;
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose), access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_obj_track_times(creation, false);
#if H5_VERSION_GE(1, 10, 2)
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);  // checksummed metadata, readable by 1.8 and newer
#endif
  // The file is kept in memory until close(): an HDF5 built with assertions ends the process if writing fails (a full
  // disk).
  H5Pset_fapl_core(access, std::size_t{1} << 20, false);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  if (id < 0) fail("{}: cannot be created ({})", path, innermost_reason());
  return File(path, id, true, nullptr);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      id_(std::exchange(other.id_, -1)),
      links_(std::move(other.links_)),
      chunked_(std::move(other.chunked_)),
      writing_(other.writing_) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::move(other.path_);
    id_ = std::exchange(other.id_, -1);
    links_ = std::move(other.links_);
    chunked_ = std::move(other.chunked_);
    writing_ = other.writing_;
  }
  return *this;
}

File::~File() { discard(); }

void File::discard() noexcept {
  if (id_ < 0) return;
  const Lock lock;
  H5Fclose(std::exchange(id_, -1));
}

void File::close(bool sync, const std::function<void()>& progress) {
  if (id_ < 0) return;
  if (!writing_) return discard();
  void* memory = nullptr;
  std::size_t size = 0;
  {
    const Lock lock;
    if (H5Fflush(id_, H5F_SCOPE_LOCAL) < 0 || H5Fget_vfd_handle(id_, H5P_DEFAULT, &memory) < 0)
      fail("{}: cannot be written to its end ({})", path_, innermost_reason());
    size = static_cast<std::size_t>(H5Fget_file_image(id_, nullptr, 0));
  }
  // Does not hold the lock, so that other threads can read in the meantime.
  const FileDescriptor out(path_, O_WRONLY | O_TRUNC);
  const char* const image = *static_cast<char**>(memory);
  const auto end_with = [&](const char* what) {
    fail("{}: {}{}", path_, what, reason_of_writing(errno, fs::path(path_).parent_path()));
  };
  if (out.fd < 0) end_with("cannot be written to its end");
  constexpr std::size_t most = std::size_t{16}
                               << 20;  // bytes per write: progress distinguishes a slow disk from one that hangs
  for (std::size_t at = 0; at < size; at += most) {
    if (!write_all(out.fd, image + at, std::min(most, size - at))) end_with("cannot be written to its end");
    if (sync && fdatasync(out.fd) != 0) end_with("was written but cannot be brought to disk");
    if (progress) progress();
  }
  discard();
}

bool File::has(const std::string& object) const {
  const Lock lock;
  const bool found = detail::exists(id_, object, access());
  if (!found && links_) links_->explain();
  return found;
}

DatasetInfo File::info(const std::string& name) const {
  const Lock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  if (links_) links_->check_storage(dataset, place(path_, name), 0);
  const Handle space(H5Dget_space(dataset), H5Sclose), type(H5Dget_type(dataset), H5Tclose);
  if (!space.ok() || !type.ok()) refuse("{} cannot be read ({})", place(path_, name), innermost_reason());
  DatasetInfo info;
  info.name = name;
  info.shape = detail::extents(space);
  info.type = detail::classify(type);
  info.type_name = detail::describe(type);
  if (H5Sget_simple_extent_type(space) == H5S_NULL) info.shape = {0};
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  info.raw_offset = raw_offset(dataset, creation, type, info.type);
  info.file = detail::file_of(dataset);
  info.chunk = detail::chunk_shape(creation);
  info.filtered = H5Pget_nfilters(creation) > 0;
  return info;
}

void File::require_written(const std::string& name) const {
  const Lock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  detail::require_written(dataset, place(path_, name));
}

/// Null: the library must read this data set.
std::shared_ptr<const detail::ChunkedData> File::find_chunks(const std::string& name) const {
  if (!chunked_) return nullptr;
  return chunked_->find(name, [&]() -> std::shared_ptr<const detail::ChunkedData> {
    const Lock lock;
    const Handle dataset(open_dataset(name), H5Dclose);
    auto facts = detail::chunk_facts(dataset, path_, name);
    return facts ? std::make_shared<const detail::ChunkedData>(std::move(*facts)) : nullptr;
  });
}

void File::read_as(const std::string& name, Type type, void* dst, const Dims* offset, const Dims* count,
                   std::int64_t elements) const {
  if (const auto chunks = find_chunks(name); chunks && chunks->converts_to(type)) {
    const Dims& shape = chunks->facts().shape;
    if (offset != nullptr) {
      check_box(place(path_, name), shape, *offset, *count);
      return chunks->read_box(*offset, *count, type, dst);
    }
    check_elements(place(path_, name), shape, DatasetInfo{.shape = shape}.elements(), elements);
    return chunks->read_box(Dims(shape.size(), 0), shape, type, dst);
  }
  const Lock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  const Handle stored(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(stored);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT)
    refuse("{} holds {}. Expected numbers ({})", place(path_, name), detail::describe(stored), to_string(type));
  if (links_) detail::refuse_external_storage(dataset, place(path_, name));
  const auto [file_space, memory_space] = select(dataset, place(path_, name), offset, count);
  check_elements(place(path_, name), detail::extents(file_space), H5Sget_select_npoints(file_space), elements);
  if (H5Dread(dataset, detail::native(type), memory_space, file_space, H5P_DEFAULT, dst) < 0)
    refuse("{} cannot be read ({}). Is the copy complete? Fetch or make it again", place(path_, name),
           innermost_reason());
}

void File::make_group(const std::string& group) {
  const Lock lock;
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  for (std::size_t end = 0; end != std::string::npos;) {
    end = group.find('/', end + 1);
    const std::string prefix = group.substr(0, end);
    if (prefix.empty() || prefix == "/" || detail::exists(id_, prefix, access())) continue;
    const Handle g(H5Gcreate2(id_, prefix.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose);
    if (!g.ok()) fail("{} cannot be made ({})", place(path_, prefix), innermost_reason());
  }
}

void File::make_parent(const std::string& name) {
  const auto slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) make_group(name.substr(0, slash));
}

void File::make_dataset(const std::string& name, Type type, const Dims& shape, const Dims& chunk, int level) {
  make_parent(name);
  const Lock lock;
  create_dataset(id_, path_, name, detail::native(type), shape, chunk, level);
}

void File::write(const std::string& name, const std::vector<std::string>& texts) {
  make_parent(name);
  std::vector<const char*> pointers;
  for (const auto& t : texts) pointers.push_back(t.c_str());
  const Lock lock;
  const Handle type = detail::utf8_type();
  const Handle dataset = create_dataset(id_, path_, name, type, {static_cast<std::int64_t>(texts.size())});
  if (H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0)
    fail("{} cannot be written ({})", place(path_, name), innermost_reason());
}

void File::write_as(const std::string& name, Type type, const void* src, const Dims* offset, const Dims* count) {
  const Lock lock;
  const Handle dataset(open_dataset(name), H5Dclose);
  const auto [file_space, memory_space] = select(dataset, place(path_, name), offset, count);
  if (H5Dwrite(dataset, detail::native(type), memory_space, file_space, H5P_DEFAULT, src) < 0)
    fail("{} cannot be written ({})", place(path_, name), innermost_reason());
}

Dims detail::shape_of_source(const std::string& path, const std::string& folder, const std::string& object, int depth) {
  const File file = File::open(path, folder);
  return file.checked_shape(object, depth);
}

Dims File::checked_shape(const std::string& name, int depth) const {
  const Handle dataset(open_dataset(name), H5Dclose);
  links_->check_storage(dataset, place(path_, name), depth);
  detail::require_written(dataset, place(path_, name));
  const Handle space(H5Dget_space(dataset), H5Sclose);
  return detail::extents(space);
}

}  // namespace keelson::hdf5
