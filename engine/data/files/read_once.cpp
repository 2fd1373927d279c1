#include "engine/data/files/read_once.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/base/ranks.hpp"
#include "engine/data/files/raw_file.hpp"

namespace keelson {

std::string read_once(const std::string& path, Communicator* communicator) {
  std::string content;
  on_first_rank(communicator, [&] {
    const RawFile file(path);
    content.resize(static_cast<std::size_t>(file.size()));
    file.read(content.data(), file.size(), 0);
  });
  if (!communicator) return content;
  auto bytes = std::ssize(content);
  communicator->broadcast(&bytes, sizeof bytes, 0);
  content.resize(static_cast<std::size_t>(bytes));
  communicator->broadcast(content.data(), content.size(), 0);
  return content;
}

SharedBytes read_once_per_node(const std::string& path, Communicator* communicator) {
  constexpr std::int64_t part = std::int64_t{16} << 20;
  std::optional<RawFile> file;
  std::int64_t bytes = 0;
  on_first_rank(communicator, [&] {
    file.emplace(path);
    bytes = file->size();
  });
  if (communicator) communicator->broadcast(&bytes, sizeof bytes, 0);
  SharedBytes shared(communicator);
  std::vector<char> buffer(file ? static_cast<std::size_t>(std::min(bytes, part)) : 0);
  for (std::int64_t at = 0; at < bytes; at += part) {
    const auto n = std::min(part, bytes - at);
    on_first_rank(communicator, [&] { file->read(buffer.data(), n, at); });
    shared.append(buffer.data(), static_cast<std::size_t>(n), 0);
  }
  shared.finish();
  return shared;
}

}  // namespace keelson
