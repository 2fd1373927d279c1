#include "apps/lm/text/text_corpus.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson::lm {

TextCorpus::TextCorpus(TextScan scan, Communicator* ranks, std::int64_t most) : scan_(std::move(scan)) {
  starts_.push_back(0);
  const bool shares = ranks && ranks->size() > 1 && scan_.bytes() <= most;
  for (const auto& file : scan_.files) {
    if (shares)
      files_.emplace_back(file.path, *ranks);
    else
      files_.emplace_back(file.path);
    if (files_.back().size() != file.bytes)
      refuse("{}: has {} bytes here, but had {} when it was scanned. Expected the same text on all ranks, unchanged",
             file.path, files_.back().size(), file.bytes);
    if (sampled_hash(files_.back()) != file.sampled)
      refuse(
          "{}: has another text here than on the rank that scanned it. Expected the same text on all ranks, unchanged",
          file.path);
    starts_.push_back(starts_.back() + file.bytes + 1);
  }
}

std::vector<std::int32_t> TextCorpus::read_block(std::int64_t b, const Vocabulary& vocabulary) const {
  const auto block = static_cast<std::size_t>(b);
  KEELSON_EXPECT(b >= 0 && block < scan_.blocks.size());
  const auto place = scan_.blocks[block];
  const auto end = block + 1 < scan_.blocks.size() ? scan_.blocks[block + 1] : starts_.back();
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), place);
  auto file = static_cast<std::size_t>(after - starts_.begin()) - 1;

  // A few bytes more than the block, so that one read is enough even if the last word ends with the block.
  const auto buffer = static_cast<std::size_t>(std::min<std::int64_t>(end - place + 64, 256 << 10));
  TokenReader reader(files_[file], scan_.level, place - starts_[file], buffer);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(TextScan::block, tokens() - b * TextScan::block)));
  std::string_view token;
  for (auto& id : ids) {
    while (!reader.next(token)) {
      if (++file == files_.size()) refuse("{}: has fewer tokens than when it was scanned. Was it changed?", name());
      reader = TokenReader(files_[file], scan_.level, 0, buffer);
    }
    id = vocabulary.id(token);
  }
  return ids;
}

}  // namespace keelson::lm
