#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/label/choose/choose.hpp"
#include "apps/label/images/features.hpp"
#include "apps/label/learn/ensemble.hpp"
#include "apps/label/project/labels.hpp"
#include "engine/data/files/line_log.hpp"

namespace keelson::label {

/// What a project is about. It does not change after its start.
struct ProjectSettings {
  ImageSource images;
  std::vector<std::string> classes;
  std::string keys;  ///< a character for each class, then one for "unsure"
  FeatureOptions features;
  EnsembleOptions networks;
  std::uint64_t seed = 1, digest = 0;  ///< digest: of the images
  std::int64_t count = 0;              ///< images

  std::string to_json() const;
  static ProjectSettings parse(const std::string& json, const std::string& source);  ///< throws InputError
};

/// The predictions of a project as its file has them.
struct StoredPredictions {
  std::int64_t round = 0;
  Predictions of;
  std::vector<Opinion> opinions;  ///< of each image
};

/// The folder of a project:
///   project.json      its settings
///   journal.jsonl     labels, batches and rounds, in the order in which they came: all that is not computed
///   features.h5       what the networks see of the images
///   networks/         the networks
///   predictions.h5    what they say
///   page.html, report.html, labels.csv    what people asked for
class Project {
 public:
  /// Makes the folder. Throws InputError if it holds a project and `overwrite` is false.
  static void create(const std::filesystem::path& folder, const ProjectSettings& settings, const Features& features,
                     bool overwrite);
  /// Opens a project. Throws InputError if there is none. `writable`: lines can be appended.
  Project(const std::filesystem::path& folder, bool writable);

  const ProjectSettings& settings() const { return settings_; }
  const std::filesystem::path& folder() const { return folder_; }
  const Labels& labels() const { return labels_; }
  std::string keys() const { return labels_.keys().empty() ? settings_.keys : labels_.keys(); }
  /// How the networks are trained from now on: as at the start, but with the learning rate that was chosen since.
  EnsembleOptions training_options() const;
  std::string class_name(std::int64_t label) const;      ///< "unsure" for -1
  std::int64_t class_of(const std::string& name) const;  ///< throws InputError for a name that is none
  std::unique_ptr<Images> open_images() const;           ///< throws InputError if they are others than at the start
  Features features() const;                             ///< throws InputError
  std::filesystem::path networks() const { return folder_ / "networks"; }

  /// Takes the lines that others have appended.
  void read_new();
  /// Appends a line, and waits until it is on the disk. Not for several threads at a time.
  void append(const std::string& line);
  /// The predictions of the last round; none: nothing was trained yet, or the file is of another round than the
  /// journal.
  std::optional<StoredPredictions> predictions() const;
  void write_predictions(const Predictions& p, std::int64_t round) const;
  /// What decides whether to stop.
  Progress progress(std::int64_t audit_rounds) const;

 private:
  std::filesystem::path folder_;
  ProjectSettings settings_;
  Labels labels_;
  std::unique_ptr<LineLog> journal_;
};

}  // namespace keelson::label
