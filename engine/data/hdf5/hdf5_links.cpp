#include "engine/data/hdf5/detail/hdf5_links.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/error.hpp"

namespace keelson::hdf5::detail {
namespace fs = std::filesystem;
namespace {

/// The most virtual data sets that may lead to each other; more means a mistake or a cycle.
constexpr int most_depth = 4;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

bool lies_in(const fs::path& file, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end == folder.end();
}

std::string source_text(hid_t creation, std::size_t i, ssize_t (*get)(hid_t, std::size_t, char*, std::size_t)) {
  const auto length = get(creation, i, nullptr, 0);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  if (length > 0) get(creation, i, text.data(), text.size() + 1);
  return text;
}

/// Whether the mapped parts cover the whole virtual data set.
bool covers(hid_t creation, std::size_t mappings, hid_t space) {
  const auto all = H5Sget_simple_extent_npoints(space);
  hssize_t sum = 0;
  for (std::size_t i = 0; i < mappings; ++i) {
    const Handle part(H5Pget_virtual_vspace(creation, i), H5Sclose);
    sum += H5Sget_select_npoints(part);
  }
  if (sum < all) return false;
#if H5_VERSION_GE(1, 10, 6)
  Handle joined(H5Pget_virtual_vspace(creation, 0), H5Sclose);
  for (std::size_t i = 1; i < mappings; ++i) {
    const Handle part(H5Pget_virtual_vspace(creation, i), H5Sclose);
    Handle more(H5Scombine_select(joined, H5S_SELECT_OR, part), H5Sclose);
    if (!more.ok()) return sum == all;  // selections that are not boxes
    joined.swap(more);
  }
  return H5Sget_select_npoints(joined) == all;
#else
  return sum == all;
#endif
}

/// Whether a source's selection lies within the source's shape.
bool within(hid_t selection, const Dims& shape) {
  if (H5Sget_select_type(selection) == H5S_SEL_ALL) return true;
  std::vector<hsize_t> first(shape.size()), last(shape.size());
  if (H5Sget_simple_extent_ndims(selection) != static_cast<int>(shape.size()) ||
      H5Sget_select_bounds(selection, first.data(), last.data()) < 0)
    return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (last[d] >= static_cast<hsize_t>(shape[d])) return false;
  return true;
}

}  // namespace

std::string why_unreadable(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (S_ISDIR(status.st_mode)) return "it is a folder";
  if (!S_ISREG(status.st_mode)) return "it is a pipe or a device, not a regular file";
  return "";
}

LinkPolicy::LinkPolicy(const std::string& path, const std::string& folder)
    : folder_(fs::weakly_canonical(folder.empty() ? folder_of(path) : fs::path(folder)).string()),
      access_(H5Pcreate(H5P_DATASET_ACCESS)) {
  H5Pset_elink_cb(access_, on_external_link, this);
}

LinkPolicy::~LinkPolicy() {
  const Lock lock;  // many threads close files
  H5Pclose(access_);
}

std::string LinkPolicy::why_outside(const std::string& file) const {
  if (const auto why = why_unreadable(file); !why.empty()) return why;
  std::error_code error;
  const auto real = fs::canonical(file, error);
  if (error) return error.message();
  return lies_in(real, folder_) ? "" : fmt::format("it lies outside the data's folder {}", folder_);
}

herr_t LinkPolicy::on_external_link(const char* parent, const char*, const char* child, const char* object, unsigned*,
                                    hid_t, void* data) {
  auto& policy = *static_cast<LinkPolicy*>(data);
  try {
    const auto file = (folder_of(parent) / child).string();
    const auto why = policy.why_outside(file);
    if (why.empty()) return 0;
    policy.refused_ = fmt::format(
        "{}: an external link leads to '{}' in {}, which is not read: {}. Expected regular files in the data's folder; "
        "copy the file there",
        parent, object, file, why);
  } catch (const std::exception& e) {  // exceptions must not pass through a C library
    policy.refused_ = e.what();
  }
  return -1;
}

void LinkPolicy::explain() {
  if (refused_.empty()) return;
  const std::string why = std::exchange(refused_, "");
  refuse("{}", why);
}

void LinkPolicy::check_storage(hid_t dataset, const std::string& where, int depth) const {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!creation.ok()) refuse("{} cannot be read ({})", where, innermost_reason());
  if (H5Pget_layout(creation) == H5D_VIRTUAL) check_virtual(dataset, creation, where, depth);
  refuse_external_storage(dataset, where);
}

void refuse_external_storage(hid_t dataset, const std::string& where) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (H5Pget_external_count(creation) > 0)
    refuse(
        "{} has external storage: its elements lie in a file that is not HDF5. Expected them in the file; h5repack "
        "brings them in",
        where);
}

void require_written(hid_t dataset, const std::string& where) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose), space(H5Dget_space(dataset), H5Sclose);
  const auto layout = H5Pget_layout(creation);
  if (layout == H5D_COMPACT || layout == H5D_VIRTUAL || H5Sget_simple_extent_npoints(space) <= 0) return;
  H5D_space_status_t status{};
  if (H5Dget_space_status(dataset, &status) < 0) refuse("{} cannot be read ({})", where, innermost_reason());
  if (status != H5D_SPACE_STATUS_ALLOCATED)
    refuse("{}: {} of its elements were never written. Expected all of them; was the program that made the file ended?",
           where, status == H5D_SPACE_STATUS_NOT_ALLOCATED ? "all" : "some");
}

void LinkPolicy::check_virtual(hid_t dataset, hid_t creation, const std::string& where, int depth) const {
  if (depth >= most_depth)
    refuse("{} is a virtual data set that leads to more than {} others, or to itself. Expected stored data", where,
           most_depth);
  const Handle space(H5Dget_space(dataset), H5Sclose);
  std::size_t mappings = 0;
  if (H5Pget_virtual_count(creation, &mappings) < 0 || mappings == 0 || !covers(creation, mappings, space))
    refuse("{} is a virtual data set of which parts have no source. Expected a source for every element", where);
  const auto own = file_of(dataset);
  for (std::size_t i = 0; i < mappings; ++i) {
    const auto name = source_text(creation, i, H5Pget_virtual_filename);
    const auto object = source_text(creation, i, H5Pget_virtual_dsetname);
    const auto file = name == "." ? own : (folder_of(own) / name).string();
    if (const auto why = why_outside(file); !why.empty())
      refuse(
          "{} is a virtual data set whose source '{}' in {} is not read: {}. Expected its sources in the data's "
          "folder; copy them there",
          where, object, file, why);
    const Dims shape = shape_of_source(file, folder_, object, depth + 1);
    const Handle part(H5Pget_virtual_srcspace(creation, i), H5Sclose);
    if (!within(part, shape))
      refuse(
          "{} is a virtual data set whose source '{}' in {} has the shape {}, which is smaller than the selection. Was "
          "it made again, or cut off?",
          where, object, file, to_string(shape));
  }
}

}  // namespace keelson::hdf5::detail
