#pragma once

#include <memory>
#include <string>

#include "apps/lm/text/text_windows.hpp"

namespace keelson::python {

/// Windows of a text with its vocabulary.
class TextDataset final : public Dataset {
 public:
  TextDataset(std::shared_ptr<const lm::TextCorpus> corpus, std::shared_ptr<const lm::Vocabulary> words,
              const lm::WindowOptions& options)
      : vocabulary(words), windows(std::move(corpus), std::move(words), options) {}
  std::int64_t size() const override { return windows.size(); }
  const std::vector<Field>& fields() const override { return windows.fields(); }
  void read(std::int64_t index, void* const* dst) const override { windows.read(index, dst); }
  std::string describe() const override { return windows.describe(); }
  std::uint64_t digest() const override { return windows.digest(); }

  const std::shared_ptr<const lm::Vocabulary> vocabulary;
  const lm::TextWindows windows;
};

}  // namespace keelson::python
