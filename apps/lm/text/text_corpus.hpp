#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lm/text/text_bytes.hpp"
#include "apps/lm/text/text_scan.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::lm {

/// A text in files, of which blocks can be read by any number of threads.
class TextCorpus {
 public:
  /// Bytes of the largest text that ranks share.
  static constexpr std::int64_t most_shared = std::int64_t{4} << 30;

  /// With several ranks, rank 0 reads a text of up to `most` bytes, and each node has one copy (TextBytes). Else each
  /// rank opens the files and reads its blocks from them. Throws InputError for a file that cannot be read, or that has
  /// another size or text than when it was scanned. `ranks` null: one rank. Collective.
  explicit TextCorpus(TextScan scan, Communicator* ranks = nullptr, std::int64_t most = most_shared);

  const TextScan& scan() const { return scan_; }
  std::int64_t tokens() const { return scan_.tokens; }
  std::string name() const { return scan_.name(); }
  /// The ids of tokens [b * TextScan::block, (b + 1) * TextScan::block), or up to the end of the text.
  std::vector<std::int32_t> read_block(std::int64_t b, const Vocabulary& vocabulary) const;

 private:
  TextScan scan_;
  std::vector<TextBytes> files_;
  std::vector<std::int64_t> starts_;  ///< start of each file, counted as in TextScan::blocks; then the end
};

}  // namespace keelson::lm
