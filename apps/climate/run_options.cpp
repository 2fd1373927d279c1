#include "apps/climate/run_options.hpp"

#include <fmt/ranges.h>

#include "apps/common/verb.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/precision.hpp"

namespace keelson::climate {
namespace {

/// LARC inside Adam, and updates that are a step late (Kurth et al., SC18; azrael417/ClimDeepLearn, the run scripts and
/// utils/common_helpers.py). The number of epochs and the rate of large runs are the user's.
const Config& sc18() {
  static const Config c{{"net", "tiramisu"},   {"batch", "1"},           {"optimizer", "adam"},
                        {"lr", "0.0001"},      {"schedule", "constant"}, {"larc", "clip"},
                        {"larc-eta", "0.002"}, {"sync", "lag"},          {"metric", "pooled"}};
  return c;
}

const std::map<std::string, Config>& known_recipes() {
  static const std::map<std::string, Config> all{{"sc18-tiramisu", sc18()}};
  return all;
}

void declare_data(RunOptions& o, app::Verb& v) {
  v.option_without_default("--train", o.train, "Training data: HDF5 file, folder or pattern", "PATH")
      .stored()
      .differs_between_ranks();
  v.option_without_default("--validation", o.validation, "Validation data: HDF5 file, folder or pattern", "PATH")
      .stored()
      .differs_between_ranks();
  v.option_without_default(
       "--stats", o.stats,
       "Statistics of the training data, by which channels are normalised; default: stats.h5 in the "
       "folder of the training data or beside it, else the training data are read for them",
       "FILE")
      .differs_between_ranks();
  v.option_without_default("--channels", o.channels, "Channels to use, by their numbers; default: all 16", "N,...")
      .comma_separated()
      .non_negative()
      .stored();
  v.option("--labels", o.labels, "Which labels of the files to learn: labels_0 or labels_1", "MAP")
      .between(0, 1)
      .stored();
  v.flag("--shuffle", o.shuffle, "Another sample order in each epoch").stored();
}

void declare_network(RunOptions& o, app::Verb& v) {
  v.option("--net", o.net, "Network: Tiramisu of the SC18 paper").one_of({"tiramisu"}).stored();
  v.option("--first", o.first, "Filters of Tiramisu's first convolution", "FILTERS").positive().stored();
  v.option("--growth", o.growth, "Filters of each layer of Tiramisu's blocks", "FILTERS").positive().stored();
  v.option("--blocks", o.layers, "Layers of Tiramisu's blocks on the way down", "N,...")
      .comma_separated()
      .positive()
      .stored();
  v.option("--kernel", o.kernel, "Extent of Tiramisu's kernels", "POINTS").positive().stored();
  v.option("--dropout", o.dropout, "Of Tiramisu: probability that a hidden feature is dropped in training")
      .between(0.0, 0.99)
      .stored();
}

}  // namespace

void declare(RunOptions& o, app::Verb& v) {
  v.option_without_default("--recipe", o.recipe, "Published hyper-parameters; options given besides win")
      .one_of(recipes());
  declare_network(o, v);
  v.option("--loss", o.loss,
           "Cross entropy of pixels, weighted by class: deepcam, the mean with weights frequency^-1/8; sc18, with "
           "frequency^-1/2; sc18-sum, their sum times 0.1; auto: as published for the network")
      .one_of({"auto", "deepcam", "sc18", "sc18-sum"})
      .stored();
  v.option("--precision", o.precision,
           "Of convolutions' operands; default: fp32 on CPUs, bf16 on GPUs (fp16 before Ampere); auto: what is faster "
           "here, measured at the start")
      .one_of(precisions())
      .stored();
  declare_data(o, v);
  app::declare(o, v);
  v.flag("--schedule-by-steps", o.schedule_by_steps,
         "--decay, --warmup-epochs and --schedule-epochs count steps instead of epochs")
      .stored();
  v.option("--metric", o.metric,
           "Mean IoU that judges the network: images, per image as in MLPerf HPC; pooled, over all pixels as in SC18; "
           "auto: as published for the network")
      .one_of({"auto", "images", "pooled"})
      .stored();
  v.option("--target-iou", o.target_iou, "Stop when the validation metric is at least this; 0: never")
      .between(0.0, 1.0)
      .stored();
}

Config recipe(const std::string& name) {
  const auto found = known_recipes().find(name);
  if (found == known_recipes().end()) refuse("unknown recipe {}: expected one of {}", name, fmt::join(recipes(), ", "));
  return found->second;
}

std::vector<std::string> recipes() {
  std::vector<std::string> names;
  for (const auto& [name, config] : known_recipes()) names.push_back(name);
  return names;
}

void check(const RunOptions& o) { app::check(o); }

}  // namespace keelson::climate
