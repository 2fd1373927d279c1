#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/philox.hpp"
#include "engine/data/coded_voxels.hpp"
#include "engine/data/dataset.hpp"
#include "engine/layers/layers.hpp"
#include "engine/train/metrics/perplexity.hpp"
#include "engine/train/metrics/predictions.hpp"
#include "engine/train/metrics/target_metric.hpp"
#include "engine/train/trainer.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"

/// What the tests of training share: samples made on the fly, a small network for them, a folder.
namespace keelson::testing {

/// Cubes of noise whose amplitude and slope are the two targets: learnable, and a function of the index alone.
class CubeDataset final : public Dataset {
 public:
  explicit CubeDataset(std::int64_t samples, std::int64_t edge = 6, std::uint64_t seed = 5)
      : samples_(samples), edge_(edge), seed_(seed), fields_{{"x", {2, edge, edge, edge}}, {"y", {2}}} {}

  std::int64_t size() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return fmt::format("{} cubes", samples_); }
  std::uint64_t digest() const override { return static_cast<std::uint64_t>(samples_ * 1000 + edge_) + seed_; }

  void read(std::int64_t index, void* const* dst) const override {
    const philox::Key key{seed_, 1, static_cast<std::uint64_t>(index)};
    auto* x = static_cast<float*>(dst[0]);
    auto* y = static_cast<float*>(dst[1]);
    y[0] = 2 * philox::uniform(key, 0) - 1;
    y[1] = 2 * philox::uniform(key, 1) - 1;
    const auto voxels = edge_ * edge_ * edge_;
    for (std::int64_t v = 0; v < voxels; ++v) {
      const auto z = static_cast<float>(v % edge_) / static_cast<float>(edge_) - 0.5f;
      x[2 * v] = (1 + 0.5f * y[0]) * philox::uniform(key, static_cast<std::uint64_t>(8 + v));
      x[2 * v + 1] = y[1] * z + 0.2f * philox::uniform(key, static_cast<std::uint64_t>(8 + voxels + v));
    }
    if (index == poisoned) x[7] = INFINITY;
  }

  std::int64_t poisoned = -1;  ///< this sample holds an infinity

 private:
  std::int64_t samples_, edge_;
  std::uint64_t seed_;
  std::vector<Field> fields_;
};

/// Cubes as 16-bit codes of two stored channels, of which the network takes the second and the first; every second
/// sample is mirrored.
class CodedCubes final : public Dataset {
 public:
  CodedCubes(std::int64_t samples, bool has_codes)
      : samples_(samples), has_codes_(has_codes), codes_(0, fields_[0].shape, {2, {1, 0}, table()}) {}
  std::int64_t size() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return "coded cubes"; }
  void read(std::int64_t index, void* const* dst) const override {
    std::vector<std::uint16_t> codes(2 * voxels);
    void* const both[] = {codes.data(), dst[1]};
    const auto v = encode(index, both);
    auto* x = static_cast<float*>(dst[0]);
    for (std::int64_t i = 0; i < voxels; ++i) {
      const auto from = static_cast<std::size_t>(v.step[2] > 0 ? i : voxels - 1 - i);
      for (std::size_t c : {1, 0}) *x++ = codes_.codes().table[codes[2 * from + c]] / v.divisor;
    }
  }
  const FieldEncoding* encoding(const SampleTransform* transform) const override {
    return has_codes_ && !transform ? &codes_ : nullptr;
  }
  void read_sample(const SampleRequest& request, void* const* dst) const override {
    if (!request.encoding) return Dataset::read_sample(request, dst);
    ++code_reads;
    const auto sample = encode(request.id.index, dst);
    std::memcpy(request.encoding, &sample, sizeof sample);
  }
  mutable std::atomic<int> code_reads = 0;

 private:
  static constexpr std::int64_t edge = 6, voxels = edge * edge * edge;
  static ops::VoxelSample encode(std::int64_t index, void* const* dst) {
    const philox::Key key{9, 1, static_cast<std::uint64_t>(index)};
    auto* codes = static_cast<std::uint16_t*>(dst[0]);
    auto* y = static_cast<float*>(dst[1]);
    y[0] = 2 * philox::uniform(key, 0) - 1;
    y[1] = 2 * philox::uniform(key, 1) - 1;
    for (std::int64_t i = 0; i < 2 * voxels; ++i)
      codes[i] = static_cast<std::uint16_t>((1500 + 1000 * y[i % 2]) *
                                            philox::uniform(key, static_cast<std::uint64_t>(8 + i)));
    if (index % 2 == 0) return {0, {edge * edge, edge, 1}, 1, 1};
    return {voxels - 1, {-edge * edge, -edge, -1}, 1.5f, 1};
  }

  static std::vector<float> table() {
    std::vector<float> values(65536);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::log1p(static_cast<float>(i) * 1e-3f);
    return values;
  }

  std::int64_t samples_;
  bool has_codes_;
  std::vector<Field> fields_{{"x", {2, edge, edge, edge}}, {"y", {2}}};
  CodedVoxels codes_;
};

/// Turns every second sample, drawn at random, upside down.
class Flip final : public SampleTransform {
 public:
  void check(const Dataset&) const override {}
  void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const override {
    const philox::Key key{id.seed, philox::stream_of("flip"), static_cast<std::uint64_t>(id.epoch)};
    if (philox::below(key, static_cast<std::uint64_t>(id.index), 2) == 0) return;
    auto* x = static_cast<float*>(sample[0]);
    std::reverse(x, x + fields[0].shape.elements());
  }
  std::string describe() const override { return "flip"; }
};

/// conv -> pool -> dense -> dropout -> dense, mean squared error.
inline Graph small_network(float dropout = 0.25f, std::int64_t features = 8, std::int64_t edge = 6) {
  Graph g;
  auto x = g.input("x", {2, edge, edge, edge});
  auto y = g.input("y", {2});
  auto h = max_pool(leaky_relu(conv(x, {.filters = 6}, "conv1"), 0.3f), 2);
  h = leaky_relu(dense(flatten(h), features, "dense1"), 0.3f);
  if (dropout > 0) h = ::keelson::dropout(h, dropout, "drop1");
  auto p = dense(h, 2, "dense2");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

/// Windows of `words` tokens below 12 and those that follow them; every fourth sample ends with one that does not
/// count.
class TokenDataset final : public Dataset {
 public:
  explicit TokenDataset(std::int64_t samples, std::int64_t words = 5)
      : samples_(samples), words_(words), fields_{{"x", {words}, DType::s32}, {"y", {words}, DType::s32}} {}

  std::int64_t size() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return fmt::format("{} windows", samples_); }
  void read(std::int64_t index, void* const* dst) const override {
    auto* x = static_cast<std::int32_t*>(dst[0]);
    auto* y = static_cast<std::int32_t*>(dst[1]);
    for (std::int64_t t = 0; t < words_; ++t) {
      x[t] = static_cast<std::int32_t>((index * index + 3 * t) % 12);
      y[t] = t + 1 == words_ && index % 4 == 3 ? -1 : (x[t] + 1 + x[t] % 3) % 12;
    }
  }
  std::int64_t counted() const { return samples_ * words_ - samples_ / 4; }

 private:
  std::int64_t samples_, words_;
  std::vector<Field> fields_;
};

/// A language model of one word: embedding -> dense, cross entropy summed over the words of a sample.
inline Graph token_network(std::int64_t words = 5) {
  Graph g;
  auto x = g.input("x", {words}, DType::s32), y = g.input("y", {words}, DType::s32);
  auto logits = dense(embedding(x, {12, 6}, "embedding"), 12, "output");
  g.set_output("logits", logits);
  loss(logits, y, {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  return g;
}

inline std::shared_ptr<const Optimizer> make_sgd(float momentum) {
  auto sgd = std::make_shared<Sgd>();
  sgd->momentum = momentum;
  return sgd;
}

inline TrainerOptions small_options() {
  TrainerOptions o;
  o.network = "small";
  o.batch = 4;
  o.epochs = 2;
  o.seed = 11;
  o.optimizer = make_sgd(0.9f);
  o.schedule.base = 0.02;
  o.evaluation.metrics = {std::make_shared<MeanAbsoluteError>(std::vector<TargetUnit>{{"amplitude"}, {"slope"}})};
  return o;
}

/// Keeps everything that a trainer tells.
struct Recorder final : TrainObserver {
  std::vector<double> losses, rates, metrics, train_losses, units_per_second;
  std::vector<Evaluation> validations;
  std::vector<std::filesystem::path> checkpoints;
  void on_step(const RunState&, const StepRecord& r) override {
    losses.push_back(r.loss);
    rates.push_back(r.learning_rate);
    units_per_second.push_back(r.rate);
  }
  void on_epoch(const RunState&, const EpochRecord& r, const Evaluation* e) override {
    metrics.push_back(r.metric);
    train_losses.push_back(r.train_loss);
    if (e) validations.push_back(*e);
  }
  void on_checkpoint(const RunState&, const std::filesystem::path& path, bool) override { checkpoints.push_back(path); }
};

/// A trainer of the small network, or of another one for the same cubes, with all that it refers to.
struct Training {
  explicit Training(TrainerOptions options, std::int64_t samples = 18, float dropout = 0.25f,
                    const std::string& where = network_contexts().back())
      : Training(small_network(dropout), std::move(options), context(where), samples) {}
  Training(Graph network, TrainerOptions options, Context& where, std::int64_t samples = 18)
      : graph(std::move(network)),
        parameters(graph, where, options.seed),
        training(samples),
        validation(7, 6, 99),
        trainer(graph, parameters, training, &validation, nullptr, std::move(options)) {}
  TrainResult go() { return trainer.run({&recorder}); }
  Graph graph;
  Parameters parameters;
  CubeDataset training, validation;
  Trainer trainer;
  Recorder recorder;
};

/// All values and moments, in plain order.
inline std::vector<float> everything(const Parameters& parameters) {
  std::vector<float> all;
  for (const auto& p : parameters.all())
    for (int which = -1; which < static_cast<int>(p.moments.size()); ++which) {
      const auto v = parameters.get(p, which);
      all.insert(all.end(), v.begin(), v.end());
    }
  return all;
}

/// A new folder that goes with its content.
class Folder {
 public:
  Folder() {
    auto name = (std::filesystem::temp_directory_path() / "keelson-train-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(path_)) names.push_back(e.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

}  // namespace keelson::testing
