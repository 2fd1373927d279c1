#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "apps/label/project/project.hpp"

namespace keelson::label {

/// What the page asks for, answered from a project, as JSON. Any thread may call: one after the other is served, and
/// lines that other programs have appended to the journal are read before.
class Answers {
 public:
  Answers(Project& project, const Images& images) : project_(project), images_(images) {}

  std::string page(const std::string& annotator, const std::string& nonce);
  std::string state(const std::string& annotator);
  /// Images of a list: `filter` is "batch", "unlabelled", "all", "mine", "disagree", "disputed", "class" or "round".
  std::string list(const std::string& filter, std::int64_t label, std::int64_t batch, const std::string& annotator);
  std::string details(std::int64_t image);
  std::string picture(std::int64_t image, std::int64_t edge) const;
  /// `body`: {"images": [...], "label": class, -1 or null, "annotator": name}.
  std::string set_labels(const std::string& body);
  std::string undo(const std::string& body);      ///< {"annotator": name}
  std::string set_keys(const std::string& body);  ///< {"keys": "120"}

 private:
  const StoredPredictions* refreshed();
  bool is_listed(std::int64_t image, const std::string& filter, std::int64_t label, const std::string& annotator) const;
  void check_image(std::int64_t image) const;

  Project& project_;
  const Images& images_;
  std::mutex lock_;
  std::uint64_t read_ = 0;  ///< digest of the predictions that were read
  std::optional<StoredPredictions> predictions_;
};

}  // namespace keelson::label
