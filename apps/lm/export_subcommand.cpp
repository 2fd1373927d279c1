#include "apps/common/export.hpp"

#include "apps/common/subcommand.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/subcommands.hpp"

namespace keelson::lm {
namespace {

app::ExportedNetwork network_of(const CheckpointReader& checkpoint, std::int64_t unroll) {
  const auto model = read_model(checkpoint);
  auto net = net_options(model.run, model.vocabulary->size(), unroll);
  net.logits_output = true;
  return {nets::lstm_lm(net), network_name(model.run), {{"vocabulary", model.vocabulary->to_text()}}};
}

}  // namespace

void define_export(app::CommandLine& line) {
  const auto unroll = std::make_shared<std::int64_t>(0);
  app::define_export(line, [unroll](const CheckpointReader& c) { return network_of(c, *unroll); })
      .option("--unroll", *unroll, "Tokens per call of the model; states are kept between calls; 0: as trained",
              "TOKENS")
      .non_negative();
}

}  // namespace keelson::lm
