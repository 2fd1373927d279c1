#include "tests/onnx/runtime.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/execute/executor.hpp"
#include "engine/onnx/export.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {

namespace {

using Json = nlohmann::ordered_json;

/// A named array for the script, whose values are in a file of their own.
Json stored(const TemporaryFolder& folder, int& files, const std::string& name, const Shape& shape, DType type,
            const std::string& bytes) {
  const auto file = write_file(folder / fmt::format("{}.bin", files++), bytes);
  return {{"name", name},
          {"dtype", type == DType::s32 ? "int32" : "float32"},
          {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
          {"file", file}};
}

template <class T>
std::string as_bytes(const Array& a) {
  const std::vector<T> values(a.data.begin(), a.data.end());
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// One executor's calls: what it was given and what it gave.
class Recorder {
 public:
  Recorder(const ExportedCase& c, Parameters& parameters, const OnnxSummary& file, const TemporaryFolder& folder,
           int& files)
      : case_(c), parameters_(parameters), file_(file), folder_(folder), files_(files) {}

  Json record(std::int64_t batch) {
    Executor executor(case_.graph, parameters_, {.batch = batch, .training = false});
    Json calls = Json::array();
    for (std::int64_t step = 0; step < case_.steps; ++step) calls.push_back(call(executor, step));
    return calls;
  }

 private:
  Json call(Executor& executor, std::int64_t step) {
    Json inputs = Json::array(), outputs = Json::array();
    for (const Graph::Node& n : case_.graph.nodes()) {
      if (!n.srcs.empty() || n.is_state) continue;
      const Tensor t = executor.input(n.name);
      const auto seed = fmt::format("{} {}", n.name, step);
      const bool integers = t.dtype() == DType::s32;
      const Array values = integers ? oracle::random_integers(t.shape(), seed, 0, case_.largest_integer)
                                    : oracle::random_uniform(t.shape(), seed);
      set_input(parameters_.context(), executor, n.name, values);
      const auto in_file = [&](const onnx::Value& v) { return v.name == n.name; };
      if (std::ranges::none_of(file_.inputs, in_file)) continue;  // the target of the loss
      inputs.push_back(stored(folder_, files_, n.name, t.shape(), t.dtype(),
                              integers ? as_bytes<std::int32_t>(values) : as_bytes<float>(values)));
    }
    executor.forward({});
    for (const auto& [name, node] : case_.graph.outputs()) add_output(outputs, name, executor.output(name));
    executor.carry_states();
    for (const auto& name : executor.states()) add_output(outputs, name + "_next", executor.input(name));
    return {{"inputs", inputs}, {"outputs", outputs}};
  }

  void add_output(Json& outputs, const std::string& name, const Tensor& t) {
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    parameters_.context().read_plain(t, values.data());
    outputs.push_back(stored(folder_, files_, name, t.shape(), DType::f32,
                             {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  }

  const ExportedCase& case_;
  Parameters& parameters_;
  const OnnxSummary& file_;
  const TemporaryFolder& folder_;
  int& files_;
};

}  // namespace

void set_uneven_values(Parameters& parameters) {
  for (Parameter& p : parameters.all()) {
    if (p.init.kind != Init::Kind::constant) continue;
    const bool positive = p.name.ends_with("variance") || p.name.ends_with("scale");
    const Array values = oracle::random_uniform(p.shape, p.name, positive ? 0.5 : -0.3, positive ? 1.5 : 0.3);
    p.start.assign(values.data.begin(), values.data.end());
  }
}

void expect_same_elsewhere(const std::vector<ExportedCase>& cases) {
  Context& ctx = context(network_contexts().back());
  const TemporaryFolder folder;
  int files = 0;
  Json models = Json::array();
  for (const ExportedCase& c : cases) {
    Parameters parameters(c.graph, ctx, 3);
    set_uneven_values(parameters);
    OnnxOptions options{.name = c.name};
    if (c.largest_file > 0) options.largest_file = c.largest_file;
    const std::string path = folder / fmt::format("{}.onnx", files++);
    const auto file = export_onnx(c.graph, parameters, path, options);
    Json runs = Json::array();
    for (const std::int64_t batch : {1, 3}) runs.push_back(Recorder(c, parameters, file, folder, files).record(batch));
    models.push_back({{"name", c.name}, {"file", path}, {"runs", runs}});
  }
  const auto manifest = write_file(folder / "models.json", models.dump());
  const std::string command =
      fmt::format("'{}' '{}/tests/onnx/run_models.py' '{}'", KEELSON_PYTHON, KEELSON_SOURCE_DIR, manifest);
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << command;
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "Python has no onnxruntime";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace keelson::testing
