#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lm/text/text_scan.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "engine/data/files/raw_file.hpp"

namespace keelson::lm {

/// A text in files, of which blocks can be read by any number of threads.
class TextCorpus {
 public:
  /// Throws InputError for a file that this rank cannot open, or that has another size than when it was scanned.
  explicit TextCorpus(TextScan scan);

  const TextScan& scan() const { return scan_; }
  std::int64_t tokens() const { return scan_.tokens; }
  std::string name() const { return scan_.name(); }
  /// The ids of tokens [b * TextScan::block, (b + 1) * TextScan::block), or up to the end of the text.
  std::vector<std::int32_t> read_block(std::int64_t b, const Vocabulary& vocabulary) const;

 private:
  TextScan scan_;
  std::vector<RawFile> files_;
  std::vector<std::int64_t> starts_;  ///< start of each file, counted as in TextScan::blocks; then the end
};

}  // namespace keelson::lm
