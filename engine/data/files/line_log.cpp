#include "engine/data/files/line_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/files/crc32c.hpp"

namespace keelson {
namespace {

constexpr std::string_view before_check = ",\"check\":\"";
constexpr std::size_t check_digits = 8;
constexpr std::string_view behind_check = "\"}";

std::string with_check(const std::string& json) {
  KEELSON_EXPECT(json.size() > 2 && json.back() == '}' && json.find('\n') == json.npos);
  const std::string open = json.substr(0, json.size() - 1);
  return fmt::format("{}{}{:08x}{}", open, before_check, crc32c(open.data(), open.size()), behind_check);
}

/// The JSON object of a line; empty: the line is broken.
std::string without_check(const std::string& line) {
  const std::size_t end = before_check.size() + check_digits + behind_check.size();
  if (line.size() < end + 2) return "";
  const std::string open = line.substr(0, line.size() - end);
  return with_check(open + "}") == line ? open + "}" : "";
}

}  // namespace

LineLog::LineLog(std::filesystem::path path, bool writable, Advice advice)
    : path_(std::move(path)), advice_(std::move(advice)) {
  file_ = ::open(path_.c_str(), writable ? O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666);
  if (file_ < 0) refuse("{}: {}; {}", path_.string(), std::strerror(errno), advice_.missing);
}

LineLog::~LineLog() { ::close(file_); }

void LineLog::fail_to_write() const {
  const int why = errno;
  fail("cannot write {}{}; {}", path_.string(), reason_of_writing(why, path_.parent_path()), advice_.full);
}

void LineLog::read_new(const std::function<void(const std::string& json)>& take) {
  std::string text;
  std::vector<char> piece(std::size_t{1} << 16);
  for (auto from = offset_;;) {
    const auto n = ::pread(file_, piece.data(), piece.size(), from);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path_.string(), std::strerror(errno));
    if (n == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(n));
    from += n;
  }
  std::size_t begin = 0;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    offset_ += static_cast<std::int64_t>(line.size()) + 1;
    ++lines_;
    if (line.empty()) continue;
    const std::string json = without_check(line);
    if (!json.empty()) {
      take(json);
    } else if (broken_++ == 0) {
      first_broken_ = lines_;
    }
  }
}

bool LineLog::ends_in_a_torn_line() const {
  // Another process may be writing a line now, whose first part can be seen.
  constexpr int looks = 5;
  for (int look = 0; look < looks; ++look) {
    char last = '\n';
    const auto size = ::lseek(file_, 0, SEEK_END);
    if (size <= 0 || ::pread(file_, &last, 1, size - 1) != 1 || last == '\n') return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void LineLog::write_line(const std::string& line) const {
  const std::string bytes = (ends_in_a_torn_line() ? "\n" : "") + line + "\n";
  std::string_view left = bytes;
  while (!left.empty()) {
    const auto n = ::write(file_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_write();
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(file_) != 0 && errno != EINVAL) fail_to_write();
}

void LineLog::append(const std::string& json, const std::function<void(const std::string& json)>& take) {
  constexpr int most_trials = 100;
  for (int trial = 0; trial < most_trials; ++trial) {
    write_line(with_check(json));
    bool found = false;
    read_new([&](const std::string& line) {
      found |= line == json;
      take(line);
    });
    if (found) return;
  }
  fail(
      "{}: a line was not found after it was appended, {} times. Does the file system keep what two nodes append at "
      "the "
      "same time? Keep the search on another file system",
      path_.string(), most_trials);
}

}  // namespace keelson
