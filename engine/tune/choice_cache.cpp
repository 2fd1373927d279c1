#include "engine/tune/choice_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/base/atomic_file.hpp"
#include "engine/base/cache_folder.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/small_file.hpp"

namespace keelson {
namespace fs = std::filesystem;

namespace {

/// An exclusive lock on a file beside the one that it guards, which is replaced as a whole. Ends with the process, too.
class Lock {
 public:
  explicit Lock(const fs::path& guarded) {
    std::error_code ignored;  // opening the file then tells
    fs::create_directories(guarded.parent_path(), ignored);
    fd_ = ::open((guarded.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) return;
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;  // some file systems have no locks
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace

std::string ChoiceCache::choose(const std::string& key, const std::function<bool(const std::string&)>& usable,
                                const std::function<std::string()>& measure) {
  const auto known = [&] {
    const auto found = choices_.find(key);
    return found != choices_.end() && usable(found->second);
  };
  if (known()) return choices_[key];
  if (file_.empty()) return choices_[key] = measure();
  const Lock lock(file_);
  read();
  if (known()) return choices_[key];
  choices_[key] = measure();
  write();
  return choices_[key];
}

void ChoiceCache::read() {
  std::error_code error;
  if (!fs::exists(file_, error)) return;
  // What is no regular file, or too large, counts as broken.
  auto all = nlohmann::json::parse(read_small_file(file_.string()).value_or(""), nullptr, false);
  bool broken = !all.is_object();
  if (broken) all = nlohmann::json::object();
  for (const auto& [key, choice] : all.items()) {
    if (choice.is_string())
      choices_.insert_or_assign(key, choice.get<std::string>());
    else
      broken = true;
  }
  if (broken && !warned_)
    fmt::print(stderr, "keelson: warning: {} is not a file of choices and is ignored; {}\n", file_.string(),
               fs::is_regular_file(file_, error) ? "it will be replaced"
                                                 : "it is no regular file, so choices are not kept: remove it");
  warned_ = warned_ || broken;
}

void ChoiceCache::write() {
  try {
    write_atomically(file_, nlohmann::json(choices_).dump(1) + "\n");
  } catch (const std::runtime_error&) {
    // A full or read-only disk, or a folder of this name, costs the next run its time, no more.
  }
}

bool tuning_is_off() {
  const std::string requested = environment("KEELSON_TUNE");
  if (requested != "" && requested != "on" && requested != "off")
    refuse("KEELSON_TUNE={}: 'on' (measure algorithms, the default) or 'off' is expected", requested);
  return requested == "off";
}

fs::path choice_file(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / (name + ".json");
}

}  // namespace keelson
