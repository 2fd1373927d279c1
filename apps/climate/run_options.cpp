#include "apps/climate/run_options.hpp"

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"
#include "nets/registry.hpp"

namespace keelson::climate {
namespace {

/// LARC inside Adam, and updates that are a step late (Kurth et al., SC18; azrael417/ClimDeepLearn, the run scripts and
/// utils/common_helpers.py). The user chooses the number of epochs, and the rate of large runs.
Config sc18(const std::string& net) {
  return {{"net", net},     {"batch", "1"},        {"optimizer", "adam"}, {"lr", "0.0001"},    {"schedule", "constant"},
          {"larc", "clip"}, {"larc-eta", "0.002"}, {"sync", "lag"},       {"metric", "pooled"}};
}

/// MLPerf HPC's DeepCAM (mlcommons/hpc deepcam, and the reference convergence of mlcommons/logging,
/// rcps_deepcam.json): LAMB with weight decay on all parameters. `more`: the schedule, in steps.
Config deepcam(const std::string& global_batch, const std::string& epochs, const std::string& rate,
               const Config& more) {
  Config c{{"net", "deepcam"},
           {"global-batch", global_batch},
           {"epochs", epochs},
           {"optimizer", "lamb"},
           {"lr", rate},
           {"weight-decay", "0.01"},
           {"adapt-vectors", "true"},
           {"clip-norm", "1"},
           {"schedule-by-steps", "true"},
           {"metric", "images"},
           {"target-iou", "0.82"}};
  c.insert(more.begin(), more.end());
  return c;
}

/// At each step of `decay` the rate falls to its tenth; at the beginning it rises over `warmup` steps.
Config milestones(const std::string& decay, const std::string& warmup = "0") {
  return {{"schedule", "steps"}, {"decay", decay}, {"warmup-epochs", warmup}};
}

/// For generated snapshots of 96 x 144 points: takes a few minutes on two cores.
Config demo() {
  return {{"net", "tiramisu"}, {"blocks", "2,2,2,2"},  {"growth", "12"},    {"first", "24"},  {"kernel", "3"},
          {"dropout", "0"},    {"loss", "deepcam"},    {"batch", "2"},      {"epochs", "12"}, {"optimizer", "adam"},
          {"lr", "0.003"},     {"schedule", "cosine"}, {"metric", "images"}};
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& n : nets::networks_of_family("climate-")) names.push_back(n.program_name());
  return names;
}

void declare_data(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::data);
  app::declare_files(o, v);
  v.option_without_default(
       "--stats", o.stats,
       "Statistics of the training data, for the normalisation of channels; default: stats.h5 in the folder of the "
       "training data or beside it, else they are computed from the training data",
       "FILE")
      .not_stored()  // checkpoints keep the ranges that the file has
      .differs_between_ranks();
  v.option_without_default("--channels", o.channels, "Channels to use, by their numbers; default: all 16", "N,...")
      .comma_separated()
      .non_negative()
      .stored()
      .same_for_members();
  v.option("--labels", o.labels, "Which labels of the files to learn: labels_0 or labels_1", "MAP")
      .between(0, 1)
      .stored()
      .same_for_members();
}

void declare_tiramisu(RunOptions& o, app::Subcommand& v) {
  v.option("--first", o.first, "Filters of Tiramisu's first convolution", "FILTERS").positive().stored();
  v.option("--growth", o.growth, "Filters of each layer of Tiramisu's blocks", "FILTERS").positive().stored();
  v.option("--blocks", o.layers, "Layers of Tiramisu's blocks on the way down", "N,...")
      .comma_separated()
      .positive()
      .stored();
  v.option("--kernel", o.kernel, "Extent of Tiramisu's kernels", "POINTS").positive().stored();
  v.option("--dropout", o.dropout, "For Tiramisu: probability that a hidden feature is dropped in training")
      .between(0.0, 0.99)
      .stored();
}

void declare_deeplab(RunOptions& o, app::Subcommand& v) {
  v.option("--width", o.width, "For deepcam and deeplab: factor for all numbers of filters", "FACTOR")
      .positive()
      .stored();
  v.option("--output-stride", o.output_stride, "For deepcam: number by which the encoder divides the grid", "8|16")
      .between(8, 16)
      .stored();
  v.option("--middle-blocks", o.middle_blocks, "For deepcam: blocks of the middle flow", "N").positive().stored();
  v.option("--decoder", o.decoder, "For deeplab: way back to full resolution")
      .one_of({"deconv1x", "deconv", "bilinear"})
      .stored();
  v.option("--resnet", o.resnet, "For deeplab: layers of its encoder", "50|101").between(50, 101).stored();
  v.flag("--batch-norm", o.batch_norm, "For deeplab: batch normalization instead of halving").stored();
  v.option("--batch-norm-ranks", o.batch_norm_ranks,
           "Number of neighbouring ranks over whose samples batch normalization takes its statistics; 1: each rank "
           "alone; 0: all ranks",
           "N")
      .non_negative()
      .stored();
}

void declare_network(RunOptions& o, app::Subcommand& v) {
  v.option("--net", o.net,
           "Network: deepcam, DeepLabv3+ of MLPerf HPC's DeepCAM; deeplab and tiramisu, of the SC18 paper")
      .one_of(network_names())
      .stored();
  declare_tiramisu(o, v);
  declare_deeplab(o, v);
}

}  // namespace

const app::Recipes& recipes() {
  static const app::Recipes all{
      {"deepcam-128", deepcam("128", "10", "0.00155", {{"schedule", "cosine"}, {"schedule-epochs", "9000"}})},
      {"deepcam-256", deepcam("256", "12", "0.002", milestones("4095:0.1,8191:0.01"))},
      {"deepcam-512", deepcam("512", "20", "0.004", milestones("2148:0.1,4196:0.01", "100"))},
      {"deepcam-1024", deepcam("1024", "20", "0.004", milestones("1300:0.1,4296:0.01", "200"))},
      {"deepcam-2048", deepcam("2048", "30", "0.0055", milestones("1200:0.1", "400"))},
      {"demo", demo()},
      {"sc18-deeplab", sc18("deeplab")},
      {"sc18-tiramisu", sc18("tiramisu")}};
  return all;
}

void declare(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::network);
  app::declare_recipe(o, v, recipes());
  declare_network(o, v);
  v.option("--loss", o.loss,
           "Cross entropy of pixels, weighted by class: deepcam, the mean with weights frequency^-1/8; sc18, with "
           "frequency^-1/2; sc18-sum, their sum times 0.1; auto: as published for the network")
      .one_of({"auto", "deepcam", "sc18", "sc18-sum"})
      .stored();
  app::declare_precision(o, v, "convolutions' operands");
  declare_data(o, v);
  app::declare(o, v);
  const auto training = v.in(app::OptionGroup::training);
  v.flag("--schedule-by-steps", o.schedule_by_steps,
         "--decay, --warmup-epochs and --schedule-epochs count steps instead of epochs")
      .stored();
  v.option("--metric", o.metric,
           "Mean IoU that judges the network: images, per image as in MLPerf HPC; pooled, over all pixels as in SC18; "
           "auto: as published for the network")
      .one_of({"auto", "images", "pooled"})
      .stored()
      .same_for_members();
  v.option("--target-iou", o.target_iou, "Stop when the validation metric is at least this; 0: never")
      .between(0.0, 1.0)
      .stored();
}

void check(const RunOptions& o) {
  app::check(o);
  if (o.output_stride != 8 && o.output_stride != 16)
    refuse("--output-stride {}: the encoder divides the grid by 8 or 16", o.output_stride);
  if (o.resnet != 50 && o.resnet != 101) refuse("--resnet {}: the encoder has 50 or 101 layers", o.resnet);
}

}  // namespace keelson::climate
