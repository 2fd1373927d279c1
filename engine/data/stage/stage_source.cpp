#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/read_once.hpp"
#include "engine/data/stage/detail/stage_source.hpp"

namespace keelson::detail {

StageSource::StageSource(const StageOptions& options, Communicator* world)
    : list_(options.source, world, options.find), facts_(world) {
  std::vector<Facts> facts;
  on_first_rank(world, [&] {
    for (std::int64_t i = 0; i < size(); ++i) facts.push_back(look(i));
  });
  facts_.append(facts.data(), static_cast<std::size_t>(size()) * sizeof(Facts), 0);
  facts_.finish();
  read_beside(options.beside, world);
}

StageSource::Facts StageSource::look(std::int64_t file) const {
  struct stat status{};
  if (::stat(path(file).c_str(), &status) != 0)
    refuse("{}: cannot be inspected: {}. Was it moved?", path(file), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("{}: is a pipe, a device or a folder. Expected a regular file", path(file));
  constexpr std::int64_t second = 1'000'000'000;
  return {status.st_size, status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec};
}

std::int64_t StageSource::bytes(std::int64_t file) const {
  KEELSON_EXPECT(file >= 0 && file < size());
  Facts f;
  std::memcpy(&f, facts_.bytes().data() + file * std::int64_t{sizeof f}, sizeof f);
  return f.bytes;
}

std::uint64_t StageSource::digest() const {
  Digest digest;
  digest.add(size()).add(list_.digest()).add(facts_.digest());
  return digest.value();
}

void StageSource::read_beside(const std::vector<std::string>& names, Communicator* world) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(name(0)).parent_path();
  for (const auto& name : names) {
    std::string found;  // on rank 0
    const auto here = fs::path(path(0)).parent_path();
    for (const auto& candidate : {here / ".." / name, here / name})
      if ((!world || world->rank() == 0) && fs::exists(candidate)) found = candidate.string();
    if (world) found = world->allgather(found)[0];
    if (!found.empty()) beside_.push_back({(folder / name).string(), read_once(found, world)});
  }
}

}  // namespace keelson::detail
