#pragma once

#include <memory>
#include <mutex>

#include "apps/lm/text/text_corpus.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::lm {

struct WindowOptions {
  std::int64_t streams = 20;  ///< rows that are read side by side: the batch of all ranks together
  std::int64_t unroll = 35;   ///< tokens per window
  /// Also predict the rest of a row after its last full window: one more window, in which missing targets are -1 and
  /// missing inputs 0. For evaluation.
  bool pad = false;
};

/// A text for truncated back-propagation through time. Its tokens are cut into `streams` contiguous rows of
/// floor(tokens / streams), as the PTB language model's reader does, and each row into consecutive windows; remaining
/// tokens are dropped.
///
/// Sample step * streams + stream is window `step` of row `stream`. So a Loader that does not shuffle, with a batch of
/// streams / ranks, always puts row r * batch + i at position i of rank r's batch, in order. So recurrent state can be
/// carried from step to step.
///
/// Fields: x (unroll) s32, ids; y (unroll) s32, the ids one token later than x.
class TextWindows final : public Dataset {
 public:
  /// Throws InputError if the text is too short for one window in each row, and for a vocabulary of another level.
  TextWindows(std::shared_ptr<const TextCorpus> corpus, std::shared_ptr<const Vocabulary> vocabulary,
              const WindowOptions& options);
  ~TextWindows() override;

  std::int64_t size() const override { return steps_ * options_.streams; }
  const std::vector<Field>& fields() const override { return fields_; }
  /// Fast if the windows of a row are read approximately in order: each row keeps two blocks of the text.
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override;
  std::uint64_t digest() const override;

  const TextScan& scan() const { return corpus_->scan(); }
  std::int64_t tokens() const { return corpus_->tokens(); }
  std::int64_t targets() const;                     ///< predictions in an epoch, all streams together
  std::int64_t steps() const { return steps_; }     ///< windows per row
  std::int64_t row_length() const { return row_; }  ///< tokens
  std::int64_t unroll() const { return options_.unroll; }
  std::int64_t streams() const { return options_.streams; }

 private:
  struct Row;
  void copy(std::int64_t first, std::int64_t count, Row& row, std::int32_t* dst) const;

  std::shared_ptr<const TextCorpus> corpus_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  WindowOptions options_;
  std::int64_t row_ = 0, steps_ = 0;
  std::vector<Field> fields_;
  std::unique_ptr<Row[]> rows_;
};

}  // namespace keelson::lm
