#include <gtest/gtest.h>

#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/registry.hpp"
#include "tests/onnx/runtime.hpp"
#include "tests/support/network_runs.hpp"

/// Every network of nets/, small, in onnxruntime.
namespace keelson::testing {
namespace {

TEST(OnnxNetworks, Registered) {
  std::vector<ExportedCase> cases;
  for (const auto& n : nets::registered_networks())
    cases.push_back({n.stored_name, n.make(n.tiny_settings, n.tiny_sample)});
  expect_same_elsewhere(cases);
}

TEST(OnnxNetworks, LanguageModels) {
  std::vector<ExportedCase> cases;
  for (const auto cell : {ops::CellKind::lstm, ops::CellKind::gru})
    for (const bool tied : {false, true}) {
      nets::LstmLmOptions o{.vocabulary = 30, .hidden = 12, .unroll = 5, .dropout = 0.5f, .tied = tied, .cell = cell};
      o.embedding = tied ? 0 : 7;
      o.logits_output = true;
      const auto name = fmt::format("{} language model{}", ops::to_string(cell), tied ? ", tied" : "");
      cases.push_back({.name = name, .graph = nets::lstm_lm(o), .steps = 4, .largest_integer = 29});
    }
  expect_same_elsewhere(cases);
}

TEST(OnnxNetworks, Dense) {
  std::vector<ExportedCase> cases;
  for (const auto& [name, options] : dense_networks())
    cases.push_back({.name = name, .graph = nets::mlp(options), .largest_integer = 2});
  expect_same_elsewhere(cases);
}

TEST(OnnxNetworks, DeepCam) {
  std::vector<ExportedCase> cases;
  for (const int stride : {16, 8}) {
    nets::DeepCamOptions o{.rows = 32, .columns = 48};
    o.output_stride = stride;
    o.middle_blocks = 2;
    o.width_multiplier = 0.0625f;
    cases.push_back({fmt::format("deepcam, output stride {}", stride), nets::deepcam(o)});
  }
  expect_same_elsewhere(cases);
}

TEST(OnnxNetworks, DeepLabSc18) {
  std::vector<ExportedCase> cases;
  nets::DeepLabSc18Options o{.rows = 24, .columns = 32};
  o.width_multiplier = 0.0625f;
  using enum nets::DeepLabDecoder;
  for (const auto decoder : {deconv1x, deconv, bilinear})
    for (const bool batch_norm : {false, true}) {
      o.decoder = decoder;
      o.batch_norm = batch_norm;
      const auto name = fmt::format("deeplab_sc18, decoder {}", static_cast<int>(decoder));
      cases.push_back({name + (batch_norm ? ", batch norm" : ""), nets::deeplab_sc18(o)});
    }
  o.units = {3, 4, 23, 3};
  cases.push_back({"deeplab_sc18, ResNet-101", nets::deeplab_sc18(o)});
  expect_same_elsewhere(cases);
}

}  // namespace
}  // namespace keelson::testing
