#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/heuristics/agreement.hpp"

namespace keelson::climate {

/// Maps of the first `count` snapshots of a data set (any normalisation) that are not `left_out`, as HTML with its own
/// style sheet. Outlines show the truth if the files have labels, the heuristics, and the prediction if `predicted` is
/// not empty: it has the classes of each snapshot. Reads the snapshots' files; the result is empty unless they have all
/// 16 channels.
std::string map_section(const SnapshotDataset& data, std::int64_t count,
                        const std::vector<std::vector<std::int32_t>>& predicted,
                        const std::vector<std::int64_t>& left_out = {});

/// A column of iou_table().
struct IoUColumn {
  std::string name;
  std::vector<double> classes;  ///< one for each class; NaN: the class does not occur
  double mean = 0;
};

/// Intersections over union by class, as an HTML table.
std::string iou_table(const std::vector<IoUColumn>& columns);

/// Two columns for labels that were compared with the truth: over all pixels, and per image.
std::vector<IoUColumn> columns_of(const std::string& name, const ConfusionMatrix& pixels,
                                  const std::vector<double>& images, double images_mean);

/// Pixels by true and predicted class, as an HTML table with the shares of each true class.
std::string confusion_table(const ConfusionMatrix& confusion);

}  // namespace keelson::climate
