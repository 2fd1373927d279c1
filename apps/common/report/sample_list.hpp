#pragma once

#include <string>
#include <vector>

#include "apps/common/report/report.hpp"
#include "engine/data/dataset.hpp"
#include "engine/ensemble/out_of_bag.hpp"
#include "engine/train/samples/sample_pruning.hpp"

namespace keelson::app {

/// What a run knows of each training sample, as CSV: a line of names, then a line for each sample in the order of the
/// data set. `epochs`: finished epochs, of which kept_share is a part.
std::string samples_csv(const SamplePruning& pruning, const Dataset& data, std::int64_t epochs);

/// The numbers of the samples that were forgotten most often, at most `most`; of equal ones first those with a larger
/// loss. A sample that was never forgotten is not among them.
std::vector<std::int64_t> forgotten_samples(const SampleTable& table, std::size_t most);
/// The numbers of the samples that no visit of at least two has found learned, at most `most`, those with the largest
/// losses first: their targets may be wrong.
std::vector<std::int64_t> unlearned_samples(const SampleTable& table, std::size_t most);

/// Both lists as a section of a report.
ReportInput::Section samples_section(const SamplePruning& pruning, const Dataset& data);

/// The loss of each training sample by the members of an ensemble that have not learned from the sample, as CSV: a line
/// of names, then a line for each sample in the order of the data set. The loss is empty where all members have it.
std::string out_of_bag_csv(const ensemble::OutOfBag& samples, const Dataset& data);
/// The samples with the largest of these losses as HTML.
std::string out_of_bag_table(const ensemble::OutOfBag& samples, const Dataset& data);

}  // namespace keelson::app
