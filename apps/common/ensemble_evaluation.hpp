#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/ensemble_file.hpp"
#include "apps/common/evaluation.hpp"
#include "engine/ensemble/evaluator.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson::app {

/// The most probabilities that are kept to fit a temperature: 64 MiB.
inline constexpr std::int64_t kept_probabilities = 1 << 24;

/// The networks of an ensemble, for the subcommand `evaluate`.
class MemberNetworks {
 public:
  /// Whether --checkpoint names the folder of an ensemble. Collective.
  static bool is_ensemble(const EvaluationOptions& o, Communicator& world);
  /// Throws InputError for options of ensembles.
  static void refuse_options(const EvaluationOptions& o);
  /// is_ensemble(). If it is none: refuse_options(), on all ranks. Collective.
  static bool wanted(const EvaluationOptions& o, Communicator& world);

  /// Opens the best checkpoint of each member, else its newest; of a run that is no ensemble, its own. All references
  /// must outlive this. Throws InputError for a member that has none, for networks of another program, and for options
  /// that an ensemble does not take. Collective.
  MemberNetworks(const EvaluationOptions& o, Launch& launch, const NetworkFamily& family);

  std::int64_t size() const { return static_cast<std::int64_t>(checkpoints_.size()); }  ///< members
  const CheckpointReader& checkpoint(std::int64_t member) const {
    return checkpoints_[static_cast<std::size_t>(member)];
  }
  const RunState& state() const { return checkpoint(0).state(); }  ///< of the first member
  /// "runs/five: 5 members (epochs 4, 4, 3, 4, 4)"; of a run that is no ensemble: "runs/one: epoch 4".
  std::string describe() const;

  /// Opens the device, for the networks that `make` returns for the members' checkpoints; members may have different
  /// designs. Throws InputError for a checkpoint that does not fit its network. Collective.
  void load(const std::function<Graph(const CheckpointReader&)>& make);
  /// The graph outputs that are evaluated: the prediction; with networks that predict it, the variance.
  struct Outputs {
    std::string prediction = "prediction", variance = {};
  };
  /// Evaluates all samples with all members. The arguments are those of ensemble::EnsembleEvaluator. Collective.
  void run(const Dataset& data, const Outputs& outputs, ensemble::Combination& combination,
           const ensemble::EnsembleEvaluator::Metrics& of_ensemble = {},
           const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members = {});

 private:
  const EvaluationOptions& options_;
  Launch& launch_;
  std::string folder_;
  std::vector<CheckpointReader> checkpoints_;
  bool ensemble_ = false;
  std::deque<Graph> graphs_;  ///< of the members
  DeviceSession device_;
  std::vector<std::unique_ptr<Parameters>> parameters_;
};

/// --out-of-bag: evaluates the training samples, and writes the CSV. Returns the samples with the largest losses as
/// HTML; empty on other ranks than the first. `networks` are loaded; `open` opens the training data as the training
/// did, and is not called without the option. Throws InputError for members without bags, and for a run that left out
/// broken samples, whose numbers are others. Collective.
std::string list_out_of_bag(const EvaluationOptions& o, MemberNetworks& networks, Communicator& world,
                            const std::function<std::unique_ptr<const Dataset>()>& open,
                            const MemberNetworks::Outputs& outputs = {});

/// A score of the ensemble beside those of its members.
struct ScoreRow {
  std::string name;
  double ensemble = 0;
  std::vector<double> members;  ///< empty: members have no such score
  bool higher_is_better = false;
};

/// Prints the scores: ensemble, mean of the members, best member.
void print_scores(const std::vector<ScoreRow>& rows);
/// The same as JSON: {"nll": {"ensemble": 0.4, "members": [0.5, 0.6]}}; numbers that are not finite are null.
nlohmann::ordered_json scores_to_json(const std::vector<ScoreRow>& rows);

/// NLL, Brier score, ECE and accuracy.
std::vector<ScoreRow> class_rows(const ensemble::ClassEnsemble& scores);
/// Entropies and the members' deviation, and the temperature; the bins of the reliability diagram.
nlohmann::ordered_json class_facts(const ensemble::ClassEnsemble& scores, double temperature);
/// Prints entropies, deviation and temperature. `calibrated_on`: the data of the temperature; empty: there is none.
void print_class_facts(const ensemble::ClassEnsemble& scores, double temperature, const std::string& calibrated_on);

/// For a report: the reliability diagram of the ensemble, and of its first members for comparison, as HTML.
std::string reliability_diagram(const ensemble::ClassEnsemble& scores);
/// The histogram of the probability integral transform of each target, as HTML.
std::string pit_histograms(const std::vector<ensemble::ValueEnsemble>& targets, const std::vector<std::string>& names);
/// The scores as an HTML table.
std::string score_table(const std::vector<ScoreRow>& rows);

/// Declares --require, of which `examples` are shown: "accuracy:0.9".
void declare_requirements(std::vector<std::string>& require, Subcommand& subcommand, const std::string& examples);
/// Throws Error unless each score is at least, or with an error at most, what --require demands; InputError for a score
/// that is not among the rows.
void check_requirements(const std::vector<std::string>& require, const std::vector<ScoreRow>& rows);
/// The confusion matrix as an HTML table, with the names of the classes; empty: numbers.
std::string confusion_table(const ConfusionMatrix& m, const std::vector<std::string>& classes);

/// Writes --report, a page of this title with `html`. Called by the first rank.
void write_ensemble_report(const EvaluationOptions& o, const std::string& title, const std::string& subtitle,
                           const std::string& html);

}  // namespace keelson::app
