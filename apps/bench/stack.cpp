#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/bench/subcommands.hpp"
#include "apps/common/subcommand.hpp"
#include "backends/registry.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/philox.hpp"
#include "engine/ensemble/member_seed.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/train/stack/stacked_training.hpp"

namespace keelson::bench {
namespace {

struct StackSubcommand {
  std::string design = "dense", optimizer = "adam";
  std::int64_t members = 100, samples = 4096, batch = 32, epochs = 2, features = 36, units = 64, layers = 3,
               classes = 6;
  std::int64_t edge = 12, filters = 8;
  int rounds = 3, workers = 0;
  bool alone = false, json = false;
};

/// Samples that are functions of their index: numbers, or cubes of one channel, each with a class.
class MadeSamples final : public Dataset {
 public:
  explicit MadeSamples(const StackSubcommand& o)
      : samples_(o.samples), classes_(static_cast<std::uint64_t>(o.classes)) {
    const bool cubes = o.design == "cubes";
    fields_ = {{"x", cubes ? Shape{1, o.edge, o.edge, o.edge} : Shape{o.features}}, {"y", {}, DType::s32}};
  }
  std::int64_t size() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return "made samples"; }
  void read(std::int64_t index, void* const* dst) const override {
    const philox::Key key{1, philox::stream_of("sample"), static_cast<std::uint64_t>(index)};
    const auto count = static_cast<std::uint64_t>(fields_[0].shape.elements());
    auto* x = static_cast<float*>(dst[0]);
    for (std::uint64_t i = 0; i < count; ++i) x[i] = 2 * philox::uniform(key, i) - 1;
    *static_cast<std::int32_t*>(dst[1]) = static_cast<std::int32_t>(philox::below(key, count, classes_));
  }

 private:
  std::int64_t samples_;
  std::uint64_t classes_;
  std::vector<Field> fields_;
};

Graph made_network(const StackSubcommand& o, const Dataset& data) {
  Graph g;
  const Var x = g.input("x", data.fields()[0].shape), y = g.input("y", {}, DType::s32);
  Var h = x;
  if (o.design == "cubes") {
    h = max_pool(relu(conv(h, {.filters = o.filters}, "conv1")), 2);
    h = flatten(max_pool(relu(conv(h, {.filters = 2 * o.filters}, "conv2")), 2));
    h = relu(dense(h, o.units, "dense1"));
  } else {
    for (std::int64_t i = 0; i < o.layers; ++i) h = relu(dense(h, o.units, fmt::format("dense{}", i + 1)));
  }
  const Var logits = dense(h, o.classes, "output");
  g.set_output("prediction", logits);
  loss(logits, y, {.kind = ops::LossKind::cross_entropy});
  return g;
}

std::shared_ptr<const Optimizer> made_optimizer(const std::string& name) {
  if (name == "adam") return std::make_shared<Adam>();
  auto sgd = std::make_shared<Sgd>();
  sgd->momentum = 0.9f;
  return sgd;
}

/// Seconds of the training of these members together, without the time to make plans.
double time_stack(Context& context, const std::vector<StackedMember>& members, const Dataset& data,
                  const StackSubcommand& o) {
  StackedTraining training(context, members, data, nullptr, {.batch = o.batch, .workers = o.workers});
  const auto begin = std::chrono::steady_clock::now();
  training.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct StackTimes {
  std::vector<double> together, alone;  ///< seconds of a network, in each round
  double median(std::vector<double> of) const {
    std::ranges::sort(of);
    return of[of.size() / 2];
  }
};

StackTimes measure_stack(Context& context, const StackSubcommand& o) {
  const MadeSamples data(o);
  const auto graph = std::make_shared<const Graph>(made_network(o, data));
  const auto optimizer = made_optimizer(o.optimizer);
  std::vector<StackedMember> members;
  for (std::int64_t m = 0; m < o.members; ++m)
    members.push_back({.name = "made",
                       .graph = graph,
                       .optimizer = optimizer,
                       .schedule = {.base = 1e-3},
                       .seed = ensemble::member_seed(0, m),
                       .epochs = o.epochs});
  StackTimes times;
  for (int r = 0; r < o.rounds; ++r) {
    times.together.push_back(time_stack(context, members, data, o) / static_cast<double>(o.members));
    if (o.alone) times.alone.push_back(time_stack(context, {members[0]}, data, o));
  }
  return times;
}

ExitCode run_stack(const StackSubcommand& o, app::Launch&) {
  const auto context = backends::make_context();
  const StackTimes times = measure_stack(*context, o);
  const std::int64_t steps_of_an_epoch = (o.samples + o.batch - 1) / o.batch;
  const auto steps = static_cast<double>(o.epochs * steps_of_an_epoch);
  const auto line = [&](const char* what, const std::vector<double>& seconds) {
    const double median = times.median(seconds);
    fmt::print("{:>24} {:>16.0f} {:>20.2f}\n", what, 3600 / median, median / steps * 1e6);
  };
  if (o.json) {
    nlohmann::json j{{"members", o.members}, {"steps", steps}, {"seconds_per_network", times.together}};
    if (o.alone) j["seconds_alone"] = times.alone;
    fmt::print("{}\n", j.dump());
    return ExitCode::done;
  }
  fmt::print("{}; {}, batches of {}, {} of {}\n", context->describe(), counted(o.members, "member"), o.batch,
             counted(o.epochs, "epoch"), counted(o.samples, "sample"));
  fmt::print("{:>24} {:>16} {:>20}\n", "", "networks/hour", "us per step");
  line("all members at once", times.together);
  if (o.alone) line("one member alone", times.alone);
  return ExitCode::done;
}

}  // namespace

void define_stack(app::CommandLine& line) {
  auto o = std::make_shared<StackSubcommand>();
  auto& v = line.subcommand("stack", "Measure how many small networks one rank trains in an hour, all at once",
                            [o](app::Launch& launch) { return run_stack(*o, launch); });
  v.option("--design", o->design, "The network: dense layers on numbers, or two 3-D convolutions on cubes", "NAME")
      .one_of({"dense", "cubes"});
  v.option("--members", o->members, "Networks that are trained at once", "N").positive();
  v.option("--samples", o->samples, "Samples, which are made before they are read", "N").positive();
  v.option("--batch", o->batch, "Samples of a step", "SAMPLES").positive();
  v.option("--epochs", o->epochs, "Passes over the samples", "N").positive();
  v.option("--features", o->features, "Numbers of a sample, for dense", "N").positive();
  v.option("--layers", o->layers, "Hidden layers, for dense", "N").positive();
  v.option("--units", o->units, "Units of a hidden layer", "N").positive();
  v.option("--edge", o->edge, "Edge of a sample, for cubes", "CELLS").between(4, 64);
  v.option("--filters", o->filters, "Filters of the first convolution, for cubes; the second has twice as many", "N")
      .positive();
  v.option("--classes", o->classes, "Classes to tell apart", "N").between(2, 1e6);
  v.option("--optimizer", o->optimizer, "adam, or sgd with momentum 0.9", "NAME").one_of({"adam", "sgd"});
  v.option("--workers", o->workers, "Threads that train; 0: all of this process", "N").non_negative();
  v.option("--rounds", o->rounds, "Trainings that are measured; the median counts", "N").positive();
  v.flag("--alone", o->alone, "Also measure a member that is trained alone, on one thread, in turns with the others");
  v.flag("--json", o->json, "Print one JSON object");
}

}  // namespace keelson::bench
