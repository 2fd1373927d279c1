#include "engine/data/tfrecord/tfrecord.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/files/crc32c.hpp"
#include "engine/data/files/decompress.hpp"

namespace keelson {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in TFRecords are little endian");

constexpr std::int64_t length_bytes = 8, checksum_bytes = 4;

std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

/// Whether a file begins with a record: the length may look like the beginning of a compressed file.
bool begins_with_record(const RawFile& file) {
  char head[length_bytes + checksum_bytes];
  if (file.size() < std::ssize(head)) return false;
  file.read(head, sizeof head, 0);
  std::uint32_t checksum;
  std::memcpy(&checksum, head + length_bytes, sizeof checksum);
  return masked(crc32c(head, length_bytes)) == checksum;
}

}  // namespace

TfRecordFile::TfRecordFile(const std::string& path)
    : file_(path), compressed_(!begins_with_record(file_) && is_compressed_content(file_)) {
  if (compressed_) content_ = decompress(file_);
  find_records();
}

std::int64_t TfRecordFile::content_size() const { return compressed_ ? std::ssize(content_) : file_.size(); }

std::int64_t TfRecordFile::memory() const {
  return static_cast<std::int64_t>(content_.capacity() + records_.capacity() * sizeof(Record));
}

void TfRecordFile::read_content(void* dst, std::int64_t bytes, std::int64_t offset) const {
  if (!compressed_) return file_.read(dst, bytes, offset);
  KEELSON_EXPECT(offset + bytes <= content_size());
  std::memcpy(dst, content_.data() + offset, static_cast<std::size_t>(bytes));
}

void TfRecordFile::refuse_record(std::int64_t i, std::int64_t offset, const std::string& found) const {
  refuse("{}: record {} at byte {}{} {}. Expected TFRecords; fetch or make the file again", path(), i, offset,
         compressed_ ? " of the decompressed content" : "", found);
}

void TfRecordFile::find_records() {
  const std::int64_t size = content_size();
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t i = std::ssize(records_);
    if (size - at < length_bytes + checksum_bytes) refuse_record(i, at, "is cut off within its length");
    char head[length_bytes + checksum_bytes];
    read_content(head, sizeof head, at);
    std::uint64_t length;
    std::uint32_t checksum;
    std::memcpy(&length, head, sizeof length);
    std::memcpy(&checksum, head + length_bytes, sizeof checksum);
    if (masked(crc32c(head, length_bytes)) != checksum)
      refuse_record(i, at, "has a length that does not match its checksum");
    const std::int64_t begin = at + length_bytes + checksum_bytes;
    if (length > static_cast<std::uint64_t>(size - begin) ||
        size - begin - static_cast<std::int64_t>(length) < checksum_bytes)
      refuse_record(i, at, fmt::format("has {} bytes, but the file ends after {} more", length, size - begin));
    records_.push_back({begin, static_cast<std::int64_t>(length)});
    at = begin + static_cast<std::int64_t>(length) + checksum_bytes;
  }
}

void TfRecordFile::read(std::int64_t i, std::int64_t first, std::int64_t bytes, void* dst) const {
  const Record& r = record(i);
  KEELSON_EXPECT(first >= 0 && bytes >= 0 && first + bytes <= r.bytes);
  read_content(dst, bytes, r.offset + first);
}

void TfRecordFile::read_whole(std::int64_t i, void* dst) const {
  Reader reader(*this, i);
  reader.read(dst, record(i).bytes);
  reader.finish();
}

void TfRecordFile::Reader::read(void* dst, std::int64_t bytes) {
  constexpr std::int64_t part = 1 << 18;  // the checksum finds each part in the cache
  for (std::int64_t done = 0; done < bytes; done += part) {
    const std::int64_t n = std::min(part, bytes - done);
    char* const to = static_cast<char*>(dst) + done;
    file_.read(record_, at_ + done, n, to);
    crc_ = crc32c(to, static_cast<std::size_t>(n), crc_);
  }
  at_ += bytes;
}

void TfRecordFile::Reader::skip_to(std::int64_t end) {
  char part[4096];
  while (at_ < end) read(part, std::min<std::int64_t>(sizeof part, end - at_));
}

void TfRecordFile::Reader::finish() {
  const Record& r = file_.record(record_);
  skip_to(r.bytes);
  std::uint32_t checksum;
  file_.read_content(&checksum, sizeof checksum, r.offset + r.bytes);
  if (masked(crc_) != checksum) file_.refuse_record(record_, r.offset, "has data that do not match their checksum");
}

}  // namespace keelson
