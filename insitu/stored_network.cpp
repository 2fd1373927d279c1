#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/grow/deepen.hpp"
#include "insitu/network.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/registry.hpp"

/// Networks from the programs' checkpoints. Programs store their options by name; options that a checkpoint does not
/// have keep their defaults.
namespace keelson::insitu {
namespace {

nets::Settings settings_of(const CheckpointReader& checkpoint) {
  return {checkpoint.state().config, checkpoint.path().string()};
}

/// "0:1,-2.5:4": the smallest and largest value of each channel.
std::vector<ChannelScale> ranges_of(const nets::Settings& stored) {
  const std::string text = stored.text("ranges");
  std::vector<ChannelScale> scales;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(',', at), text.size()), colon = text.find(':', at);
    const auto number = [&](std::size_t from, std::size_t to) {
      return from > to ? std::nullopt : parse_number<float>(std::string_view(text).substr(from, to - from));
    };
    const auto least = number(at, std::min(colon, end)), most = number(colon == text.npos ? end : colon + 1, end);
    if (!least || !most || colon > end) stored.refuse_text("ranges", text, "SMALLEST:LARGEST of each channel");
    const float scale = *most > *least ? 1 / (*most - *least) : 0;
    scales.push_back({.scale = scale, .offset = -*least * scale});
    at = end + 1;
  }
  return scales;
}

Network climate(const CheckpointReader& checkpoint, const Shape& input, const std::string& model) {
  if (input.rank() != 3)
    refuse("model '{}': {} has two dimensions, the fields {}", model, checkpoint.state().network, input.rank() - 1);
  const nets::Settings stored = settings_of(checkpoint);
  Network n;
  n.graph = with_topology(nets::find_stored_network(checkpoint.state().network).make(stored, input),
                          Topology::parse(checkpoint.state().topology));
  n.scales = ranges_of(stored);
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
  const nets::Settings stored = settings_of(checkpoint);
  const bool paper = checkpoint.state().network == "cosmoflow-paper";
  const auto normalise = stored.text("normalise", "auto");
  if (normalise == "mean" || (normalise == "auto" && paper))
    refuse(
        "model '{}': its network was trained on samples that were divided by their mean, which fields of simulations "
        "are "
        "not. Expected a checkpoint of --normalise log1p or none",
        model);
  const Topology topology = Topology::parse(checkpoint.state().topology);
  const nets::CosmoFlowOptions o{.size = input[1],
                                 .channels = static_cast<int>(input[0]),
                                 .targets = static_cast<int>(topology.widths().at("dense3"))};
  Network n;
  n.graph = with_topology(paper ? nets::cosmoflow_paper(o) : nets::cosmoflow_mlperf(o), topology);
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
    const nets::Settings stored = settings_of(checkpoint);
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
