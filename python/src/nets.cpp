#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "casters.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/minerva/minerva.hpp"
#include "nets/mlp/mlp.hpp"
#include "nets/registry.hpp"
#include "nets/tiramisu/tiramisu.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Config = std::map<std::string, std::string>;
using Made = std::shared_ptr<Network>;

Made made(Graph graph, std::string name, Config config) {
  auto network = std::make_shared<Network>();
  network->graph = std::move(graph);
  network->name = std::move(name);
  network->config = std::move(config);
  return network;
}

std::string text(bool yes) { return yes ? "true" : "false"; }

Made cosmoflow(const std::string& net, std::int64_t size, std::optional<int> channels, std::optional<int> targets,
               float dropout, std::map<std::string, std::int64_t> widths) {
  const bool paper = choose<bool>("net", net, {{"mlperf", false}, {"paper", true}});
  const nets::CosmoFlowOptions o{.size = size,
                                 .channels = channels.value_or(paper ? 1 : 4),
                                 .targets = targets.value_or(paper ? 3 : 4),
                                 .dropout = dropout,
                                 .widths = std::move(widths)};
  return made(paper ? nets::cosmoflow_paper(o) : nets::cosmoflow_mlperf(o), "cosmoflow-" + net,
              {{"net", net}, {"size", std::to_string(size)}, {"dropout", fmt::format("{}", dropout)}});
}

Made lstm_lm(std::int64_t vocabulary, std::int64_t hidden, int layers, std::int64_t unroll, std::int64_t embedding,
             float dropout, float init, bool tied, const std::string& cell, bool logits_output,
             std::int64_t sampled_softmax) {
  const nets::LstmLmOptions o{
      .vocabulary = vocabulary,
      .embedding = embedding,
      .hidden = hidden,
      .layers = layers,
      .unroll = unroll,
      .dropout = dropout,
      .init = init,
      .tied = tied,
      .sampled_softmax = sampled_softmax,
      .cell = choose<ops::CellKind>("cell", cell, {{"lstm", ops::CellKind::lstm}, {"gru", ops::CellKind::gru}}),
      .logits_output = logits_output};
  return made(nets::lstm_lm(o), "lm-" + cell,
              {{"cell", cell},
               {"hidden", std::to_string(hidden)},
               {"layers", std::to_string(layers)},
               {"unroll", std::to_string(unroll)},
               {"embedding", std::to_string(embedding)},
               {"dropout", fmt::format("{}", dropout)},
               {"init", fmt::format("{}", init)},
               {"tied", text(tied)}});
}

Made mlp(std::int64_t features, std::int64_t outputs, bool classes, int layers, std::int64_t units,
         const std::string& activation, bool batch_norm, float dropout, int dropout_layers, float label_smoothing,
         bool sample_weights) {
  const nets::MlpOptions o{.features = features,
                           .outputs = outputs,
                           .classes = classes,
                           .layers = layers,
                           .units = units,
                           .activation = activation,
                           .batch_norm = batch_norm,
                           .dropout = dropout,
                           .dropout_layers = dropout_layers,
                           .label_smoothing = label_smoothing,
                           .sample_weights = sample_weights};
  return made(nets::mlp(o), "tabular-mlp",
              {{"layers", std::to_string(layers)},
               {"units", std::to_string(units)},
               {"activation", activation},
               {"batch-norm", text(batch_norm)},
               {"dropout", fmt::format("{}", dropout)},
               {"dropout-layers", std::to_string(dropout_layers)}});
}

Made minerva(const std::string& net, std::optional<std::int64_t> planes, std::optional<std::int64_t> channels,
             std::optional<std::int64_t> classes, std::int64_t strips, float dropout, double width) {
  const bool evolved = choose<bool>("net", net, {{"epsilon", false}, {"evolved633167", true}});
  const nets::MinervaOptions o{.strips = strips,
                               .planes = planes.value_or(evolved ? 94 : 50),
                               .channels = channels.value_or(evolved ? 2 : 1),
                               .classes = classes.value_or(evolved ? 173 : 67),
                               .dropout = dropout,
                               .width_multiplier = width};
  return made(evolved ? nets::minerva_evolved(o) : nets::minerva_epsilon(o), "minerva-" + net,
              {{"net", net},
               {"classes", std::to_string(o.classes)},
               {"dropout", fmt::format("{}", dropout)},
               {"width", fmt::format("{}", width)}});
}

/// The losses of the climate networks by the names of keelson-climate's option --loss.
ops::PixelLossParams climate_loss(const std::string& name, const char* published) {
  return choose<ops::PixelLossParams>("loss", name == "auto" ? std::string_view(published) : name,
                                      {{"deepcam", nets::deepcam_loss()},
                                       {"sc18", nets::sc18_loss()},
                                       {"sc18-sum", nets::sc18_loss(ops::PixelMean::none, 0.1f)}});
}

Made tiramisu(std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t classes, std::int64_t first,
              std::int64_t growth, const std::vector<int>& blocks, std::int64_t kernel, float dropout,
              const std::string& loss) {
  const nets::TiramisuOptions o{.rows = rows,
                                .columns = columns,
                                .channels = channels,
                                .classes = classes,
                                .first = first,
                                .growth = growth,
                                .layers = blocks,
                                .kernel = kernel,
                                .dropout = dropout,
                                .loss = climate_loss(loss, "sc18")};
  return made(nets::tiramisu(o), "climate-tiramisu",
              {{"net", "tiramisu"},
               {"first", std::to_string(first)},
               {"growth", std::to_string(growth)},
               {"blocks", fmt::format("{}", fmt::join(blocks, ","))},
               {"kernel", std::to_string(kernel)},
               {"dropout", fmt::format("{}", dropout)},
               {"loss", loss}});
}

Made deepcam(std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t classes, int output_stride,
             int middle_blocks, float width, int batch_norm_ranks, const std::string& loss) {
  const nets::DeepCamOptions o{.rows = rows,
                               .columns = columns,
                               .channels = channels,
                               .classes = classes,
                               .output_stride = output_stride,
                               .middle_blocks = middle_blocks,
                               .width_multiplier = width,
                               .batch_norm_ranks = batch_norm_ranks,
                               .loss = climate_loss(loss, "deepcam")};
  return made(nets::deepcam(o), "climate-deepcam",
              {{"net", "deepcam"},
               {"output-stride", std::to_string(output_stride)},
               {"middle-blocks", std::to_string(middle_blocks)},
               {"width", fmt::format("{}", width)},
               {"batch-norm-ranks", std::to_string(batch_norm_ranks)},
               {"loss", loss}});
}

Made deeplab_sc18(std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t classes,
                  const std::string& decoder, int resnet, bool batch_norm, int batch_norm_ranks, float width,
                  const std::string& loss) {
  using Decoder = nets::DeepLabDecoder;
  if (resnet != 50 && resnet != 101) refuse("resnet is {}. Expected 50 or 101 layers", resnet);
  nets::DeepLabSc18Options o{
      .rows = rows,
      .columns = columns,
      .channels = channels,
      .classes = classes,
      .decoder = choose<Decoder>(
          "decoder", decoder,
          {{"deconv1x", Decoder::deconv1x}, {"deconv", Decoder::deconv}, {"bilinear", Decoder::bilinear}}),
      .batch_norm = batch_norm,
      .batch_norm_ranks = batch_norm_ranks,
      .width_multiplier = width,
      .loss = climate_loss(loss, "sc18-sum")};
  if (resnet == 101) o.units = {3, 4, 23, 3};
  return made(nets::deeplab_sc18(o), "climate-deeplab",
              {{"net", "deeplab"},
               {"decoder", decoder},
               {"resnet", std::to_string(resnet)},
               {"batch-norm", text(batch_norm)},
               {"batch-norm-ranks", std::to_string(batch_norm_ranks)},
               {"width", fmt::format("{}", width)},
               {"loss", loss}});
}

/// The network of this name in checkpoints, with the settings that it finds in `config`.
Made of_settings(const std::string& stored_name, const Config& config, const Shape& sample) {
  const auto& entry = nets::find_stored_network(stored_name);
  const nets::Settings settings(config, "the configuration of " + stored_name);
  Graph graph = entry.make(settings, sample);
  Config used = settings.used();
  used["net"] = entry.program_name();
  return made(std::move(graph), stored_name, std::move(used));
}

}  // namespace

void bind_nets(nb::module_& m) {
  const nets::TiramisuOptions t;
  m.def(
      "cosmoflow", &cosmoflow, nb::arg("net") = "mlperf", nb::kw_only(), nb::arg("size") = 128,
      nb::arg("channels") = nb::none(), nb::arg("targets") = nb::none(), nb::arg("dropout") = 0.5f,
      nb::arg("widths") = std::map<std::string, std::int64_t>(),
      "CosmoFlow, which predicts cosmological parameters from cubes of matter: inputs 'x' (channels, size^3) and 'y'\n"
      "(targets), output 'prediction'. net: 'mlperf' (MLPerf HPC; 4 channels, 4 targets) or 'paper' (SC18; 1, 3).\n"
      "widths: filters of layers for which they differ from the published number: {'conv1': 24}.");
  m.def(
      "mlp", &mlp, nb::arg("features"), nb::arg("outputs"), nb::kw_only(), nb::arg("classes") = true,
      nb::arg("layers") = 3, nb::arg("units") = 128, nb::arg("activation") = "relu", nb::arg("batch_norm") = false,
      nb::arg("dropout") = 0.0f, nb::arg("dropout_layers") = 0, nb::arg("label_smoothing") = 0.0f,
      nb::arg("sample_weights") = false,
      "A dense network for the rows of a table, as keelson-tabular trains it: inputs x (features), and y, () int32 or\n"
      "with classes=False (outputs) float32; output prediction. activation: relu, tanh, gelu, silu or sigmoid.\n"
      "dropout_layers: drops units of the last so many hidden layers; 0: of all. label_smoothing: of the cross "
      "entropy.\n"
      "sample_weights: an input sample_weight, () float32, what the loss of each sample is multiplied by.");
  m.def(
      "minerva", &minerva, nb::arg("net") = "epsilon", nb::kw_only(), nb::arg("planes") = nb::none(),
      nb::arg("channels") = nb::none(), nb::arg("classes") = nb::none(), nb::arg("strips") = 127,
      nb::arg("dropout") = 0.5f, nb::arg("width") = 1.0,
      "Networks for MINERvA's vertices, as keelson-minerva trains them: inputs 'x' (channels, strips, planes), 'u' and "
      "'v'\n"
      "(channels, strips, planes / 2), and 'y' () int32; output 'prediction' (classes). net: 'epsilon' (50 planes, 1\n"
      "channel, 67 classes) or 'evolved633167' (94, 2, 173). width: factor for the numbers of filters and units.");
  m.def("lstm_lm", &lstm_lm, nb::arg("vocabulary") = 10000, nb::kw_only(), nb::arg("hidden") = 200,
        nb::arg("layers") = 2, nb::arg("unroll") = 20, nb::arg("embedding") = 0, nb::arg("dropout") = 0.0f,
        nb::arg("init") = 0.1f, nb::arg("tied") = false, nb::arg("cell") = "lstm", nb::arg("logits_output") = false,
        nb::arg("sampled_softmax") = 0,
        "A recurrent language model (Zaremba et al. 2014): inputs 'x' and 'y' (unroll) int32, tokens and the next "
        "tokens.\n"
        "With logits_output, the output 'logits' (rows, vocabulary). cell: 'lstm' or 'gru'.\n"
        "sampled_softmax: training estimates the softmax from so many words, drawn anew in each step; 0: from all.");
  m.def(
      "tiramisu", &tiramisu, nb::kw_only(), nb::arg("rows") = t.rows, nb::arg("columns") = t.columns,
      nb::arg("channels") = t.channels, nb::arg("classes") = t.classes, nb::arg("first") = t.first,
      nb::arg("growth") = t.growth, nb::arg("blocks") = t.layers, nb::arg("kernel") = t.kernel,
      nb::arg("dropout") = t.dropout, nb::arg("loss") = "auto",
      "Tiramisu of SC18, for segmentation: inputs 'x' (channels, rows, columns) and 'y' (rows, columns) int32, output\n"
      "'prediction' (classes, rows, columns). blocks: layers of each block on the way down.\n"
      "loss: 'auto' (as published), 'deepcam', 'sc18' or 'sc18-sum'.");
  m.def("_of_settings", &of_settings, nb::arg("stored_name"), nb::arg("config"), nb::arg("sample"));
  m.def("deepcam", &deepcam, nb::kw_only(), nb::arg("rows") = 768, nb::arg("columns") = 1152, nb::arg("channels") = 16,
        nb::arg("classes") = 3, nb::arg("output_stride") = 16, nb::arg("middle_blocks") = 16, nb::arg("width") = 1.0f,
        nb::arg("batch_norm_ranks") = 1, nb::arg("loss") = "auto",
        "DeepLabv3+ of MLPerf HPC's DeepCAM: inputs, output and loss as in tiramisu(). width: factor for the numbers "
        "of filters.");
  m.def("deeplab_sc18", &deeplab_sc18, nb::kw_only(), nb::arg("rows") = 768, nb::arg("columns") = 1152,
        nb::arg("channels") = 16, nb::arg("classes") = 3, nb::arg("decoder") = "deconv1x", nb::arg("resnet") = 50,
        nb::arg("batch_norm") = false, nb::arg("batch_norm_ranks") = 1, nb::arg("width") = 1.0f,
        nb::arg("loss") = "auto",
        "DeepLabv3+ of SC18: inputs, output and loss as in tiramisu(). decoder: 'deconv1x', 'deconv' or 'bilinear'.");
}

}  // namespace keelson::python
