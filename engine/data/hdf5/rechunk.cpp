#include "engine/data/hdf5/rechunk.hpp"

#include <algorithm>
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"
#include "engine/data/hdf5/detail/hdf5_links.hpp"

namespace keelson::hdf5 {
namespace detail {
namespace {

constexpr std::int64_t most_box_bytes = std::int64_t{256} << 20;

/// The name with all groups: "x" is "/x".
std::string absolute(const std::string& name) { return name.starts_with('/') ? name : "/" + name; }

/// The type in the copy: the same numbers in this machine's byte order.
Handle new_type(hid_t stored) {
  const Type type = classify(stored);
  return {H5Tcopy(type == Type::other || type == Type::f16 ? stored : native(type)), H5Tclose};
}

Handle creation_list(const NewLayout& layout, const NewFilters& filters) {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  if (layout.chunk.empty()) return creation;
  const std::vector<hsize_t> chunk(layout.chunk.begin(), layout.chunk.end());
  H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  if (filters.shuffle) H5Pset_shuffle(creation);
  if (filters.gzip > 0) H5Pset_deflate(creation, static_cast<unsigned>(filters.gzip));
  return creation;
}

/// Identifiers and settings of the filters, to compare them.
std::vector<unsigned> filters_in(hid_t creation) {
  std::vector<unsigned> all;
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0, configuration = 0, value = 0;
    std::size_t count = 1;
    const auto id =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &count, &value, 0, nullptr, &configuration);
    all.push_back(static_cast<unsigned>(id));
    if (id == H5Z_FILTER_DEFLATE) all.push_back(value);  // the level
  }
  return all;
}

/// The box in which an array is copied: whole chunks of the copy, and as much more as memory allows, the last
/// dimensions first.
Dims box_to_copy(const Dims& shape, const Dims& chunk, std::int64_t element_bytes) {
  Dims box = chunk.empty() ? Dims(shape.size(), 1) : chunk;
  for (std::size_t d = 0; d < box.size(); ++d) box[d] = std::min(box[d], shape[d]);
  for (std::size_t d = box.size(); d-- > 0;) {
    const std::int64_t bytes = DatasetInfo{.shape = box}.elements() * element_bytes;
    box[d] = std::min(shape[d], box[d] * std::max<std::int64_t>(1, most_box_bytes / bytes));
    if (box[d] < shape[d]) break;
  }
  return box;
}

std::vector<std::pair<std::string, H5L_type_t>> links_in(hid_t group) {
  std::vector<std::pair<std::string, H5L_type_t>> links;
  const auto add = [](hid_t, const char* name, const H5L_info_t* info, void* to) -> herr_t {
    static_cast<std::vector<std::pair<std::string, H5L_type_t>>*>(to)->emplace_back(name, info->type);
    return 0;
  };
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &links) < 0)
    refuse("its links cannot be listed ({})", innermost_reason());
  return links;
}

std::vector<std::string> attributes_of(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  hsize_t at = 0;
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, add, &names) < 0)
    refuse("its attributes cannot be listed ({})", innermost_reason());
  return names;
}

void copy_attribute(hid_t from, hid_t to, const std::string& name) {
  const Handle old(H5Aopen(from, name.c_str(), H5P_DEFAULT), H5Aclose);
  const Handle stored(H5Aget_type(old), H5Tclose), space(H5Aget_space(old), H5Sclose);
  if (!old.ok() || !stored.ok() || !space.ok())
    refuse("the attribute '{}' cannot be read ({})", name, innermost_reason());
  if (H5Tdetect_class(stored, H5T_REFERENCE) > 0)
    refuse(
        "the attribute '{}' refers to other objects, which a copy would lose. h5repack -l changes chunks and keeps "
        "references",
        name);
  const Handle type(H5Tcopy(stored), H5Tclose);  // of no file
  const Handle made(H5Acreate2(to, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!made.ok()) fail("the attribute '{}' cannot be written ({})", name, innermost_reason());
  const auto elements = H5Sget_simple_extent_npoints(space);
  if (elements <= 0) return;
  std::vector<char> values(static_cast<std::size_t>(elements) * H5Tget_size(type));
  if (H5Aread(old, type, values.data()) < 0) refuse("the attribute '{}' cannot be read ({})", name, innermost_reason());
  const bool written = H5Awrite(made, type, values.data()) >= 0;
  const auto reason = written ? "" : innermost_reason();
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, values.data());
  if (!written) fail("the attribute '{}' cannot be written ({})", name, reason);
}

}  // namespace

class Rechunker {
 public:
  Rechunker(const std::string& source, const std::vector<NewLayout>& arrays, const NewFilters& filters)
      : source_(File::open(source)), arrays_(arrays), filters_(filters) {
    for (auto& a : arrays_) {
      source_.require_written(a.name);
      const auto info = source_.info(a.name);
      KEELSON_EXPECT(a.chunk.empty() || a.chunk.size() == info.shape.size());
      for (std::size_t d = 0; d < a.chunk.size(); ++d)
        a.chunk[d] = std::clamp<std::int64_t>(a.chunk[d], 1, std::max<std::int64_t>(1, info.shape[d]));
      constexpr std::int64_t most = std::int64_t{1} << 32;
      const auto bytes = DatasetInfo{.shape = a.chunk}.elements() * std::max<std::int64_t>(1, size_of(info.type));
      if (!a.chunk.empty() && bytes >= most)
        refuse(
            "{}: a chunk of {} has {} bytes. Expected less than 4 GiB, HDF5's limit; choose smaller chunks, or store "
            "the array contiguous",
            place(source, a.name), to_string(a.chunk), bytes);
      bytes_ += info.elements() * size_of(info.type);
    }
  }

  void copy_to(const std::string& target, const std::function<void(std::int64_t)>& progress) {
    require_space(target);
    const Lock lock;
    const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose), access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_obj_track_times(creation, false);
#if H5_VERSION_GE(1, 10, 2)
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);  // readable by 1.8 and newer
#endif
    const hid_t file = H5Fcreate(target.c_str(), H5F_ACC_TRUNC, creation, access);
    if (file < 0) fail("{}: cannot be created ({})", target, innermost_reason());
    target_ = target;
    progress_ = progress;
    try {
      copy_group(source_.id_, file, "/");
      if (H5Fflush(file, H5F_SCOPE_LOCAL) < 0)
        fail("{}: cannot be written to its end ({})", target, innermost_reason());
    } catch (...) {
      // Where the disk is full, HDF5 closes a file at the second call.
      if (H5Fclose(file) < 0) H5Fclose(file);
      throw;
    }
    if (H5Fclose(file) < 0) {
      const auto reason = innermost_reason();
      H5Fclose(file);
      fail("{}: cannot be written to its end ({})", target, reason);
    }
  }

  bool is_done(const std::string& target) const {
    const File copy = File::open(target);
    return std::ranges::all_of(arrays_, [&](const NewLayout& a) {
      if (!copy.has(a.name)) return false;
      const auto old = source_.info(a.name), now = copy.info(a.name);
      if (now.shape != old.shape || now.type != old.type || now.chunk != a.chunk) return false;
      const Lock lock;
      const Handle dataset(copy.open_dataset(a.name), H5Dclose);
      const Handle found(H5Dget_create_plist(dataset), H5Pclose), expected = creation_list(a, filters_);
      return filters_in(found) == filters_in(expected);
    });
  }

 private:
  /// Before hours are spent. What is compressed may be much smaller.
  void require_space(const std::string& target) const {
    std::error_code error;
    const auto folder = std::filesystem::path(target).parent_path();
    const auto space = std::filesystem::space(folder.empty() ? "." : folder, error);
    if (error || filters_.gzip > 0 || space.available >= static_cast<std::uintmax_t>(bytes_)) return;
    fail("{}: cannot be written: {:.1f} MB are needed, and {:.1f} MB are free in {}", target,
         static_cast<double>(bytes_) * 1e-6, static_cast<double>(space.available) * 1e-6, folder.string());
  }

  void copy_attributes(hid_t from, hid_t to, const std::string& object) const {
    try {
      for (const auto& name : attributes_of(from)) copy_attribute(from, to, name);
    } catch (const InputError& error) {
      refuse("{}: {}", place(source_.path(), object), error.what());
    } catch (const Error& error) {
      fail("{}: {}", place(target_, object), error.what());
    }
  }

  void copy_group(hid_t from, hid_t to, const std::string& path) {
    const Handle old(H5Gopen2(from, path.c_str(), source_.access()), H5Gclose);
    const Handle made(H5Gopen2(to, path.c_str(), H5P_DEFAULT), H5Gclose);
    if (!old.ok()) refuse("{} cannot be read ({})", place(source_.path(), path), innermost_reason());
    copy_attributes(old, made, path);
    for (const auto& [name, type] : links_in(old)) {
      const auto object = (path == "/" ? "" : path) + "/" + name;
      const auto array = std::ranges::find(arrays_, object, [](auto& a) { return absolute(a.name); });
      const bool holds_array =
          std::ranges::any_of(arrays_, [&](auto& a) { return absolute(a.name).starts_with(object + "/"); });
      if (array != arrays_.end()) {
        copy_array(*array, to);
      } else if (holds_array) {
        const Handle list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
        H5Pset_obj_track_times(list, false);
        const Handle group(H5Gcreate2(to, object.c_str(), H5P_DEFAULT, list, H5P_DEFAULT), H5Gclose);
        if (!group.ok()) fail("{} cannot be made ({})", place(target_, object), innermost_reason());
        copy_group(from, to, object);
      } else {
        const auto status = type == H5L_TYPE_HARD
                                ? H5Ocopy(old, name.c_str(), made, name.c_str(), H5P_DEFAULT, H5P_DEFAULT)
                                : H5Lcopy(old, name.c_str(), made, name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
        if (status < 0)
          fail("{} cannot be copied to {} ({})", place(source_.path(), object), target_, innermost_reason());
      }
    }
  }

  void copy_array(const NewLayout& layout, hid_t to) {
    const Handle old(source_.open_dataset(layout.name), H5Dclose);
    if (source_.links_) source_.links_->check_storage(old, place(source_.path(), layout.name), 0);
    const Handle stored(H5Dget_type(old), H5Tclose), old_space(H5Dget_space(old), H5Sclose);
    const Handle type = new_type(stored), creation = creation_list(layout, filters_);
    const Dims shape = extents(old_space);
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose);
    const auto where = place(target_, layout.name);
    Handle made(H5Dcreate2(to, absolute(layout.name).c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT),
                H5Dclose);
    if (!made.ok()) fail("{} cannot be made ({})", where, innermost_reason());
    copy_attributes(old, made, layout.name);
    const auto element = static_cast<std::int64_t>(H5Tget_size(type));
    const Dims box = box_to_copy(shape, layout.chunk, element);
    std::vector<char> memory(static_cast<std::size_t>(DatasetInfo{.shape = box}.elements() * element));
    for (std::vector<hsize_t> start(shape.size(), 0);;) {
      std::vector<hsize_t> count(shape.size());
      std::int64_t bytes = element;
      for (std::size_t d = 0; d < count.size(); ++d) {
        count[d] = std::min(static_cast<hsize_t>(box[d]), dims[d] - start[d]);
        bytes *= static_cast<std::int64_t>(count[d]);
      }
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
      const Handle in_memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
      if (H5Dread(old, type, in_memory, space, H5P_DEFAULT, memory.data()) < 0)
        refuse("{} cannot be read ({}). Is the copy complete? Fetch or make it again",
               place(source_.path(), layout.name), innermost_reason());
      if (H5Dwrite(made, type, in_memory, space, H5P_DEFAULT, memory.data()) < 0)
        fail("{} cannot be written ({})", where, innermost_reason());
      if (progress_) progress_(bytes);
      std::size_t d = start.size();
      while (d > 0 && (start[d - 1] += static_cast<hsize_t>(box[d - 1])) >= dims[d - 1]) start[--d] = 0;
      if (d == 0) break;
    }
    if (H5Dflush(made) < 0) fail("{} cannot be written to its end ({})", where, innermost_reason());
  }

  File source_;
  std::vector<NewLayout> arrays_;
  NewFilters filters_;
  std::int64_t bytes_ = 0;  ///< of the arrays
  std::string target_;
  std::function<void(std::int64_t)> progress_;
};

}  // namespace detail

void rechunk(const std::string& source, const std::string& target, const std::vector<NewLayout>& arrays,
             const NewFilters& filters, const std::function<void(std::int64_t bytes)>& progress) {
  detail::Rechunker(source, arrays, filters).copy_to(target, progress);
}

bool is_rechunked(const std::string& source, const std::string& target, const std::vector<NewLayout>& arrays,
                  const NewFilters& filters) {
  return detail::Rechunker(source, arrays, filters).is_done(target);
}

}  // namespace keelson::hdf5
