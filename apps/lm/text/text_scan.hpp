#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lm/text/text_bytes.hpp"
#include "apps/lm/text/token_reader.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::lm {

struct TokenCount {
  std::string token;
  std::int64_t count = 0;
  bool operator==(const TokenCount&) const = default;
};

/// The order of a vocabulary: the most frequent token first; equally frequent tokens by their bytes, which is the order
/// of their code points.
bool comes_before(const TokenCount& a, const TokenCount& b);

struct TextFile {
  std::string path;
  std::int64_t bytes = 0;
  std::uint64_t sampled = 0;  ///< hash of some of the file's bytes (sampled_hash())
  bool operator==(const TextFile&) const = default;
};

/// A hash of 64 pieces of 1 KiB, spread evenly over the file. Shows within a few milliseconds that a file has another
/// text, even one of the same size.
std::uint64_t sampled_hash(const TextBytes& file);

/// The result of one pass over a text: its different tokens, and where to start reading to find any token. The files,
/// one after the other, are one text.
struct TextScan {
  static constexpr std::int64_t block = 8192;  ///< tokens

  TokenLevel level = TokenLevel::word;
  std::vector<TextFile> files;
  std::int64_t tokens = 0;
  std::vector<TokenCount> types;  ///< different tokens, in the order of comes_before()
  /// Where tokens 0, block, 2 * block ... begin: bytes from the start of the first file. Each file counts one byte more
  /// than it has, so that its end and the start of the next file have different positions.
  std::vector<std::int64_t> blocks;

  std::int64_t bytes() const;    ///< of all files
  std::string name() const;      ///< "ptb.train.txt", "a.txt and 2 more files"
  std::uint64_t digest() const;  ///< hash of names, sizes and content
  std::string to_bytes() const;  ///< to send it to a rank of the same program
  static TextScan from_bytes(std::string_view bytes);
  bool operator==(const TextScan&) const = default;
};

/// Called from time to time with the number of bytes read so far, and of all bytes.
using ScanProgress = std::function<void(std::int64_t done, std::int64_t all)>;

/// Reads the text once from the beginning to the end. Memory: the different tokens, 8 bytes per block, and a buffer.
/// Throws InputError, naming the file, if a file cannot be read, is not UTF-8 text, or has no tokens.
TextScan scan_text(const std::vector<std::string>& paths, TokenLevel level, const ScanProgress& progress = {});

/// As above, but only rank 0 reads; the other ranks get the result, or throw the same exception. Collective.
TextScan scan_text(const std::vector<std::string>& paths, TokenLevel level, Communicator& communicator,
                   const ScanProgress& progress = {});

}  // namespace keelson::lm
