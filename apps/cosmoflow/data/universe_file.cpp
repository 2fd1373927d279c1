#include "apps/cosmoflow/data/detail/universe_file.hpp"

#include "engine/data/arrays/array_file.hpp"
#include "engine/data/files/find_files.hpp"

namespace keelson::cosmoflow::detail {
namespace {

/// Reads compressed, chunked and swapped arrays, and those of any type, converted by hdf5::File.
class Hdf5Universes final : public UniverseFile {
 public:
  Hdf5Universes(const std::string& path, const std::string& folder)
      : file_(hdf5::File::open(path, folder)), content_(inspect(file_)) {}

  const UniverseContent& content() const override { return content_; }
  std::vector<float> targets() const override { return file_.read<float>(content_.layout.targets); }

  void read(const VoxelBox& box, void* dst, const Visit& visit) const override {
    const UniverseLayout& layout = content_.layout;
    const auto [offset, count] = box_in_file(layout, box);
    const hdf5::Type type = is_native(layout.type) ? layout.type : hdf5::Type::f32;
    const std::int64_t c = layout.channels;
    if (!dst) dst = thread_memory(box.planes * box.edge * box.edge * c * element_bytes(type));
    if (type == hdf5::Type::i16)
      file_.read_box(layout.volume, offset, count, static_cast<std::int16_t*>(dst));
    else if (type == hdf5::Type::u16)
      file_.read_box(layout.volume, offset, count, static_cast<std::uint16_t*>(dst));
    else
      file_.read_box(layout.volume, offset, count, static_cast<float*>(dst));
    visit({dst, type, {box.planes, box.edge, box.edge}, {box.edge * box.edge * c, box.edge * c, c}}, 0);
  }

 private:
  hdf5::File file_;
  UniverseContent content_;
};

}  // namespace

BoxInFile box_in_file(const UniverseLayout& layout, const VoxelBox& box) {
  BoxInFile at{{box.first.begin(), box.first.end()}, {box.planes, box.edge, box.edge}};
  if (layout.channel_axis) at.offset.push_back(0), at.count.push_back(layout.channels);
  if (layout.many) at.offset.insert(at.offset.begin(), box.sample), at.count.insert(at.count.begin(), 1);
  return at;
}

char* thread_memory(std::int64_t bytes) {
  constexpr std::size_t alignment = 64;
  thread_local std::vector<char> memory;
  const std::size_t needed = static_cast<std::size_t>(bytes) + alignment;
  if (memory.size() < needed) memory.resize(needed);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (alignment - at % alignment) % alignment;
}

std::unique_ptr<const UniverseFile> open_hdf5_universes(const std::string& path, const std::string& folder) {
  return std::make_unique<Hdf5Universes>(path, folder);
}

std::unique_ptr<const UniverseFile> open_universe_file(const std::string& path, const std::string& folder) {
  if (is_tfrecord_name(path)) return open_tfrecord_universes(path);
  return is_hdf5_file(path) ? open_hdf5_universes(path, folder) : open_array_universes(path, folder);
}

}  // namespace keelson::cosmoflow::detail
