#include "tests/fuzz/special.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/fuzz/trial.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

void make_socket(const fs::path& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const auto text = path.string();
  if (text.size() >= sizeof name.sun_path) return fs::create_directory(path), void();
  std::memcpy(name.sun_path, text.c_str(), text.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) fs::create_directory(path);
  if (fd >= 0) ::close(fd);
}

void make_sparse(const fs::path& path) {
  std::ofstream(path).put('\n');
  fs::resize_file(path, std::uintmax_t{8} << 30);
}

}  // namespace

void make_special(const fs::path& path, Random& random) {
  fs::remove_all(path);
  switch (random() % 6) {
    case 0:
      fs::create_directory(path);
      break;
    case 1:
      ::mkfifo(path.c_str(), 0600);
      break;
    case 2:
      fs::create_symlink("/dev/zero", path);  // never an output
      break;
    case 3:
      fs::create_symlink(path.filename(), path);
      break;
    case 4:
      make_socket(path);
      break;
    default:
      make_sparse(path);
  }
}

void damage_run(const fs::path& run, const fs::path& path, Random& random) {
  fs::copy(run, path, fs::copy_options::recursive);
  const std::array<const char*, 3> names{"run.lock", "metrics.jsonl", "report.html"};
  const auto file = path / names[random() % names.size()];
  fs::remove_all(file);
  switch (random() % 3) {
    case 0:
      fs::create_directory(file);
      break;
    case 1:
      ::mkfifo(file.c_str(), 0600);
      break;
    default:
      make_sparse(path / "run.lock");
  }
}

std::string damage_range(const fs::path& universe, Random& random) {
  auto bytes = content_of(universe);
  const bool least = random() % 2 == 0;
  const auto values = hdf5::File::open(universe.string())
                          .numbers_attribute<double>("/", least ? "parameter_minimum" : "parameter_maximum");
  const auto at = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
  KEELSON_EXPECT(at != bytes.npos);
  const auto which = random() % values.size();
  const double old = values[which];
  const std::array<double, 8> others{0, 1e300, old / 20, old * 1.001, -old, old + 1, old - 1, std::nan("")};
  double value = old;
  while (value == old) value = others[random() % others.size()];
  std::memcpy(&bytes[at + which * sizeof value], &value, sizeof value);
  return bytes;
}

std::string damage_statistics(const fs::path& statistics, Random& random) {
  auto bytes = content_of(statistics);
  const auto file = hdf5::File::open(statistics.string());
  const auto least = file.info("climate/minval"), most = file.info("climate/maxval");
  KEELSON_EXPECT(least.raw_offset > 0 && most.raw_offset > 0);
  const auto channel =
      static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(least.elements())) * std::int64_t{sizeof(float)};
  std::memcpy(&bytes[static_cast<std::size_t>(most.raw_offset + channel)],
              &bytes[static_cast<std::size_t>(least.raw_offset + channel)], sizeof(float));
  return bytes;
}

std::string lose_value(std::string config, Random& random) {
  std::vector<std::size_t> signs;
  for (auto at = config.find('='); at != config.npos; at = config.find('=', at + 1)) signs.push_back(at);
  const auto at = signs[random() % signs.size()];
  const auto end = config.find('\n', at);
  const std::array<const char*, 4> rests{"", "=", "= # 3", "# = 3"};
  return config.replace(at, end - at, rests[random() % rests.size()]);
}

}  // namespace keelson::fuzz
