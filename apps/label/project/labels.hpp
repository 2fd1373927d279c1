#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

/// What people have said about images, as the journal tells it.
namespace keelson::label {

inline constexpr std::int64_t unsure = -1;  ///< in the place of a class: a person has looked and cannot tell

/// What one person says about one image.
struct Mark {
  std::int64_t label = unsure;
  std::string time;        ///< UTC
  std::int64_t round = 0;  ///< rounds of training before it
};

/// The images of a batch, and what the networks said before a person did.
struct AskedBatch {
  std::int64_t round = 0;
  std::string by;
  std::vector<std::int64_t> images, audit;  ///< as Batch
  std::vector<std::int64_t> predicted;      ///< of the audit images; empty: there were no networks yet
};

/// A training.
struct Round {
  std::int64_t round = 0, labels = 0;
  double changed =
      -1;  ///< part of the predictions for all images that differ from those of the round before; -1: first
  std::string time;
  std::uint64_t predictions = 0;  ///< digest of the file of predictions
};

/// The state that the lines of a journal make, one after the other.
class Labels {
 public:
  explicit Labels(std::int64_t images = 0, std::int64_t classes = 0)
      : classes_(classes), marks_(static_cast<std::size_t>(images)) {}
  /// Takes a line. Throws InputError for a line that is no entry of a journal, or not one of these images and classes.
  void apply(const std::string& json);

  /// Lines for the journal.
  /// `label` none: takes the person's label back.
  static std::string labels_line(std::span<const std::int64_t> images, std::optional<std::int64_t> label,
                                 const std::string& annotator, const std::string& from, const std::string& time);
  /// Takes back the last line of labels of this person that was not taken back.
  static std::string undo_line(const std::string& annotator, const std::string& time);
  static std::string batch_line(const AskedBatch& batch, const std::string& time);
  static std::string round_line(const Round& round);
  static std::string keys_line(const std::string& keys, const std::string& time);
  static std::string learning_rate_line(double rate, const std::string& time);

  std::int64_t images() const { return std::ssize(marks_); }
  const std::map<std::string, Mark>& marks(std::int64_t image) const {
    return marks_.at(static_cast<std::size_t>(image));
  }
  /// The class that most people chose, without those who are unsure; none if nobody did, or if two classes have the
  /// same number.
  std::optional<std::int64_t> consensus(std::int64_t image) const;
  /// Whether a person has looked at the image: it is not asked for again.
  bool is_seen(std::int64_t image) const { return !marks(image).empty(); }
  /// Whether people chose different classes.
  bool is_disputed(std::int64_t image) const;
  /// Image and class of all that have a consensus.
  std::vector<std::pair<std::int64_t, std::int64_t>> labelled() const;
  std::vector<std::int64_t> unseen() const;  ///< images without a mark
  bool can_undo(const std::string& annotator) const { return !last_of(annotator).empty(); }
  /// The images of the person's last line of labels that was not taken back; empty: there is none.
  std::vector<std::int64_t> last_of(const std::string& annotator) const;

  const std::vector<AskedBatch>& batches() const { return batches_; }
  const std::vector<Round>& rounds() const { return rounds_; }
  const std::string& keys() const { return keys_; }                       ///< empty: never changed
  std::optional<double> learning_rate() const { return learning_rate_; }  ///< none: never changed
  std::int64_t lines() const { return lines_; }                           ///< that were taken

  /// Audit images of the last `rounds` batches that have a consensus, and how many of them the networks had predicted.
  struct Audit {
    std::int64_t right = 0, count = 0;
  };
  Audit audit(std::int64_t rounds) const;
  /// Images that were drawn at random: the first ones, and all audits. What holds for their labels, holds for all
  /// images; the others were chosen because they are hard.
  std::set<std::int64_t> drawn_at_random() const;

  /// Agreement of two people on the images that both gave a class.
  struct Agreement {
    std::string first, second;
    std::int64_t both = 0, same = 0;
    double kappa = 0;  ///< Cohen's: agreement beyond chance
  };
  std::vector<Agreement> agreements() const;
  std::vector<std::string> annotators() const;

 private:
  using Before = std::vector<std::pair<std::int64_t, std::optional<Mark>>>;  ///< marks that a line has replaced
  void check_image(std::int64_t image) const;
  void check_class(std::int64_t label) const;

  std::int64_t classes_ = 0, lines_ = 0;
  std::vector<std::map<std::string, Mark>> marks_;  ///< by annotator
  std::map<std::string, std::vector<Before>> done_;
  std::vector<AskedBatch> batches_;
  std::vector<Round> rounds_;
  std::string keys_;
  std::optional<double> learning_rate_;
};

}  // namespace keelson::label
