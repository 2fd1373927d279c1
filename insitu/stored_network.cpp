#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/graph/topology.hpp"
#include "insitu/network.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "nets/tiramisu/tiramisu.hpp"

/// Networks from the programs' checkpoints. Programs store their options by name; options that a checkpoint does not
/// have keep their defaults.
namespace keelson::insitu {
namespace {

/// The options that a checkpoint stores.
class Stored {
 public:
  explicit Stored(const CheckpointReader& checkpoint)
      : config_(checkpoint.state().config), path_(checkpoint.path().string()) {}

  std::string text(const std::string& name, const std::string& missing = "") const {
    const auto found = config_.find(name);
    return found == config_.end() || found->second.empty() ? missing : found->second;
  }
  bool yes(const std::string& name) const { return text(name) == "true"; }
  template <class T>
  void get(const std::string& name, T& value) const {
    const auto found = text(name);
    if (!found.empty()) value = number<T>(name, found);
  }
  void get(const std::string& name, std::vector<int>& values) const {
    const auto found = text(name);
    if (found.empty()) return;
    values.clear();
    for (const auto& word : pieces(found, ',')) values.push_back(number<int>(name, word));
  }
  /// "0:1,-2.5:4": the smallest and largest value of each channel.
  std::vector<ChannelScale> ranges() const {
    std::vector<ChannelScale> scales;
    for (const auto& range : pieces(text("ranges"), ',')) {
      const auto ends = pieces(range, ':');
      if (ends.size() != 2) refuse("{}: the range of a channel is '{}'. Expected SMALLEST:LARGEST", path_, range);
      const auto least = number<float>("ranges", ends[0]), most = number<float>("ranges", ends[1]);
      const float scale = most > least ? 1 / (most - least) : 0;
      scales.push_back({.scale = scale, .offset = -least * scale});
    }
    return scales;
  }

 private:
  static std::vector<std::string> pieces(const std::string& text, char separator) {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find(separator, at), text.size());
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  }
  template <class T>
  T number(const std::string& name, const std::string& text) const {
    const auto value = parse_number<T>(text);
    if (!value) refuse("{}: the stored option '{}' is '{}'. Expected a number", path_, name, text);
    return *value;
  }

  std::map<std::string, std::string> config_;
  std::string path_;
};

template <class Options>
void set_size(Options& o, const Shape& input) {
  o.channels = input[0];
  o.rows = input[1];
  o.columns = input[2];
}

Graph deepcam(const Stored& stored, const Shape& input) {
  nets::DeepCamOptions o;
  set_size(o, input);
  stored.get("output-stride", o.output_stride);
  stored.get("middle-blocks", o.middle_blocks);
  stored.get("width", o.width_multiplier);
  return nets::deepcam(o);
}

Graph deeplab(const Stored& stored, const Shape& input) {
  nets::DeepLabSc18Options o;
  set_size(o, input);
  const auto decoder = stored.text("decoder", "deconv1x");
  o.decoder = decoder == "bilinear" ? nets::DeepLabDecoder::bilinear
              : decoder == "deconv" ? nets::DeepLabDecoder::deconv
                                    : nets::DeepLabDecoder::deconv1x;
  if (stored.text("resnet") == "101") o.units = {3, 4, 23, 3};
  o.batch_norm = stored.yes("batch-norm");
  stored.get("width", o.width_multiplier);
  return nets::deeplab_sc18(o);
}

Graph tiramisu(const Stored& stored, const Shape& input) {
  nets::TiramisuOptions o;
  set_size(o, input);
  stored.get("first", o.first);
  stored.get("growth", o.growth);
  stored.get("blocks", o.layers);
  stored.get("kernel", o.kernel);
  stored.get("dropout", o.dropout);
  return nets::tiramisu(o);
}

Network climate(const CheckpointReader& checkpoint, const Shape& input, const std::string& model) {
  if (input.rank() != 3)
    refuse("model '{}': {} has two dimensions, the fields {}", model, checkpoint.state().network, input.rank() - 1);
  const Stored stored(checkpoint);
  const auto net = checkpoint.state().network.substr(std::string("climate-").size());
  Network n;
  n.graph = net == "deepcam"   ? deepcam(stored, input)
            : net == "deeplab" ? deeplab(stored, input)
                               : tiramisu(stored, input);
  n.scales = stored.ranges();
  if (!n.scales.empty() && std::ssize(n.scales) != input[0])
    refuse("{}: {} ranges for {} channels", checkpoint.path().string(), n.scales.size(), input[0]);
  return n;
}

Network cosmoflow(const CheckpointReader& checkpoint, const Shape& input, const std::string& model) {
  if (input.rank() != 4 || !(input == stored_input(checkpoint)))
    refuse(
        "model '{}': the checkpoint's network reads {}, but the tiles with halo of {} fields are {}. Expected the "
        "same: "
        "its dense layers fit one size",
        model, keelson::to_string(stored_input(checkpoint)), input[0], keelson::to_string(input));
  const Stored stored(checkpoint);
  const bool paper = checkpoint.state().network == "cosmoflow-paper";
  const auto normalise = stored.text("normalise", "auto");
  if (normalise == "mean" || (normalise == "auto" && paper))
    refuse(
        "model '{}': its network was trained on samples that were divided by their mean, which fields of simulations "
        "are "
        "not. Expected a checkpoint of --normalise log1p or none",
        model);
  const auto widths = Topology::parse(checkpoint.state().topology).widths();
  const nets::CosmoFlowOptions o{.size = input[1],
                                 .channels = static_cast<int>(input[0]),
                                 .targets = static_cast<int>(widths.at("dense3")),
                                 .widths = widths};
  Network n;
  n.graph = paper ? nets::cosmoflow_paper(o) : nets::cosmoflow_mlperf(o);
  if (normalise != "none")
    n.scales.assign(static_cast<std::size_t>(input[0]), {.scale = 1, .offset = 0, .logarithm = true});
  return n;
}

}  // namespace

Shape stored_input(const CheckpointReader& checkpoint) {
  const auto& text = checkpoint.state().topology;
  if (text.empty())
    refuse(
        "{}: does not contain the size of the network's input, since an old version of Keelson wrote it: write a new "
        "checkpoint with `train --resume`",
        checkpoint.path().string());
  const auto nodes = Topology::parse(text).nodes;
  const auto x = std::ranges::find_if(nodes, [](const Topology::Node& n) { return n.name == "x"; });
  if (x == nodes.end() || x->shape.rank() < 4)
    refuse("{}: its network {} has no input 'x' with channels and two or three dimensions", checkpoint.path().string(),
           checkpoint.state().network);
  return Shape(std::span(x->shape.begin() + 1, x->shape.end()));
}

Network network_of_checkpoint(const CheckpointReader& checkpoint, const Shape& input, const Loss& loss,
                              const std::string& model) {
  const auto& state = checkpoint.state();
  if (const Shape stored = stored_input(checkpoint); stored[0] != input[0])
    refuse(
        "model '{}': the checkpoint's network has {} channels, but {} fields are its inputs. Expected a field for each "
        "channel, in `inputs`",
        model, stored[0], input[0]);
  if (state.network == "insitu") {
    const Stored stored(checkpoint);
    const auto trained_by = stored.text("loss");
    const bool as_trained = loss.kind.empty() && !trained_by.empty();
    auto network =
        network_of_layers(stored.text("layers"), input, as_trained ? parse_loss(trained_by, model) : loss, model);
    if (as_trained) network.config["loss"] = trained_by;
    return network;
  }
  if (!loss.kind.empty())
    refuse(
        "model '{}': a checkpoint of {} can only be used for inference. Expected one of keelson_insitu_save for "
        "training, or `layers`",
        model, state.network);
  Network n;
  if (state.network.starts_with("climate-"))
    n = climate(checkpoint, input, model);
  else if (state.network.starts_with("cosmoflow-"))
    n = cosmoflow(checkpoint, input, model);
  else
    refuse("{}: holds the network '{}'. Expected one of keelson-climate, keelson-cosmoflow or keelson_insitu_save",
           checkpoint.path().string(), state.network);
  n.name = state.network;
  n.config = state.config;
  return n;
}

}  // namespace keelson::insitu
