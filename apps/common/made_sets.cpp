#include "apps/common/made_sets.hpp"

#include <algorithm>

#include "apps/common/progress.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::app {
namespace fs = std::filesystem;

std::int64_t make_sets(const std::string& out, const MadeSets& sets, std::int64_t per_file, Communicator& world,
                       const std::function<void(const MadeFile&)>& write) {
  std::vector<MadeFile> files;
  for (const auto& [set, samples] : sets)
    for (std::int64_t at = 0; at < samples; at += per_file)
      files.push_back({set, at, std::min(at + per_file, samples), fs::path(out) / set, at / per_file});
  Progress progress("file");
  on_each_rank(&world, [&] {
    for (std::int64_t i = world.rank(); i < std::ssize(files); i += world.size()) {
      const MadeFile& file = files[static_cast<std::size_t>(i)];
      std::error_code error;
      fs::create_directories(file.folder, error);
      if (error) refuse("--out {}: cannot be made ({}); choose a folder that can be written", out, error.message());
      write(file);
      if (world.rank() == 0) progress.show(i + 1, std::ssize(files));
    }
  });
  return std::ssize(files);
}

}  // namespace keelson::app
