#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "engine/base/background_thread.hpp"
#include "engine/base/error.hpp"
#include "engine/base/huge_pages.hpp"
#include "engine/base/small_file.hpp"
#include "engine/data/files/crc32c.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/stage/detail/stage_work.hpp"

namespace keelson::detail {
namespace {

namespace fs = std::filesystem;
using StageClock = std::chrono::steady_clock;

constexpr std::int64_t copy_piece = std::int64_t{4} << 20;  // bytes that a thread reads at once
constexpr int copy_threads = 8;  // per place: one thread does not fill a parallel file system
constexpr int copy_attempts = 3;

const char* mode_name(StageMode mode) {
  return mode == StageMode::full ? "full" : mode == StageMode::sample ? "sample" : "shard";
}

std::string size_text(std::int64_t bytes) {
  const auto n = static_cast<double>(bytes);
  return n < 1e9 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.1f} GB", n / 1e9);
}

std::uint32_t crc_of_file(const std::string& path) {
  const RawFile file(path);
  const auto bytes = file.size();
  std::vector<char> buffer(static_cast<std::size_t>(std::min(bytes, copy_piece)));
  std::uint32_t crc = 0;
  for (std::int64_t at = 0; at < bytes; at += copy_piece) {
    const auto n = std::min(copy_piece, bytes - at);
    file.read(buffer.data(), n, at);
    crc = crc32c(buffer.data(), static_cast<std::size_t>(n), crc);
  }
  return crc;
}

/// -1: there is no such file.
std::int64_t bytes_of_file(const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? -1 : static_cast<std::int64_t>(bytes);
}

/// Makes the folder that AtomicFile needs; its error is that of the file.
std::string with_folder(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  return path;
}

}  // namespace

StagedFile::StagedFile(const std::string& path) : path_(path), file_(with_folder(path), Target::hdf5) {
  descriptor_ = ::open(file_.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot write {}{}", path_, reason_of_writing(errno, fs::path(path_).parent_path()));
}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void StagedFile::write(const void* data, std::int64_t bytes) {
  const auto* at = static_cast<const char*>(data);
  crc_ = crc32c(at, static_cast<std::size_t>(bytes), crc_);
  bytes_ += bytes;
  while (bytes > 0) {
    const auto n = ::write(descriptor_, at, static_cast<std::size_t>(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail("cannot write {}{}", path_, reason_of_writing(n < 0 ? errno : ENOSPC, fs::path(path_).parent_path()));
    at += n;
    bytes -= n;
  }
}

void StagedFile::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0)  // some file systems report a full disk only here
    fail("cannot write {}{}", path_, reason_of_writing(errno, fs::path(path_).parent_path()));
  file_.commit_unsynced();
}

StageWork::StageWork(const StageOptions& options, const StageSource& source, const StagePlan& plan,
                     const StagePlaces& places)
    : options_(options), source_(source), plan_(plan), places_(places), manifest_(options.target) {
  for (const auto file : plan.files_of(places.place))
    if (plan.lane(file, places.lanes) == places.lane)
      items_.push_back({.file = file, .owned = plan.owner(file) == places.place});
  std::ranges::sort(items_, {}, &Item::file);
}

StageHeader StageWork::header() const {
  return {fs::absolute(options_.source).string(),
          source_.digest(),
          mode_name(options_.mode),
          options_.count,
          options_.seed,
          places_.place,
          places_.places};
}

std::size_t StageWork::index_of(std::int64_t file) const {
  const auto found = std::ranges::lower_bound(items_, file, {}, &Item::file);
  KEELSON_EXPECT(found != items_.end() && found->file == file);
  return static_cast<std::size_t>(found - items_.begin());
}

// ---- what is there

void StageWork::require_ours(const std::string& name) const {
  if (!manifest_.find(name))
    refuse(
        "{}/{}: is there already, and no manifest says that it is a staged copy. Expected a folder for staged copies "
        "alone; name another folder, or remove the file",
        options_.target, name);
}

bool StageWork::is_complete(Item& item) {
  const auto name = source_.name(item.file), path = target(item.file);
  const auto found = bytes_of_file(path);
  if (found < 0) return false;
  require_ours(name);
  const auto& record = *manifest_.find(name);
  const auto again = [&](const std::string& why) {
    ++result_.files_repaired;
    if (options_.notice) options_.notice(fmt::format("{}: {}; the file is copied again", path, why));
    return false;
  };
  if (found != source_.bytes(item.file))
    return again(fmt::format("has {} of {} bytes", found, source_.bytes(item.file)));
  item.crc = record.crc;
  if (!options_.verify) return true;
  const auto crc = crc_of_file(path);
  return crc == record.crc ||
         again(fmt::format("has the checksum {:08x}, but {:08x} when it was copied", crc, record.crc));
}

void StageWork::look_around() {
  manifest_.read(header(), places_.members.get());
  for (auto& item : items_) {
    item.present = is_complete(item);
    result_.files_present += item.present ? 1 : 0;
  }
  if (places_.first)
    for (const auto& small : source_.beside())
      if (const auto path = options_.target + "/" + small.name;
          fs::exists(path) && read_small_file(path) != small.content)
        require_ours(small.name);
}

std::int64_t StageWork::missing_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& item : items_) bytes += item.present ? 0 : source_.bytes(item.file);
  return bytes;
}

std::int64_t StageWork::missing_files() const { return std::ranges::count(items_, false, &Item::present); }

std::vector<std::int64_t> StageWork::wanted_from(int place) const {
  std::vector<std::int64_t> files;
  for (const auto& item : items_)
    if (!item.present && plan_.owner(item.file) == place) files.push_back(item.file);
  return files;
}

std::uint32_t StageWork::crc(std::int64_t file) const {
  const auto& found = items_[index_of(file)];
  KEELSON_EXPECT(found.present);
  return found.crc;
}

// ---- the folder

/// Removes copies that an earlier plan needed, and temporary files of processes that have ended.
std::set<std::string> StageWork::remove_unplanned() const {
  std::set<std::string> planned, folders{options_.target}, unplanned;
  for (const auto& small : source_.beside()) planned.insert(small.name);
  for (const auto file : plan_.files_of(places_.place)) {
    planned.insert(source_.name(file));
    folders.insert(fs::path(target(file)).parent_path().string());
  }
  for (const auto& folder : folders) remove_temporaries(folder);
  for (const auto& [name, record] : manifest_.records()) {
    if (planned.contains(name)) continue;
    if (const auto path = options_.target + "/" + name; fs::is_regular_file(fs::symlink_status(path))) fs::remove(path);
    unplanned.insert(name);
  }
  return unplanned;
}

void StageWork::prepare(std::int64_t missing_bytes_of_place) {
  const auto unplanned = remove_unplanned();
  struct statvfs v{};
  if (::statvfs(options_.target.c_str(), &v) == 0) {
    const auto free = static_cast<std::int64_t>(v.f_bavail) * static_cast<std::int64_t>(v.f_frsize);
    if (missing_bytes_of_place > free)
      refuse(
          "{}: needs {} for the copies that are missing, but has {} free. Name a folder on a larger disk, free some "
          "space, or use more nodes with the mode shard",
          options_.target, size_text(missing_bytes_of_place), size_text(free));
  }
  manifest_.write(header(), unplanned);
}

void StageWork::keep(std::int64_t file, StagedFile& copy) {
  const std::lock_guard lock(mutex_);
  manifest_.append({source_.name(file), copy.bytes(), copy.crc()});  // first: a file without a record is refused later
  copy.commit();
  auto& kept = items_[index_of(file)];
  kept.present = true;
  kept.crc = copy.crc();
}

void StageWork::copy_beside() {
  for (const auto& small : source_.beside()) {
    const auto path = options_.target + "/" + small.name;
    if (read_small_file(path) == small.content && manifest_.find(small.name)) continue;
    StagedFile copy(path);
    copy.write(small.content.data(), std::ssize(small.content));
    manifest_.append({small.name, copy.bytes(), copy.crc()});
    copy.commit();
  }
}

void StageWork::end() { manifest_.end_part(); }

// ---- reading from the source

void StageWork::try_copy(const Item& item, char* buffer) {
  {
    const std::lock_guard lock(mutex_);
    ++result_.opened;
  }
  const auto bytes = source_.bytes(item.file);
  const RawFile from(source_.path(item.file));
  if (from.size() != bytes)
    refuse("{}: has {} bytes, but rank 0 found {}. Expected the same file on all ranks, unchanged", from.path(),
           from.size(), bytes);
  from.advise_sequential();
  StagedFile copy(target(item.file));
  for (std::int64_t at = 0; at < bytes; at += copy_piece) {
    const auto n = std::min(copy_piece, bytes - at);
    from.read(buffer, n, at);
    copy.write(buffer, n);
  }
  from.advise_unneeded();
  keep(item.file, copy);
  const std::lock_guard lock(mutex_);
  ++result_.files_read;
  result_.bytes_read += bytes;
}

void StageWork::copy(Item& item, char* buffer) {
  for (int attempt = 1;; ++attempt) {
    try {
      return try_copy(item, buffer);
    } catch (const InputError& error) {
      if (attempt == copy_attempts) refuse("{} ({} attempts)", error.what(), attempt);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200) * attempt);
  }
}

void StageWork::copy_owned() {
  std::vector<Item*> own;
  for (auto& item : items_)
    if (item.owned && !item.present) own.push_back(&item);
  const auto start = StageClock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(StageClock::now() - start).count(); };
  const auto count = std::ssize(own);
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t next = 0, running = std::min<std::int64_t>(count, std::max(1, copy_threads / places_.lanes));
  std::exception_ptr error;
  const auto work = [&](char* buffer) {
    for (std::unique_lock lock(mutex);; lock.lock()) {
      if (next == count || error) {
        --running;
        return changed.notify_one();
      }
      auto& item = *own[static_cast<std::size_t>(next++)];
      lock.unlock();
      try {
        copy(item, buffer);
      } catch (...) {
        lock.lock();
        if (!error) error = std::current_exception();
        lock.unlock();
      }
    }
  };
  std::vector<HugePageArray<char>> buffers;
  for (std::int64_t i = 0; i < running; ++i)
    buffers.push_back(make_huge_page_array<char>(static_cast<std::size_t>(copy_piece)));
  std::vector<std::thread> threads;
  for (auto& buffer : buffers)
    threads.push_back(start_background_thread("stage", [&work, at = buffer.get()] { work(at); }));
  const auto tell = [&] {
    const std::lock_guard results(mutex_);
    report("read", result_.files_read, count, result_.bytes_read, seconds());
  };
  {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return running == 0; })) tell();
    tell();
  }
  for (auto& thread : threads) thread.join();
  result_.read_seconds = seconds();
  if (error) std::rethrow_exception(error);
}

void StageWork::report(const char* phase, std::int64_t files, std::int64_t of, std::int64_t bytes,
                       double seconds) const {
  if (options_.progress) options_.progress({phase, files, of, bytes, seconds});
}

}  // namespace keelson::detail
