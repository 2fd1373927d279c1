#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/report/report.hpp"
#include "apps/minerva/data/event_dataset.hpp"
#include "apps/minerva/vertex_metric.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson::minerva {

/// "target 2", "plane 19", or the name of a segment.
std::string class_name(const EventOptions& options, std::int64_t class_number);

/// The names of the rows of confusion_by_target(): the segments; for planecodes before them "unknown", for code 0.
std::vector<std::string> target_names(const EventOptions& options);
/// The confusion of classes, added up by segment.
ConfusionMatrix confusion_by_target(const EventOptions& options, const ConfusionMatrix& classes);

/// The sections of a report after a validation or an evaluation: confusion by target, residual in z, and the first
/// events in three views. Reads these events.
std::vector<app::ReportInput::Section> vertex_sections(const EventDataset& events, const ConfusionMatrix& classes,
                                                       const VertexMetric& vertices);

}  // namespace keelson::minerva
