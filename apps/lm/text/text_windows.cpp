#include "apps/lm/text/text_windows.hpp"

#include <algorithm>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson::lm {
namespace {

void check(const WindowOptions& o, const TextCorpus& corpus, const Vocabulary& vocabulary) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const auto require = [](std::int64_t found, const char* what) {
    if (found < 1 || found >= most) refuse("the {} is {}. Expected 1 to {}", what, found, most - 1);
  };
  require(o.streams, "number of rows read side by side");
  require(o.unroll, "number of tokens per window");
  if (corpus.scan().level != vocabulary.level())
    refuse("{} is read as {}s, but the vocabulary is one of {}s. Expected both alike; change --level", corpus.name(),
           to_string(corpus.scan().level), to_string(vocabulary.level()));
  const auto least = o.streams * (o.pad ? 2 : o.unroll + 1);
  if (corpus.tokens() < least)
    refuse(
        "a batch of {} streams x {} {}s needs at least {} tokens, but {} has {}; give a smaller --batch or --unroll, "
        "or "
        "more text",
        o.streams, o.unroll, to_string(corpus.scan().level), least, corpus.name(), corpus.tokens());
}

}  // namespace

/// The blocks from which a row was read last.
struct TextWindows::Row {
  struct Block {
    std::int64_t number = -1;
    std::vector<std::int32_t> ids;
  };
  std::mutex mutex;
  Block recent, older;

  /// Called with the mutex held.
  const std::vector<std::int32_t>& ids_of(std::int64_t number, const TextCorpus& corpus, const Vocabulary& vocabulary) {
    if (recent.number != number) std::swap(recent, older);
    if (recent.number != number) {
      recent.number = -1;  // stays -1 if reading fails
      recent.ids = corpus.read_block(number, vocabulary);
      recent.number = number;
    }
    return recent.ids;
  }
};

TextWindows::TextWindows(std::shared_ptr<const TextCorpus> corpus, std::shared_ptr<const Vocabulary> vocabulary,
                         const WindowOptions& options)
    : corpus_(std::move(corpus)), vocabulary_(std::move(vocabulary)), options_(options) {
  check(options, *corpus_, *vocabulary_);
  row_ = tokens() / streams();
  steps_ = (row_ - 1 + (options.pad ? unroll() - 1 : 0)) / unroll();
  fields_ = {{"x", Shape{unroll()}, DType::s32}, {"y", Shape{unroll()}, DType::s32}};
  rows_ = std::make_unique<Row[]>(static_cast<std::size_t>(streams()));
}

TextWindows::~TextWindows() = default;

std::int64_t TextWindows::targets() const { return streams() * (options_.pad ? row_ - 1 : steps_ * unroll()); }

/// Copies tokens [first, first + count) of the text.
void TextWindows::copy(std::int64_t first, std::int64_t count, Row& row, std::int32_t* dst) const {
  while (count > 0) {
    const auto& ids = row.ids_of(first / TextScan::block, *corpus_, *vocabulary_);
    const auto from = first % TextScan::block;
    const auto n = std::min(count, static_cast<std::int64_t>(ids.size()) - from);
    dst = std::copy_n(ids.begin() + from, n, dst);
    first += n;
    count -= n;
  }
}

void TextWindows::read(std::int64_t index, void* const* dst) const {
  KEELSON_EXPECT(index >= 0 && index < size());
  const auto stream = index % streams(), in_row = index / streams() * unroll();
  const auto count = std::min(unroll(), row_ - 1 - in_row);  // number of targets
  const auto first = stream * row_ + in_row;
  auto* x = static_cast<std::int32_t*>(dst[0]);
  auto* y = static_cast<std::int32_t*>(dst[1]);
  Row& row = rows_[static_cast<std::size_t>(stream)];
  {
    const std::lock_guard lock(row.mutex);
    copy(first, 1, row, x);
    copy(first + 1, count, row, y);
  }
  std::copy_n(y, count - 1, x + 1);
  std::fill(x + count, x + unroll(), 0);
  std::fill(y + count, y + unroll(), -1);
}

std::uint64_t TextWindows::digest() const {
  Digest digest;
  digest.add(scan().digest()).add(vocabulary_->hash()).add(streams()).add(unroll()).add(options_.pad);
  return digest.value();
}

std::string TextWindows::describe() const {
  return fmt::format("{} of {} in {} of {}, {} of {}", counted(tokens(), "token"), corpus_->name(),
                     counted(streams(), "stream"), row_, counted(steps_, "window"), unroll());
}

}  // namespace keelson::lm
