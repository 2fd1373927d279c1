#include "apps/cosmoflow/data/detail/universe_files.hpp"

#include <algorithm>
#include <cstring>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/good_samples.hpp"

namespace keelson::cosmoflow {

std::vector<std::string> find_universes(const std::string& path) {
  return find_files(path, {hdf5_form(), tfrecord_form(), netcdf_form(), numpy_form()});
}

}  // namespace keelson::cosmoflow

namespace keelson::cosmoflow::detail {

UniverseFiles::UniverseFiles(const std::string& path, std::int64_t skip_broken,
                             std::shared_ptr<const FileCopies> copies, Communicator* communicator)
    : list_(path, communicator, find_universes, std::move(copies)),
      skip_broken_(skip_broken),
      facts_(communicator),
      targets_(communicator) {
  on_each_rank(communicator, [&] {
    first_file_ = find_good_file(size(), skip_broken_, [&](std::int64_t file) { read_first(file); });
  });
  if (communicator) {
    Digest first;
    first.add(first_.layout.volume).add(first_.layout.type).add(first_.layout.many).add(first_.layout.columns);
    for (const auto extent : first_.layout.volume_shape()) first.add(extent);
    for (const auto& p : first_.parameters) first.add(p.name).add(p.has_range).add(p.minimum).add(p.maximum);
    compare_hash(*communicator, first.value(), "data in " + list_.name(first_file_),
                 "let all ranks see the same files");
  }
  check_all(communicator);
  around_first_ = {};
  if (communicator && communicator->size() > 1) on_each_rank(communicator, [&] { compare_some(communicator->rank()); });
}

std::int64_t UniverseFiles::volume_bytes(std::int64_t samples) const {
  return samples * layout().volume_elements() * element_bytes(layout().type);
}

/// Compares a few files of all ranks' shares, so that a rank that sees other data fails now, not when it reads a
/// sample.
void UniverseFiles::compare_some(int rank) const {
  const std::int64_t count = std::min(size(), sampled), stride = size() / count;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t file = (k * stride + rank) % size();
    if (facts(file).bytes > 0) open_anew(file);  // no file is empty, so the others are broken
  }
}

FileFacts UniverseFiles::facts(std::int64_t file) const {
  KEELSON_EXPECT(file >= 0 && file < size());
  FileFacts f;
  std::memcpy(&f, facts_.bytes().data() + file * std::int64_t{sizeof f}, sizeof f);
  return f;
}

const float* UniverseFiles::targets(std::int64_t row) const {
  return reinterpret_cast<const float*>(targets_.bytes().data()) + row * layout().columns;
}

UniverseFiles::Location UniverseFiles::locate(std::int64_t row) const {
  KEELSON_EXPECT(row >= 0 && row < rows_);
  std::int64_t low = 0, high = size() - 1;  // binary search for the first file whose end_row is above `row`
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (facts(middle).end_row > row)
      high = middle;
    else
      low = middle + 1;
  }
  return {low, row - (low == 0 ? 0 : facts(low - 1).end_row)};
}

std::shared_ptr<const OpenUniverse> UniverseFiles::open(std::int64_t file) const {
  return open_.get(file, [&] { return open_anew(file); });
}

std::shared_ptr<const OpenUniverse> UniverseFiles::open_anew(std::int64_t file) const {
  ++opened_;
  const auto name = path(file);
  const auto known = facts(file);
  const auto samples = known.end_row - (file == 0 ? 0 : facts(file - 1).end_row);
  const auto require = [&](bool same, const char* what) {
    if (!same)
      refuse(
          "{}: has {} than when the data were opened. Expected the same; let all ranks see the same files, and leave "
          "the files alone while they are in use",
          name, what);
  };
  auto opened = std::make_shared<OpenUniverse>();
  RawFile raw(name);
  require(raw.size() == known.bytes, "another size");
  if (known.volume_offset >= 0) {
    const auto around = Surroundings::read(raw, known.bytes, known.volume_offset, volume_bytes(samples));
    require(around.hash() == known.surroundings, "other arrays, attributes or targets");
    opened->volume_offset = known.volume_offset;
    opened->raw.emplace(std::move(raw));
    return opened;
  }
  auto file_of_universes = open_universe_file(name, list_.folder_of(file));
  const auto& content = file_of_universes->content();
  require_same(first_, content);
  require(content.samples == samples, "another number of samples");
  const auto* before = targets(known.end_row - samples);
  const auto now = file_of_universes->targets();
  require(std::equal(now.begin(), now.end(), before), "other targets");
  if (content.volume.raw_offset >= 0 &&
      is_native(content.volume.type)) {  // the volume may lie in another file, through a link
    opened->volume_offset = content.volume.raw_offset;
    opened->raw.emplace(content.volume.file);
  } else {
    opened->file = std::move(file_of_universes);
  }
  return opened;
}

std::uint64_t UniverseFiles::digest() const {
  const auto& l = layout();
  Digest digest;
  digest.add(l.volume).add(l.type).add(l.many).add(l.edge).add(l.channels).add(l.columns);
  digest.add(list_.digest()).add(facts_.digest()).add(targets_.digest());
  return digest.value();
}

std::int64_t UniverseFiles::shared_bytes() const {
  return list_.shared_bytes() + std::ssize(facts_.bytes()) + std::ssize(targets_.bytes());
}

std::int64_t UniverseFiles::rank_bytes() const {
  std::int64_t bytes = sizeof *this + static_cast<std::int64_t>(around_first_.bytes.capacity());
  for (const auto& p : first_.parameters)
    bytes += std::int64_t{sizeof p} + static_cast<std::int64_t>(p.name.capacity());
  open_.for_each([&](const OpenUniverse& o) {
    bytes += std::int64_t{sizeof(std::int64_t) + sizeof(std::shared_ptr<const OpenUniverse>) + sizeof o};
    if (o.raw) bytes += static_cast<std::int64_t>(o.raw->path().capacity());
    if (o.file) bytes += o.file->memory();
  });
  return bytes;
}

}  // namespace keelson::cosmoflow::detail
