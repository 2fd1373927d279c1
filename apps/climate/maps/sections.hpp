#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/heuristics/agreement.hpp"

namespace keelson::climate {

/// Maps of the first `count` snapshots of a data set (any normalisation) with outlines of the truth, where there is
/// one, of the heuristics and of the prediction, where there is one: `predicted` has the classes of each, or is empty.
/// HTML with its own style sheet. Reads the snapshots' files: all 16 channels have to be there, else the result is
/// empty.
std::string map_section(const SnapshotDataset& data, std::int64_t count,
                        const std::vector<std::vector<std::int32_t>>& predicted);

/// A column of iou_table().
struct IoUColumn {
  std::string name;
  std::vector<double> classes;  ///< one for each class; NaN: none
  double mean = 0;
};

/// Intersections over union by class, as an HTML table.
std::string iou_table(const std::vector<IoUColumn>& columns);

/// The columns of labels that were compared with the truth: over all pixels and per image.
std::vector<IoUColumn> columns_of(const std::string& name, const ConfusionMatrix& pixels,
                                  const std::vector<double>& images, double images_mean);

/// Pixels by true and predicted class, as an HTML table with the shares of each true class.
std::string confusion_table(const ConfusionMatrix& confusion);

}  // namespace keelson::climate
