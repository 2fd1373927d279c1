#include "apps/label/learn/ensemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/philox.hpp"
#include "engine/ensemble/member_seed.hpp"
#include "engine/ensemble/scores.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/stack/stacked_training.hpp"
#include "nets/mlp/mlp.hpp"

namespace keelson::label {
namespace {

constexpr const char* network_name = "label";
constexpr std::int64_t predicted_at_once = 256;

/// A small convolutional network with the inputs and outputs of nets::mlp().
Graph image_network(const Shape& image, std::int64_t classes, const EnsembleOptions& o) {
  Graph g;
  Var v = g.input("x", image);
  const Var y = g.input("y", {}, DType::s32);
  const std::int64_t filters[] = {16, 32};
  for (int l = 0; l < 2; ++l) v = max_pool(relu(conv(v, {.filters = filters[l]}, fmt::format("conv{}", l + 1))), 2);
  v = relu(dense(flatten(v), o.units, "dense1"));
  if (o.dropout > 0) v = dropout(v, o.dropout, "dropout1");
  v = dense(v, classes, "output");
  g.set_output("prediction", v);
  loss(v, y, {.kind = ops::LossKind::cross_entropy});
  return g;
}

/// With the output "hidden": what the last dense layer reads.
Graph label_network(const Shape& features, std::int64_t classes, const EnsembleOptions& o) {
  Graph g = features.rank() == 3 ? image_network(features, classes, o)
                                 : nets::mlp({.features = features[0],
                                              .outputs = classes,
                                              .layers = 2,
                                              .units = o.units,
                                              .activation = "relu",
                                              .dropout = o.dropout});
  for (const auto& node : g.nodes())
    if (node.name == "output") {
      g.set_output("hidden", Var{&g, node.srcs[0]});
      break;
    }
  return g;
}

/// Labelled images as the trainer reads them.
class LabelledImages final : public Dataset {
 public:
  LabelledImages(const Features& features, const std::vector<Labelled>& labelled)
      : features_(features), labelled_(labelled), fields_{{"x", features.shape}, {"y", {}, DType::s32}} {
    if (labelled.empty()) refuse("there are no labels to learn from; label some images first");
  }
  std::int64_t size() const override { return std::ssize(labelled_); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    const auto& [image, label] = labelled_.at(static_cast<std::size_t>(index));
    const float* from = features_.of(image);
    auto* to = static_cast<float*>(dst[0]);
    const std::int64_t channels = features_.shape.rank() == 3 ? features_.shape[0] : 1,
                       pixels = features_.shape.elements() / channels;
    for (std::int64_t c = 0; c < channels; ++c)  // fields are channels-last
      for (std::int64_t i = 0; i < pixels; ++i) to[i * channels + c] = from[c * pixels + i];
    *static_cast<std::int32_t*>(dst[1]) = static_cast<std::int32_t>(label);
  }
  std::string describe() const override { return fmt::format("{} labelled images", labelled_.size()); }

 private:
  const Features& features_;
  const std::vector<Labelled>& labelled_;
  std::vector<Field> fields_;
};

std::vector<std::vector<float>> weights_of(const Parameters& parameters) {
  std::vector<std::vector<float>> all;
  for (const Parameter& p : parameters.all()) all.push_back(parameters.get(p));
  return all;
}

void set_weights(Parameters& parameters, const std::vector<std::vector<float>>& weights) {
  std::size_t i = 0;
  for (Parameter& p : parameters.all()) parameters.set(p, weights.at(i++));
}

/// Each column gets mean 0 and deviation 1.
void standardise_columns(std::vector<float>& values, std::int64_t columns) {
  const std::int64_t rows = std::ssize(values) / columns;
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto v = static_cast<double>(values[static_cast<std::size_t>(r * columns + c)]);
      sum += v;
      squares += v * v;
    }
    const double mean = sum / static_cast<double>(rows),
                 deviation = std::sqrt(std::max(0.0, squares / static_cast<double>(rows) - mean * mean));
    for (std::int64_t r = 0; r < rows; ++r) {
      float& v = values[static_cast<std::size_t>(r * columns + c)];
      v = deviation > 1e-9 ? static_cast<float>((static_cast<double>(v) - mean) / deviation) : 0;
    }
  }
}

std::filesystem::path member_file(const std::filesystem::path& folder, std::int64_t m) {
  return folder / fmt::format("member-{}.h5", m);
}

}  // namespace

Ensemble::Ensemble(Context& context, const Features& features, std::int64_t classes, EnsembleOptions o)
    : context_(context),
      features_(features),
      classes_(classes),
      options_(o),
      graph_(std::make_shared<const Graph>(label_network(features.shape, classes, o))) {}

std::shared_ptr<const Optimizer> Ensemble::optimizer() const {
  auto adamw = std::make_shared<AdamW>();
  adamw->weight_decay = static_cast<float>(options_.weight_decay);
  return adamw;
}

void Ensemble::train(const std::vector<Labelled>& labelled, std::int64_t round) {
  const LabelledImages data(features_, labelled);
  const auto shared = optimizer();
  std::vector<StackedMember> members;
  for (std::int64_t m = 0; m < options_.members; ++m) {
    auto& s = members.emplace_back();
    s.name = network_name;
    s.graph = graph_;
    s.optimizer = shared;
    s.schedule = {.kind = Schedule::Kind::cosine,
                  .base = options_.lr,
                  .epochs = static_cast<double>(options_.epochs),
                  .warmup_epochs = std::min<double>(2, static_cast<double>(options_.epochs) / 10)};
    s.seed = ensemble::member_seed(options_.seed, m);
    s.epochs = options_.epochs;
  }
  const philox::Key order{options_.seed, philox::stream_of("label/order"), 0};
  StackedTraining stack(
      context_, std::move(members), data, nullptr,
      {.batch = std::min(options_.batch, data.size()), .seed = philox::bits(order, static_cast<std::uint64_t>(round))});
  if (options_.warm && !weights_.empty())
    for (std::size_t m = 0; m < stack.size(); ++m) set_weights(stack.parameters(m), weights_[m]);
  stack.run();
  weights_.clear();
  for (std::size_t m = 0; m < stack.size(); ++m) {
    if (!stack.record(m).failure.empty()) fail("member {}: {}; a smaller --lr may help", m, stack.record(m).failure);
    weights_.push_back(weights_of(stack.parameters(m)));
  }
}

ExitCode Ensemble::search_rates(const std::vector<Labelled>& labelled, const RateRangeOptions& rates,
                                const std::filesystem::path& folder, const app::DeviceSession& session) const {
  const LabelledImages data(features_, labelled);
  TrainerOptions t;
  t.network = network_name;
  t.batch = std::min(options_.batch, data.size());
  t.seed = ensemble::member_seed(options_.seed, 0);
  t.optimizer = optimizer();
  t.interrupted = [] { return Interrupt::requested(); };
  return app::search_rates({*graph_, data, "labels of images", rates, folder}, session, t);
}

Predictions Ensemble::predict() const {
  KEELSON_EXPECT(!weights_.empty());
  const std::int64_t n = features_.images(), of_image = features_.shape.elements(), members = std::ssize(weights_),
                     units = options_.units;
  Predictions all{n, members, classes_, units, {}, {}};
  all.p.resize(static_cast<std::size_t>(n * members * classes_));
  all.hidden.resize(static_cast<std::size_t>(n * members * units));
  Parameters parameters(*graph_, context_, 0);
  Executor executor(*graph_, parameters, PlanOptions{.batch = predicted_at_once, .training = false});
  std::vector<float> x(static_cast<std::size_t>(predicted_at_once * of_image)),
      logits(static_cast<std::size_t>(predicted_at_once * classes_)),
      hidden(static_cast<std::size_t>(predicted_at_once * units));
  std::vector<double> p(static_cast<std::size_t>(classes_));
  for (std::int64_t m = 0; m < members; ++m) {
    set_weights(parameters, weights_[static_cast<std::size_t>(m)]);
    for (std::int64_t begin = 0; begin < n; begin += predicted_at_once) {
      const std::int64_t count = std::min(predicted_at_once, n - begin);
      std::copy_n(features_.of(begin), count * of_image, x.begin());
      context_.write_plain(executor.input("x"), x.data());
      executor.forward({});
      context_.read_plain(executor.output("prediction"), logits.data());
      context_.read_plain(executor.output("hidden"), hidden.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = (begin + i) * members + m;
        ensemble::softmax(logits.data() + i * classes_, 1, p);
        for (std::int64_t k = 0; k < classes_; ++k)
          all.p[static_cast<std::size_t>(row * classes_ + k)] = static_cast<float>(p[static_cast<std::size_t>(k)]);
        std::copy_n(hidden.begin() + i * units, units, all.hidden.begin() + row * units);
      }
    }
  }
  standardise_columns(all.hidden, members * units);
  return all;
}

void Ensemble::save(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  for (std::size_t m = 0; m < weights_.size(); ++m) {
    Parameters parameters(*graph_, context_, 0);
    set_weights(parameters, weights_[m]);
    RunState state;
    state.network = network_name;
    state.seed = ensemble::member_seed(options_.seed, static_cast<std::int64_t>(m));
    write_checkpoint(member_file(folder, static_cast<std::int64_t>(m)), copy_run(state, parameters, {}));
  }
}

bool Ensemble::load(const std::filesystem::path& folder) {
  std::vector<std::vector<std::vector<float>>> weights;
  for (std::int64_t m = 0; m < options_.members; ++m) {
    const auto file = member_file(folder, m);
    if (!std::filesystem::exists(file)) return false;
    Parameters parameters(*graph_, context_, 0);
    const Executor memory(*graph_, parameters, PlanOptions{.batch = 1, .training = false});
    CheckpointReader(file, false, nullptr).load(network_name, parameters, std::nullopt);
    weights.push_back(weights_of(parameters));
  }
  weights_ = std::move(weights);
  return true;
}

std::vector<float> held_out(Context& context, const Features& features, std::int64_t classes, const EnsembleOptions& o,
                            const std::vector<Labelled>& labelled, std::int64_t folds) {
  const auto size = static_cast<std::size_t>(o.members * classes);
  std::vector<float> all(labelled.size() * size);
  const philox::Key deal{o.seed, philox::stream_of("label/folds"), 0};
  const auto fold_of = [&](const Labelled& l) {
    return philox::bits(deal, static_cast<std::uint64_t>(l.first)) % static_cast<std::uint64_t>(folds);
  };
  EnsembleOptions cold = o;
  cold.warm = false;
  for (std::uint64_t fold = 0; fold < static_cast<std::uint64_t>(folds); ++fold) {
    std::vector<Labelled> others;
    for (const Labelled& l : labelled)
      if (fold_of(l) != fold) others.push_back(l);
    if (others.size() == labelled.size()) continue;
    Ensemble ensemble(context, features, classes, cold);
    ensemble.train(others, 0);
    const Predictions p = ensemble.predict();
    for (std::size_t i = 0; i < labelled.size(); ++i)
      if (fold_of(labelled[i]) == fold)
        std::ranges::copy(p.of(labelled[i].first), all.begin() + static_cast<std::ptrdiff_t>(i * size));
  }
  return all;
}

}  // namespace keelson::label
