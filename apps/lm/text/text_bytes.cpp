#include "apps/lm/text/text_bytes.hpp"

#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/files/read_once.hpp"

namespace keelson::lm {

TextBytes::TextBytes(const std::string& path, Communicator& ranks)
    : path_(path), bytes_(read_once_per_node(path, &ranks)) {}

std::int64_t TextBytes::size() const {
  if (const auto* shared = std::get_if<SharedBytes>(&bytes_)) return std::ssize(shared->bytes());
  return std::get<RawFile>(bytes_).size();
}

void TextBytes::read(void* dst, std::int64_t bytes, std::int64_t offset) const {
  const auto* shared = std::get_if<SharedBytes>(&bytes_);
  if (!shared) return std::get<RawFile>(bytes_).read(dst, bytes, offset);
  KEELSON_EXPECT(offset >= 0 && bytes >= 0 && offset + bytes <= size());
  if (bytes > 0) std::memcpy(dst, shared->bytes().data() + offset, static_cast<std::size_t>(bytes));
}

}  // namespace keelson::lm
