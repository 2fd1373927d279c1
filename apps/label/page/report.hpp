#pragma once

#include <set>
#include <string>

#include "apps/label/project/project.hpp"

namespace keelson::label {

/// What networks say that were trained without the image: for each labelled image.
struct HeldOut {
  std::vector<Labelled> labelled;
  std::vector<double> p;     ///< (labelled, classes): mean of the members
  std::vector<double> el2n;  ///< (labelled)
  ConfidentJoint joint;      ///< of `p` and the labels
};
/// From held_out().
HeldOut judge_labels(std::vector<Labelled> labelled, const std::vector<float>& members, std::int64_t classes);

/// What the networks are sure about, and whether they are right: of each labelled image that is one of `images`.
std::vector<JudgedPrediction> judged_predictions(const HeldOut& held, const std::set<std::int64_t>& images);

/// The labels that are probably wrong, as text lines: "17 file, 3: water, networks say ice 0.98 (EL2N 1.32)".
std::string suspicious_text(const Project& project, const Images& images, const HeldOut& held, std::int64_t most);
/// The report of a project: one HTML page with everything inside. `held`: null leaves out what needs it.
std::string render_label_report(const Project& project, const Images& images, const StoredPredictions* predictions,
                                const HeldOut* held, std::int64_t audit_rounds);

}  // namespace keelson::label
