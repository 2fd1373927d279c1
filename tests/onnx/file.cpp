#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/onnx/export.hpp"
#include "tests/onnx/reader.hpp"
#include "tests/onnx/runtime.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

/// What stands in a model file, read without ONNX.
namespace keelson::testing {
namespace {

using Texts = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

class OnnxExportTest : public ::testing::Test {
 protected:
  OnnxFile exported(const Graph& graph, const OnnxOptions& options = {}) {
    parameters_ = std::make_unique<Parameters>(graph, context(network_contexts().back()), 1);
    set_uneven_values(*parameters_);
    summary_ = export_onnx(graph, *parameters_, path_, options);
    return OnnxFile(path_);
  }
  std::string refusal(const Graph& graph) {
    const auto message = message_of<InputError>([&] { exported(graph); });
    EXPECT_FALSE(std::filesystem::exists(path_));
    return message;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "model.onnx";
  std::unique_ptr<Parameters> parameters_;
  OnnxSummary summary_;
};

/// Each value is made once, before it is read.
void expect_ordered(const OnnxFile& file) {
  std::set<std::string> known{""};
  const auto add = [&](const std::string& name) { EXPECT_TRUE(known.insert(name).second) << name << " is made twice"; };
  for (const auto& i : file.inputs) add(i.text(1));
  for (const auto& i : file.initializers) add(i.text(8));
  for (const auto& n : file.nodes) {
    for (const auto& name : n.texts(1)) EXPECT_TRUE(known.contains(name)) << n.text(3) << " reads " << name;
    for (const auto& name : n.texts(2)) add(name);
  }
  for (const auto& o : file.outputs) EXPECT_TRUE(known.contains(o.text(1))) << o.text(1);
  std::set<std::string> described;
  for (const auto& v : file.graph.messages(13)) {
    EXPECT_TRUE(known.contains(v.text(1))) << v.text(1);
    EXPECT_TRUE(described.insert(v.text(1)).second) << v.text(1);
  }
}

TEST_F(OnnxExportTest, SaysWhoWroteItAndWhatItIs) {
  const OnnxFile file = exported(volumes(), {.name = "volumes", .doc = "small", .metadata = {{"a", "1"}, {"b", ""}}});
  EXPECT_EQ(file.model.integer(1), 8);
  EXPECT_EQ(file.model.text(2), "keelson");
  EXPECT_EQ(file.model.text(3), KEELSON_VERSION);
  EXPECT_EQ(file.model.text(6), "small");
  EXPECT_EQ(file.model.message(8).text(1), "");
  EXPECT_EQ(file.model.message(8).integer(2), 17);
  EXPECT_EQ(names_of(file.model.messages(14), 1), (Texts{"a", "b"}));
  EXPECT_EQ(names_of(file.model.messages(14), 2), (Texts{"1", ""}));
  EXPECT_EQ(file.graph.text(2), "volumes");
}

TEST_F(OnnxExportTest, HasWhatTheOutputsDependOn) {
  const OnnxFile file = exported(volumes());
  EXPECT_EQ(file.types(), (Texts{"Conv", "LeakyRelu", "MaxPool", "Conv", "Add", "Relu", "MaxPool", "Transpose",
                                 "Reshape", "Gemm", "LeakyRelu", "Gemm", "Tanh", "Mul", "Identity"}));
  EXPECT_EQ(names_of(file.inputs, 1), Texts{"x"});  // y is the loss's
  EXPECT_EQ(names_of(file.outputs, 1), Texts{"prediction"});
  EXPECT_EQ(dims_of(file.inputs[0]), (Texts{"batch", "3", "8", "8", "8"}));
  EXPECT_EQ(dims_of(file.outputs[0]), (Texts{"batch", "4"}));
  EXPECT_EQ(to_string(summary_.inputs.at(0)), "x: f32 (batch, 3, 8, 8, 8)");
  EXPECT_EQ(to_string(summary_.outputs.at(0)), "prediction: f32 (batch, 4)");
  EXPECT_EQ(file.node("Transpose").texts(1), file.nodes[6].texts(2));
  expect_ordered(file);
}

TEST_F(OnnxExportTest, HasTheParametersInPlainOrder) {
  const Graph graph = volumes();
  const OnnxFile file = exported(graph);
  int found = 0;
  for (const Parameter& p : parameters_->all()) {
    SCOPED_TRACE(p.name);
    EXPECT_EQ(file.floats(p.name), parameters_->get(p));
    EXPECT_EQ(file.initializer(p.name).integers(1), Integers(p.shape.begin(), p.shape.end()));
    ++found;
  }
  EXPECT_EQ(found, 8);
  Executor executor(graph, *parameters_, {.batch = 2});  // which lays them out as kernels want them
  const auto before = bytes_of(path_);
  export_onnx(graph, *parameters_, path_, {});
  EXPECT_EQ(bytes_of(path_), before);
}

TEST_F(OnnxExportTest, MakesTheGatesOfRecurrentLayers) {
  const OnnxFile file = exported(words());
  EXPECT_EQ(names_of(file.inputs, 1), (Texts{"x", "lstm1_state", "lstm2_state"}));
  EXPECT_EQ(names_of(file.outputs, 1), (Texts{"logits", "lstm1_state_next", "lstm2_state_next"}));
  EXPECT_EQ(dims_of(file.inputs[1]), (Texts{"batch", "2", "8"}));
  EXPECT_EQ(dims_of(file.outputs[0]), (Texts{"5*batch", "12"}));
  EXPECT_EQ(file.inputs[0].message(2).message(1).integer(1), 6);  // int32
  // The dense layers that make the gates are in the recurrent operators.
  const auto types = file.types();
  EXPECT_EQ(std::count(types.begin(), types.end(), "Gemm"), 1);
  const auto ours = parameters_->get(parameters_->at("lstm1_input/weights"));
  const auto w = file.floats("lstm1/W");
  EXPECT_EQ(file.initializer("lstm1/W").integers(1), (Integers{1, 32, 8}));
  const auto gate = [](const std::vector<float>& all, std::ptrdiff_t i) {
    return std::vector<float>(all.begin() + i * 64, all.begin() + (i + 1) * 64);
  };
  const std::ptrdiff_t order[] = {0, 3, 1, 2};
  for (std::ptrdiff_t i = 0; i < 4; ++i) EXPECT_EQ(gate(w, i), gate(ours, order[i]));
  expect_ordered(file);
}

TEST_F(OnnxExportTest, LeavesUnusedNodesOut) {
  Graph g;
  const Var x = g.input("x", {4}), unused = g.input("unused", {4});
  g.set_output("out", dropout(dense(x, 3, "used"), 0.5f));
  dense(add({x, unused}), 3, "dead");
  const OnnxFile file = exported(g);
  EXPECT_EQ(names_of(file.inputs, 1), Texts{"x"});
  EXPECT_EQ(names_of(file.initializers, 8), (Texts{"used/weights", "used/bias"}));
  EXPECT_EQ(file.types(), (Texts{"Gemm", "Identity"}));
}

TEST_F(OnnxExportTest, KeepsNamesApart) {
  Graph g;
  const Var x = g.input("x", {4});
  const Var out = dense(x, 4, "out"), both = add({out, x}, "out/weights");
  g.set_output("out", both);
  g.set_output("again", both);
  g.set_output("dense", out);
  const OnnxFile file = exported(g);
  EXPECT_EQ(names_of(file.outputs, 1), (Texts{"out", "again", "dense"}));
  expect_ordered(file);
}

TEST_F(OnnxExportTest, SharesTheWeightsOfTiedLayers) {
  Graph g;
  const Var x = g.input("x", {3}, DType::s32);
  const Var v = embedding(x, {7, 4}, "embedding");
  g.set_output("logits", dense(v, {.features = 7, .weights_of = "embedding"}, "output"));
  const OnnxFile file = exported(g);
  EXPECT_EQ(file.node("Gather").texts(1).at(0), "embedding/weights");
  EXPECT_EQ(file.node("Gemm").texts(1).at(1), "embedding/weights");
  EXPECT_EQ(OnnxFile::attribute(file.node("Gemm"), "transB"), Integers{1});
}

TEST_F(OnnxExportTest, PutsLargeWeightsIntoASecondFile) {
  const OnnxFile file = exported(volumes(), {.largest_file = 10000});
  EXPECT_EQ(summary_.data, path_ + ".data");
  const std::string data = bytes_of(path_ + ".data");
  int outside = 0;
  for (const auto& tensor : file.initializers) {
    if (!tensor.has(14)) continue;
    ++outside;
    EXPECT_EQ(tensor.integer(14), 1);
    EXPECT_FALSE(tensor.has(9));
    const auto where = tensor.messages(13);
    ASSERT_EQ(names_of(where, 1), (Texts{"location", "offset", "length"}));
    EXPECT_EQ(where[0].text(2), "model.onnx.data");
    const auto offset = std::stoull(where[1].text(2)), length = std::stoull(where[2].text(2));
    EXPECT_EQ(offset % 4096, 0);
    const auto values = parameters_->get(parameters_->at(tensor.text(8)));
    ASSERT_EQ(length, values.size() * sizeof(float));
    EXPECT_EQ(data.substr(offset, length), std::string(reinterpret_cast<const char*>(values.data()), length));
  }
  EXPECT_EQ(outside, 3);  // of conv1, conv2 and dense1
  // Whole files of just that size stay alone.
  const auto size = static_cast<std::int64_t>(bytes_of(folder_ / "model.onnx").size());
  EXPECT_LT(size, 10000);
  const auto whole = export_onnx(volumes(), *parameters_, folder_ / "whole.onnx");
  const auto bytes = static_cast<std::int64_t>(bytes_of(folder_ / "whole.onnx").size());
  EXPECT_TRUE(whole.data.empty());
  EXPECT_TRUE(export_onnx(volumes(), *parameters_, folder_ / "a.onnx", {.largest_file = bytes}).data.empty());
  EXPECT_FALSE(export_onnx(volumes(), *parameters_, folder_ / "b.onnx", {.largest_file = bytes - 1}).data.empty());
}

TEST_F(OnnxExportTest, RefusesWhatItCannotWrite) {
  Graph none;
  relu(none.input("x", {4}));
  EXPECT_NE(refusal(none).find("no output"), std::string::npos);

  Graph with_loss;
  const Var x = with_loss.input("x", {4}), y = with_loss.input("y", {4});
  with_loss.set_output("out", loss(x, y, {ops::LossKind::mse}, "error"));
  EXPECT_NE(refusal(with_loss).find("error (mse) cannot be exported to ONNX"), std::string::npos);

  Graph same_name;
  same_name.set_output("x", relu(same_name.input("x", {4})));
  EXPECT_NE(refusal(same_name).find("called 'x'"), std::string::npos);

  EXPECT_THROW(export_onnx(volumes(), *parameters_, folder_ / "missing/model.onnx"), Error);
}

}  // namespace
}  // namespace keelson::testing
