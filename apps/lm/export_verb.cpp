#include "apps/common/export.hpp"

#include "apps/common/verb.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/verbs.hpp"

namespace keelson::lm {
namespace {

struct LmExportOptions : app::ExportOptions {
  std::int64_t unroll = 0;
};

app::ExportedNetwork network_of(const LmExportOptions& o, const CheckpointReader& checkpoint) {
  const auto model = read_model(checkpoint);
  auto net = net_options(model.run, model.vocabulary->size(), o.unroll);
  net.logits_output = true;
  return {nets::lstm_lm(net), network_name(model.run), {{"vocabulary", model.vocabulary->to_text()}}};
}

}  // namespace

void define_export(app::CommandLine& line) {
  auto o = std::make_shared<LmExportOptions>();
  auto& v = line.verb("export", "Write a trained language model as an ONNX model", [o](app::Job& job) {
    return app::export_network(*o, job, [&](const CheckpointReader& c) { return network_of(*o, c); });
  });
  app::declare_export(*o, v);
  v.option("--unroll", o->unroll, "Tokens per call of the model, which carries states on; 0: as trained", "TOKENS")
      .non_negative();
}

}  // namespace keelson::lm
