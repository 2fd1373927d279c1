#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Which images to ask a person about next, and when to stop asking.
namespace keelson::label {

/// What an ensemble says about one image.
struct Opinion {
  std::vector<double> p;  ///< (classes): mean of the members' probabilities
  double std = 0;         ///< standard deviation over the members of the probability of the likeliest class, divisor M
  double margin = 0;      ///< 1 - (p1 - p2), of the two largest; 1: undecided
  double entropy = 0;     ///< of p, in nats
  double bald = 0;        ///< entropy of p - mean entropy of the members: what they do not agree on, in nats
  std::int64_t best() const;  ///< the likeliest class; of equal ones the first
};
/// `members` (M, classes): probabilities of each member. (Houlsby et al., "Bayesian active learning for classification
/// and preference learning", arXiv 1112.5745; with ensembles: Beluch et al., CVPR 2018.)
Opinion opinion_of(std::span<const float> members, std::int64_t classes);

/// Greedy k-centre (Sener and Savarese, "Active learning for convolutional neural networks: a core-set approach", ICLR
/// 2018): `count` times the candidate that is farthest from its nearest centre becomes a centre, too. `points` (n,
/// dims): features; `candidates`, `centres`: rows of it. Of equal distances, and without any centre, the first
/// candidate. The result is in the order of the choice. O((candidates) * (centres + count) * dims).
std::vector<std::int64_t> k_centre(std::span<const float> points, std::int64_t dims,
                                   const std::vector<std::int64_t>& candidates,
                                   const std::vector<std::int64_t>& centres, std::int64_t count);

/// `count` images to begin with, before there are networks: one drawn at random from each of `count` parts of equal
/// size, into which the images are cut along the first principal component of their features (n, dims). In rising
/// order.
std::vector<std::int64_t> first_images(std::span<const float> features, std::int64_t dims, std::int64_t count,
                                       std::uint64_t seed);

/// Settings of a batch.
struct BatchOptions {
  std::string by = "margin";  ///< "margin", "bald", "entropy" or "random"
  std::int64_t count = 100;   ///< images
  double audit = 0.1;         ///< part that is drawn at random from all that are left
  bool spread = true;         ///< greedy k-centre among the 4 * count with the highest scores
  std::uint64_t seed = 0;
  std::int64_t round = 0;  ///< decides, with the seed, what is drawn
};
/// Images for a person, in the order in which to show them.
struct Batch {
  std::vector<std::int64_t> images;  ///< the most uncertain first, without the audit
  std::vector<std::int64_t> audit;   ///< drawn at random: they tell how good the networks are on what is left
};
/// Chooses from `left`, images without a label; `labelled` are centres of k_centre(). `opinions`: of all images.
/// `points` (images, dims): standardised features of the networks.
Batch choose_batch(const BatchOptions& o, const std::vector<Opinion>& opinions, std::span<const float> points,
                   std::int64_t dims, const std::vector<std::int64_t>& left, const std::vector<std::int64_t>& labelled);

/// Lower bound of a probability of which `right` of `count` trials were seen, that the true one exceeds with this
/// confidence: one side of the interval of Clopper and Pearson, Biometrika 26, 1934. 0 for 0 trials.
double least_accuracy(std::int64_t right, std::int64_t count, double confidence = 0.95);
/// Upper bound, likewise; 1 for 0 trials.
double most_accuracy(std::int64_t right, std::int64_t count, double confidence = 0.95);

/// A prediction of an image whose class is known.
struct JudgedPrediction {
  double p = 0;  ///< probability of the class that is predicted
  bool right = false;
};
/// The smallest probability from which on predictions can be trusted: of those with at least this probability, the part
/// that is right is at least `target`, by least_accuracy(). None: no probability does. O(n log n).
std::optional<double> supported_confidence(std::vector<JudgedPrediction> predictions, double target,
                                           double confidence = 0.95);

/// What is known when the question is whether to stop.
struct Progress {
  std::int64_t left = 0;                    ///< images without a label
  std::int64_t audit_right = 0, audit = 0;  ///< labels of audit images, and how many the networks had predicted
  std::vector<double> changes;              ///< of each round: part of the predictions for all images that have changed
};
/// When to stop.
struct StopRule {
  double target = 0.97;      ///< the accuracy on what is left
  double confidence = 0.95;  ///< with which it is known
  double change = 0.005;     ///< or: fewer predictions than this part change ...
  int rounds = 3;            ///< ... in so many rounds, one after the other
};
/// The reason to stop, in a sentence; none: go on.
std::optional<std::string> reason_to_stop(const Progress& p, const StopRule& rule);
/// What is known, in a sentence: "of 80 audit labels 78 were predicted: at least 92.3 % of the rest (95 % sure), ...".
std::string describe(const Progress& p, const StopRule& rule);

/// Which labels are probably wrong: confident learning (Northcutt, Jiang, Chuang, "Confident learning: estimating
/// uncertainty in dataset labels", JAIR 70, 2021).
struct ConfidentJoint {
  std::int64_t classes = 0;
  std::vector<double> thresholds;    ///< (classes): mean probability of the class among the samples labelled so
  std::vector<std::int64_t> counts;  ///< (classes, classes): labelled i, confidently j
  std::vector<std::int64_t> wrong;   ///< samples off the diagonal, the least probable label first
};
/// `p` (n, classes): probabilities from networks that have not seen the sample; `labels` (n). A sample counts as j, the
/// likeliest of the classes whose probability reaches the class's threshold; a sample without such a class does not
/// count.
ConfidentJoint confident_joint(std::span<const double> p, std::span<const std::int64_t> labels, std::int64_t classes);

/// EL2N: mean over members of |p - onehot(label)|_2 (Paul, Ganguli, Dziugaite, NeurIPS 2021). `members` (M, classes).
double el2n(std::span<const float> members, std::int64_t classes, std::int64_t label);

}  // namespace keelson::label
