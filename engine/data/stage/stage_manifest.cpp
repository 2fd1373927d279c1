#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/ranks.hpp"
#include "engine/base/small_file.hpp"
#include "engine/data/stage/detail/stage_manifest.hpp"

namespace keelson::detail {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* manifest_name = ".keelson-stage.jsonl";
constexpr const char* part_prefix = ".keelson-stage-";
constexpr int manifest_version = 1;
constexpr std::size_t largest_manifest = std::size_t{1} << 30;

std::string hex(std::uint64_t number, int digits) { return fmt::format("{:0{}x}", number, digits); }

/// Names may be any bytes; JSON takes UTF-8 alone, so other bytes are written as "%FF", and "%" as "%25".
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x80 && c != '%')
      text += c;
    else
      text += fmt::format("%{:02X}", byte);
  return text;
}

std::string unescaped(const std::string& text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 2 >= text.size()) {
      name += text[i];
      continue;
    }
    name += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return name;
}

/// Whether the name is that of a file below the manifest's folder: files that a new plan does not need are removed.
bool lies_below(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::ranges::none_of(name, [](const fs::path& part) { return part.empty() || part == "." || part == ".."; });
}

std::string line_of(const StageHeader& h) {
  return json{{"type", "stage"},
              {"version", manifest_version},
              {"source", escaped(h.source)},
              {"digest", hex(h.digest, 16)},
              {"mode", h.mode},
              {"count", h.count},
              {"seed", h.seed},
              {"place", h.place},
              {"places", h.places}}
             .dump() +
         "\n";
}

std::string line_of(const StageRecord& r) {
  return json{{"type", "file"}, {"name", escaped(r.name)}, {"bytes", r.bytes}, {"crc32c", hex(r.crc, 8)}}.dump() + "\n";
}

}  // namespace

StageManifest::~StageManifest() { end_part(); }

std::vector<std::string> StageManifest::parts() const {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (const auto name = entry.path().filename().string(); name.starts_with(part_prefix) && name.ends_with(".jsonl"))
      found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found;
}

std::string StageManifest::read_text() const {
  std::string text;
  auto files = parts();
  files.insert(files.begin(), folder_ + "/" + manifest_name);
  for (const auto& file : files) {
    if (!fs::exists(file)) continue;
    const auto content = read_small_file(file, largest_manifest);
    if (!content) refuse("{}: cannot be read. Remove the folder, or stage to another one", file);
    text += *content + "\n";  // the last line may have been cut off
  }
  return text;
}

void StageManifest::read(const StageHeader& expected, Communicator* members) {
  std::string text;
  on_first_rank(members, [&] { text = read_text(); });
  if (members) {
    auto bytes = std::ssize(text);
    members->broadcast(&bytes, sizeof bytes, 0);
    text.resize(static_cast<std::size_t>(bytes));
    members->broadcast(text.data(), text.size(), 0);
  }
  parse(text, expected);
}

void StageManifest::refuse_line(const std::string& line) const {
  constexpr std::size_t shown = 200;
  refuse("{}/{}: has a line that is no part of a manifest: {}. Remove the folder, or stage to another one", folder_,
         manifest_name, line.substr(0, shown));
}

void StageManifest::parse(const std::string& text, const StageHeader& expected) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto j = json::parse(line, nullptr, false);
    if (!j.is_object()) continue;  // cut off when a start was killed
    try {
      if (j.at("type") == "stage") {
        if (j.at("version") != manifest_version)
          refuse("{}/{}: has version {} of the manifest. Expected {}; stage to another folder", folder_, manifest_name,
                 j.at("version").dump(), manifest_version);
        if (j.at("digest") != hex(expected.digest, 16))
          refuse(
              "{}: holds copies of {}, with other files, sizes or times of change than {} has now. Expected copies of "
              "the same files; stage to another folder, or remove this one",
              folder_, unescaped(j.at("source")), expected.source);
      } else {
        StageRecord r{unescaped(j.at("name")), j.at("bytes"), 0};
        r.crc = static_cast<std::uint32_t>(std::stoul(j.at("crc32c").get<std::string>(), nullptr, 16));
        if (!lies_below(r.name)) refuse_line(line);
        records_[r.name] = r;
      }
    } catch (const json::exception&) {
      refuse_line(line);
    } catch (const std::logic_error&) {  // of stoul()
      refuse_line(line);
    }
  }
}

const StageRecord* StageManifest::find(const std::string& name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : &found->second;
}

void StageManifest::write(const StageHeader& header, const std::set<std::string>& without) {
  for (const auto& name : without) records_.erase(name);
  auto text = line_of(header);
  for (const auto& [name, record] : records_) text += line_of(record);
  write_atomically(folder_ + "/" + manifest_name, text);
  for (const auto& part : parts()) fs::remove(part);
}

void StageManifest::join(const StageHeader& header) {
  parse(read_text(), header);
  write(header, {});
}

void StageManifest::begin_part(int lane) {
  const auto path = fmt::format("{}/{}{}.jsonl", folder_, part_prefix, lane);
  part_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (part_ < 0) fail("cannot write {}{}", path, reason_of_writing(errno, folder_));
}

void StageManifest::append(const StageRecord& record) {
  records_[record.name] = record;
  const auto line = line_of(record);
  const auto n = ::write(part_, line.data(), line.size());
  if (n != std::ssize(line))
    fail("cannot write the manifest in {}{}", folder_, reason_of_writing(n < 0 ? errno : ENOSPC, folder_));
}

void StageManifest::end_part() {
  if (part_ >= 0) ::close(std::exchange(part_, -1));
}

}  // namespace keelson::detail
