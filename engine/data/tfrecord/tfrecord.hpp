#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/files/raw_file.hpp"

namespace keelson {

/// A file of TFRecords, TensorFlow's container of byte strings, for reading. A record is: length of the data (uint64,
/// little endian), masked CRC-32C of these 8 bytes (uint32), data, masked CRC-32C of the data (uint32). The mask of a
/// checksum c is ((c >> 15) | (c << 17)) + 0xa282ead8. (TensorFlow, tsl/lib/io/record_writer.h.)
///
/// The file may also be compressed as a whole, by gzip or zlib. Then the constructor decompresses the whole file into
/// memory.
///
/// Several threads may read at the same time. Throws InputError, naming the file, the record and the byte, for files
/// that cannot be read, end within a record or do not match a checksum.
class TfRecordFile {
 public:
  /// Opens the file, and finds its records by their lengths, whose checksums are compared.
  explicit TfRecordFile(const std::string& path);

  /// Where the data of a record lie: position in the file, or, if the file is compressed, in its decompressed content.
  struct Record {
    std::int64_t offset = 0;  ///< first byte of the data
    std::int64_t bytes = 0;   ///< number of bytes of the data
  };
  const std::string& path() const { return file_.path(); }    ///< as given
  std::int64_t size() const { return std::ssize(records_); }  ///< number of records
  /// Record i, from 0.
  const Record& record(std::int64_t i) const { return records_.at(static_cast<std::size_t>(i)); }
  bool is_compressed() const { return compressed_; }  ///< by gzip or zlib
  std::int64_t memory() const;                        ///< bytes that this object holds

  /// Reads `bytes` bytes of record i, from byte `first` of its data on, without comparing a checksum.
  void read(std::int64_t i, std::int64_t first, std::int64_t bytes, void* dst) const;
  /// Reads the whole record, record(i).bytes bytes, and compares its checksum.
  void read_whole(std::int64_t i, void* dst) const;

  /// Reads a record from its beginning to its end, into several places, and compares its checksum.
  class Reader {
   public:
    /// Of a record of `file`, which must outlive the reader.
    Reader(const TfRecordFile& file, std::int64_t record) : file_(file), record_(record) {}
    void read(void* dst, std::int64_t bytes);  ///< the next bytes
    void skip_to(std::int64_t end);            ///< reads up to here
    void finish();                             ///< reads the rest; throws InputError if the checksum is another one

   private:
    const TfRecordFile& file_;
    const std::int64_t record_;
    std::int64_t at_ = 0;
    std::uint32_t crc_ = 0;
  };

 private:
  void find_records();
  std::int64_t content_size() const;
  void read_content(void* dst, std::int64_t bytes, std::int64_t offset) const;
  [[noreturn]] void refuse_record(std::int64_t i, std::int64_t offset, const std::string& found) const;

  RawFile file_;
  bool compressed_ = false;
  std::vector<char> content_;  ///< of a compressed file
  std::vector<Record> records_;
};

}  // namespace keelson
