#include "apps/common/export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/subcommand.hpp"
#include "backends/registry.hpp"
#include "engine/graph/topology.hpp"
#include "engine/onnx/export.hpp"

namespace keelson::app {
namespace {

struct ExportOptions : EvaluationOptions {
  std::string onnx;
};

ExitCode export_network(const ExportOptions& o, const Launch& launch,
                        const std::function<ExportedNetwork(const CheckpointReader&)>& make) {
  if (launch.world.rank() != 0) return ExitCode::done;
  if (o.checkpoint.empty()) refuse("give --checkpoint: a checkpoint or a run's folder");
  if (o.onnx.empty()) refuse("give --onnx: the file to write");
  const CheckpointReader checkpoint(o.checkpoint, true, nullptr);
  ExportedNetwork network = make(checkpoint);
  network.graph = with_stored_widths(network.graph, checkpoint);
  const auto context = backends::make_context(o.device.device);
  Parameters parameters(network.graph, *context, checkpoint.state().seed);
  for (auto& p : parameters.all()) parameters.materialise(p, Layout::plain(p.shape));
  const RunState state = checkpoint.load(network.name, parameters, std::nullopt);
  OnnxOptions options{.name = network.name, .metadata = network.metadata};
  options.doc =
      fmt::format("{}, trained by Keelson {}: epoch {}, step {}", network.name, state.version, state.epoch, state.step);
  options.metadata.insert(
      {{"network", network.name}, {"epoch", std::to_string(state.epoch)}, {"step", std::to_string(state.step)}});
  const auto written = export_onnx(network.graph, parameters, o.onnx, options);
  fmt::print("{}: {} parameters of {} (epoch {}, step {})\n", o.onnx, network.graph.parameter_count(),
             checkpoint.path().string(), state.epoch, state.step);
  for (const auto& v : written.inputs) fmt::print("input   {}\n", to_string(v));
  for (const auto& v : written.outputs) fmt::print("output  {}\n", to_string(v));
  if (!written.data.empty()) fmt::print("weights in {}, which must stay in the same folder\n", written.data.string());
  return ExitCode::done;
}

}  // namespace

Subcommand& define_export(CommandLine& line, std::function<ExportedNetwork(const CheckpointReader&)> make) {
  const auto o = std::make_shared<ExportOptions>();
  Subcommand& v =
      line.subcommand("export", "Write a trained network as an ONNX model",
                      [o, make = std::move(make)](Launch& launch) { return export_network(*o, launch, make); });
  declare_checkpoint(*o, v);
  v.option_without_default("--onnx", o->onnx, "The ONNX model to write (opset 17)", "FILE").output();
  return v;
}

Shape stored_input_shape(const CheckpointReader& checkpoint, int rank) {
  const auto& topology = checkpoint.state().topology;
  if (topology.empty())
    refuse(
        "{}: does not contain the size of the network's input, since an old version of Keelson wrote it: write a new "
        "checkpoint with `train --resume`",
        checkpoint.path().string());
  const auto nodes = Topology::parse(topology).nodes;
  const auto x = std::ranges::find_if(nodes, [](const Topology::Node& n) { return n.name == "x"; });
  if (x == nodes.end() || x->shape.rank() != rank + 1)
    refuse("{}: its network has no input 'x' of {} dimensions", checkpoint.path().string(), rank);
  return Shape(std::span(x->shape.begin() + 1, x->shape.end()));
}

}  // namespace keelson::app
