#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/epoch_samples.hpp"

namespace keelson {

/// Which samples an epoch leaves out; r: PruneOptions::ratio. The first epoch and the last eighth of the epochs take
/// all samples, whatever the rule.
enum class PruneRule : std::uint8_t {
  none,  ///< all samples in all epochs
  /// Of the samples whose last loss is below the mean of all, each is left out with probability r; those that are kept
  /// have the weight 1 / (1 - r). So the expected sum of the gradients is that of all samples (Qin et al., "InfoBatch:
  /// Lossless Training Speed Up by Unbiased Dynamic Data Pruning", ICLR 2024, arXiv 2303.04947).
  infobatch,
  /// Each sample is left out with probability r; the others have weight 1 (Raju et al., "Accelerating Deep Learning
  /// with Dynamic Data Pruning", arXiv 2111.12621).
  random,
  /// The part r of the samples with the lowest losses, but for those whose class has a probability below 0.7. They are
  /// evaluated at the end of the epoch, for their losses, and the learning rate is divided by the part of the samples
  /// that is kept (Nguyen et al., "KAKURENBO: Adaptively Hiding Samples in Deep Neural Network Training", NeurIPS 2023,
  /// arXiv 2310.10102).
  kakurenbo,
  /// After a quarter of the epochs: the part r of the samples that were forgotten least often, those with lower losses
  /// first. Samples that were never learned count as forgotten most often (Toneva et al., "An Empirical Study of
  /// Example Forgetting during Deep Neural Network Learning", ICLR 2019).
  forgetting,
  /// After a tenth of the epochs: the part r of the samples whose predictions were nearest to their targets, by the
  /// mean of |softmax - one-hot| over those epochs (Paul et al., "Deep Learning on a Data Diet", NeurIPS 2021).
  el2n,
};
std::string_view to_string(PruneRule rule);
/// The names of all rules, `none` first.
std::vector<std::string> prune_rule_names();
/// Throws InputError for a name that no rule has.
PruneRule parse_prune_rule(const std::string& name);

/// How a training leaves samples out.
struct PruneOptions {
  PruneRule rule = PruneRule::none;  ///< which samples go
  double ratio = -1;                 ///< r of the rule, from 0 to below 1; negative: 0.5 for infobatch, 0.3 for others
  bool enabled() const { return rule != PruneRule::none; }  ///< whether losses of samples are kept
  double r() const { return ratio >= 0 ? ratio : rule == PruneRule::infobatch ? 0.5 : 0.3; }  ///< ratio or the default
  std::string to_string() const;                                                              ///< "infobatch 0.5"
};

/// What a training knows of each of its samples, by the sample's number. Numbers that are counts are whole.
struct SampleTable {
  std::vector<float> loss;       ///< of the last visit; 0 before the first
  std::vector<float> visits;     ///< epochs in which the sample was used or evaluated
  std::vector<float> used;       ///< epochs in which the sample was used
  std::vector<float> known;      ///< 1: the last visit has found the sample learned; else 0
  std::vector<float> learned;    ///< visits that have found the sample learned
  std::vector<float> forgotten;  ///< visits that have found the sample not learned, when the visit before had
  std::vector<float> error;      ///< sum of the errors of the epochs that PruneRule::el2n looks at
};

/// Chooses the samples of each epoch by what the epochs before have shown. All ranks know the losses of all samples, so
/// all choose alike: the choice depends on the losses, the seed and the epoch, and not on the number of ranks. Memory:
/// 12 floats per sample.
///
/// A visit has found a sample learned if the probability of its class, exp(-loss), is above 1/2 or, where losses are no
/// logarithms of probabilities, if its loss is below the mean of the epoch's losses. The error of a visit is
/// sqrt(2) (1 - exp(-loss)), which is |softmax - one-hot| of two classes, or else the square root of the loss, to which
/// the error of a mean squared error is proportional.
class SamplePruning {
 public:
  /// `epochs`: of the whole training. `probabilities`: losses are cross entropies of one class per sample. Throws
  /// InputError for a ratio of 1 or more.
  SamplePruning(const PruneOptions& options, std::int64_t samples, std::uint64_t seed, std::int64_t epochs,
                bool shuffle, bool probabilities);

  const PruneOptions& options() const { return options_; }  ///< as given to the constructor
  bool enabled() const { return options_.enabled(); }       ///< else no other function may be called
  const SampleTable& table() const { return table_; }       ///< after the epochs that have ended
  /// By what the rule ranks the samples: the last loss, or the number of times forgotten, or the mean error; larger for
  /// samples that the rule keeps.
  std::vector<float> scores() const;

  /// Chooses the samples of an epoch (from 0).
  void begin_epoch(std::int64_t epoch);
  /// The samples of the epoch.
  const std::shared_ptr<const EpochSamples>& samples() const { return samples_; }
  std::vector<std::int64_t> left_out() const;  ///< the others, in rising order
  bool evaluates_left_out() const;             ///< whether the rule wants their losses, too
  double rate_factor() const;                  ///< of the learning rate in this epoch

  /// Notes the losses of samples that this rank has computed. Of ranks that compute terms of the same samples, `counts`
  /// is true on one alone.
  void record(std::span<const std::int64_t> samples, std::span<const float> losses, bool counts);
  /// What all ranks have recorded since the last absorb(): losses, then numbers of visits. Changes nothing. Collective;
  /// `ranks` null: this rank alone.
  std::vector<float> gather(Communicator* ranks) const;
  /// Notes what gather() has returned as known to all ranks.
  void absorb(const std::vector<float>& gathered);
  /// Ends the epoch, of which all ranks know all losses.
  void end_epoch();

  /// The state in arrays of one float per sample, by name, for checkpoints. `within_epoch`: between begin_epoch() and
  /// end_epoch(), after absorb().
  std::map<std::string, std::vector<float>> state(bool within_epoch) const;
  /// The reverse. `within_epoch`: the epoch `epoch` is under way. Without arrays nothing is known of the samples, and
  /// the epoch under way has all. Throws InputError, beginning with `what`, for arrays that no run has.
  void restore(const std::map<std::string, std::vector<float>>& arrays, bool within_epoch, std::int64_t epoch,
               const std::string& what);

 private:
  std::size_t count() const { return weights_.size(); }
  void forget();
  void choose(std::int64_t epoch);
  void leave_out_lowest(const std::vector<float>& ranking, double confidence);
  void order_samples(std::int64_t epoch);

  PruneOptions options_;
  std::uint64_t seed_;
  std::int64_t epochs_;
  bool shuffle_, probabilities_;
  SampleTable table_;
  std::vector<float> weights_;         ///< of the epoch; 0: left out
  std::vector<float> losses_, seen_;   ///< of the epoch so far, known to all ranks; visits
  std::vector<float> mine_, counted_;  ///< the same, of this rank since absorb()
  std::int64_t epoch_ = 0;
  std::shared_ptr<const EpochSamples> samples_;
};

}  // namespace keelson
