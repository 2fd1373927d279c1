#include <fmt/ranges.h>

#include "apps/cosmoflow/data/detail/universe_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/arrays/array_file.hpp"

namespace keelson::cosmoflow::detail {
namespace {

/// Universes in files of named arrays that are not HDF5: NetCDF, and NumPy's .npz.
class ArrayUniverses final : public UniverseFile {
 public:
  ArrayUniverses(const std::string& path, const std::string& folder)
      : file_(ArrayFile::open(path, folder, ", or TFRecord (names with .tfrecord)")), x_(array("x")), y_(array("y")) {
    content_.path = path;
    content_.volume = facts(x_);
    content_.targets = facts(y_);
    set_layout(content_);
    for (std::int64_t i = 0; i < content_.layout.columns; ++i)
      content_.parameters.push_back({.name = fmt::format("y{}", i)});
  }

  const UniverseContent& content() const override { return content_; }
  std::vector<float> targets() const override { return file_->read<float>("y"); }

  void read(const VoxelBox& box, void* dst, const Visit& visit) const override {
    const std::int64_t c = content_.layout.channels;
    const BoxInFile at = box_in_file(content_.layout, box);
    if (!dst) dst = thread_memory(box.planes * box.edge * box.edge * c * static_cast<std::int64_t>(sizeof(float)));
    file_->read_box(x_, at.offset, at.count, static_cast<float*>(dst));
    visit({dst, hdf5::Type::f32, {box.planes, box.edge, box.edge}, {box.edge * box.edge * c, box.edge * c, c}}, 0);
  }
  std::int64_t memory() const override { return x_.content ? std::ssize(*x_.content) : 0; }

 private:
  ArrayInfo array(const char* name) const {
    if (!file_->has("x") || !file_->has("y"))
      refuse("{}: {} with the arrays {}. Expected 'x', the volumes, and 'y', the targets, in one file{}", file_->path(),
             file_->form(), fmt::join(file_->names(), ", "),
             numpy_form().has_name(file_->path()) ? ": write them with numpy.savez(file, x=..., y=...)" : "");
    return file_->info(name);
  }
  /// Elements that lie as in memory are read by their position, as those of HDF5 files. Others become float32.
  static hdf5::DatasetInfo facts(const ArrayInfo& a) {
    const bool as_in_memory = a.is_direct() && !a.content && !a.swapped && a.stride == 0 && a.packing == ArrayPacking{};
    hdf5::DatasetInfo d{.name = a.name, .shape = a.shape, .type = a.type, .type_name = a.type_name, .file = a.file};
    if (as_in_memory && is_native(a.type))
      d.raw_offset = a.begin;
    else if (a.is_numeric())
      d.type = hdf5::Type::f32;
    return d;
  }

  std::unique_ptr<const ArrayFile> file_;
  ArrayInfo x_, y_;
  UniverseContent content_;
};

}  // namespace

std::unique_ptr<const UniverseFile> open_array_universes(const std::string& path, const std::string& folder) {
  return std::make_unique<ArrayUniverses>(path, folder);
}

}  // namespace keelson::cosmoflow::detail
