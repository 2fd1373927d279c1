#include <algorithm>

#include "engine/base/atomic_file.hpp"
#include "engine/train/checkpoint.hpp"

namespace keelson {
namespace fs = std::filesystem;

fs::path CheckpointFolder::write(const CheckpointCopy& copy, const std::function<void()>& progress) const {
  std::error_code e;
  fs::create_directories(folder_, e);
  if (e) fail("cannot make the folder {}: {}", folder_.string(), e.message());
  remove_temporaries(folder_);
  const auto path = path_of(copy.state.step);
  write_checkpoint(path, copy, progress);
  if (copy.best) link_atomically(path, best());
  const auto all = list();
  const auto keep = static_cast<std::size_t>(std::max(1, keep_));
  for (std::size_t i = 0; i + keep < all.size(); ++i) fs::remove(all[i], e);  // what cannot be removed does no harm
  return path;
}

fs::path CheckpointFolder::path_of(std::int64_t step) const { return folder_ / fmt::format("step-{:010}.h5", step); }

std::vector<fs::path> CheckpointFolder::list() const {
  std::vector<fs::path> found;
  std::error_code e;
  for (const auto& entry : fs::directory_iterator(folder_, e)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".h5")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());  // step numbers have leading zeros
  return found;
}

fs::path find_checkpoint(const fs::path& given, bool best) {
  if (fs::is_regular_file(given)) return given;
  if (!fs::exists(given)) refuse("{}: no such checkpoint or run folder", given.string());
  for (const auto& folder : {given / "checkpoints", given}) {
    const CheckpointFolder checkpoints(folder, 1);
    if (best && fs::is_regular_file(checkpoints.best())) return checkpoints.best();
    if (const auto all = checkpoints.list(); !all.empty()) return all.back();
  }
  refuse("{}: holds no checkpoint (expected checkpoints/step-<n>.h5 in it)", given.string());
}

}  // namespace keelson
