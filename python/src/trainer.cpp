#include "trainer.hpp"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/variant.h>

#include <variant>

#include "apps/common/blueprint.hpp"
#include "casters.hpp"
#include "engine/optim/optimizers.hpp"
#include "readers.hpp"
#include "transform.hpp"

namespace keelson::python {
namespace {

using Rate = std::variant<double, Schedule>;

/// The entries of the graph and of the options; entries of the caller replace them.
std::map<std::string, std::string> stored_config(const TrainerOptions& o, const Network& network,
                                                 const std::map<std::string, std::string>& given) {
  auto config = given;
  config.insert(o.config.begin(), o.config.end());
  config.insert(network.config.begin(), network.config.end());
  for (const auto& [key, value] : program_config(o)) config.emplace(key, value);
  return config;
}

void construct(nb::pointer_and_handle<TrainerObject> self, std::shared_ptr<NetworkParameters> parameters,
               nb::handle training_data, nb::handle validation_data, std::int64_t batch,
               std::optional<std::int64_t> epochs, std::int64_t max_steps, std::shared_ptr<Optimizer> optimizer,
               const Rate& learning_rate, std::optional<std::uint64_t> seed, bool shuffle, nb::handle transform,
               const std::string& precision, std::vector<std::shared_ptr<Metric>> metrics,
               const std::string& prediction, const std::string& target_field, double target, double time_limit,
               const std::string& sync, bool reproducible, const std::string& shard_optimizer,
               std::int64_t micro_batches, bool recompute, std::optional<std::filesystem::path> checkpoints, int keep,
               std::int64_t checkpoint_epochs, std::int64_t checkpoint_steps, const std::vector<nb::object>& callbacks,
               int loader_threads, int prefetch, const std::map<std::string, std::string>& config,
               std::map<std::string, std::string> texts, const std::pair<std::string, std::int64_t>& unit,
               const std::string& prune_samples, std::optional<double> prune_ratio, const std::string& apoptosis,
               nb::handle grow, const std::optional<std::filesystem::path>& report, nb::handle change_network,
               std::int64_t noise_scale) {
  if (!epochs)
    refuse("epochs is missing: the Trainer needs the number of passes over the training data, for example epochs=10");
  auto training = dataset_of(training_data), validation = dataset_of(validation_data);
  if (!training) refuse("training is None. Expected a data set, or arrays by name: {{'x': images, 'y': targets}}");
  TrainerOptions o;
  o.network = parameters->network->name;
  o.texts = std::move(texts);
  o.unit = {unit.first, unit.second};
  o.batch = batch;
  o.epochs = *epochs;
  o.max_steps = max_steps;
  o.seed = seed.value_or(parameters->values.seed());
  o.shuffle = shuffle;
  o.transform = transform_of(transform, parameters->turns);
  o.precision = precision_of(precision);
  o.exchange.reproducible = reproducible;
  o.exchange.shards = parse_shards(shard_optimizer);
  o.micro_batches = micro_batches;
  o.recompute = recompute;
  o.noise_scale = noise_scale;
  o.sync = SyncMode::parse(sync);
  o.prune = {parse_prune_rule(prune_samples), prune_ratio.value_or(-1)};
  o.optimizer = optimizer ? std::move(optimizer) : std::make_shared<Adam>();
  if (const auto* rate = std::get_if<double>(&learning_rate))
    o.schedule.base = *rate;
  else
    o.schedule = std::get<Schedule>(learning_rate);
  o.target = target;
  o.time_limit = time_limit;
  o.checkpoints = {
      .folder = checkpoints.value_or(""), .keep = keep, .epochs = checkpoint_epochs, .steps = checkpoint_steps};
  o.threads = {.count = loader_threads, .prefetch = prefetch};
  if (!report) o.profiled_steps = 0;
  o.evaluation.metrics = std::move(metrics);
  o.evaluation.prediction = prediction;
  o.evaluation.target = target_field;
  if (reads_in_order(*training)) o.shuffle = false;
  if (reads_in_order(*training) || (validation && reads_in_order(*validation))) o.threads.count = 1;
  const auto* group = parameters->device->communicator();
  fit_to_reader(o, *training, validation.get(), group ? group->size() : 1);
  NetworkChanges changes;
  if (apoptosis != "off") changes.apoptosis = ApoptosisOptions::of(apoptosis);
  changes.growth = blueprint_of(grow);
  if (changes.apoptosis && changes.growth)
    refuse("grow with apoptosis = '{}': one adds units, the other removes them. Leave one of them out", apoptosis);
  if (!change_network.is_none()) {
    if (changes.apoptosis || changes.growth)
      refuse("change_network with {}: both change the network. Leave one of them out",
             changes.growth ? "grow" : "apoptosis");
    if (PyCallable_Check(change_network.ptr()) == 0)
      refuse("change_network is a {}. Expected a function of the state and the parameters",
             nb::type_name(change_network.type()).c_str());
    changes.function = nb::borrow(change_network);
  }
  o.config["apoptosis"] = apoptosis;
  if (changes.growth) {
    o.config["grow"] = changes.growth->path;
    o.texts[app::blueprint_text] = changes.growth->text;
  }
  o.config = stored_config(o, *parameters->network, config);
  auto observer = std::make_unique<Callbacks>(callbacks, self.h, *parameters, o.evaluation.metrics);
  const nb::gil_scoped_release release;
  new (self.p) TrainerObject(std::move(parameters), std::move(training), std::move(validation), std::move(o), changes,
                             report.value_or(""), observer);
}

/// Called with the GIL.
template <class Work>
auto look(TrainerObject& trainer, const Work& work) {
  const nb::gil_scoped_release release;
  return trainer.look(work);
}

RateRange lr_range(TrainerObject& trainer, double least, double most, std::int64_t steps, double smoothing,
                   double stop_at, const std::optional<std::filesystem::path>& report) {
  const nb::gil_scoped_release release;
  return trainer.lr_range({.least = least, .most = most, .steps = steps, .smoothing = smoothing, .stop_at = stop_at},
                          report.value_or(""));
}

/// The optimizer's settings by the options of programs: --momentum and others that have an option of their own, and all
/// other settings that differ from the default in --optimizer-options.
void put_settings(std::map<std::string, std::string>& config, const Optimizer& optimizer) {
  const std::map<std::string_view, std::string> options{{"weight_decay", "weight-decay"},
                                                        {"clip_norm", "clip-norm"},
                                                        {"momentum", "momentum"},
                                                        {"nesterov", "nesterov"},
                                                        {"larc", "larc"},
                                                        {"larc_eta", "larc-eta"},
                                                        {"eta", "lars-eta"},
                                                        {"nvlamb", "nvlamb"},
                                                        {"adapt_vectors", "adapt-vectors"}};
  // --momentum and --nesterov are not Muon's (apps/common/optimizer_options.cpp).
  const auto has_option = [&](std::string_view name) {
    return options.contains(name) && !(config.at("optimizer") == "muon" && (name == "momentum" || name == "nesterov"));
  };
  const auto defaults = make_optimizer(config.at("optimizer"));
  const auto standard = defaults->settings();
  std::string others;
  const auto settings = const_cast<Optimizer&>(optimizer).settings();  // to read them
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string text = settings[i].text();
    if (settings[i].name == "rate_in_momentum")
      config["lars-rate-outside"] = text == "true" ? "false" : "true";
    else if (has_option(settings[i].name))
      config[options.at(settings[i].name)] = text;
    else if (text != standard[i].text())
      others += fmt::format("{}{}={}", others.empty() ? "" : ",", settings[i].name, text);
  }
  if (!others.empty()) config["optimizer-options"] = others;
}

}  // namespace

std::map<std::string, std::string> program_config(const TrainerOptions& o) {
  std::map<std::string, std::string> c{{"epochs", std::to_string(o.epochs)},
                                       {"seed", std::to_string(o.seed)},
                                       {"batch", std::to_string(o.batch)},
                                       {"shuffle", o.shuffle ? "true" : "false"},
                                       {"precision", std::string(to_string(o.precision))},
                                       {"sync", o.sync.to_string()},
                                       {"prune-samples", std::string(to_string(o.prune.rule))},
                                       {"reproducible", o.exchange.reproducible ? "true" : "false"},
                                       {"shard-optimizer", std::string(to_string(o.exchange.shards))},
                                       {"micro-batches", std::to_string(o.micro_batches)},
                                       {"noise-scale", std::to_string(o.noise_scale)},
                                       {"checkpoint-every", std::to_string(o.checkpoints.epochs)},
                                       {"checkpoint-steps", std::to_string(o.checkpoints.steps)}};
  const auto put = [&](const char* key, auto value) { c[key] = fmt::format("{}", value); };
  c["optimizer"] = o.optimizer->to_string().substr(0, o.optimizer->to_string().find_first_of(" ,"));
  put_settings(c, *o.optimizer);
  const Schedule& s = o.schedule;
  constexpr const char* kinds[] = {"constant", "steps", "linear", "cosine", "decay"};
  if (o.prune.ratio >= 0) put("prune-ratio", o.prune.ratio);
  c["schedule"] = kinds[static_cast<int>(s.kind)];
  put("lr", s.base);
  put("warmup-epochs", s.warmup_epochs);
  put("warmup-from", s.warmup_from);
  if (s.kind == Schedule::Kind::linear || s.kind == Schedule::Kind::cosine) {
    put("final-lr", s.final);
    put("schedule-epochs", s.epochs);
  }
  if (s.kind == Schedule::Kind::decay) {
    put("decay-factor", s.decay_factor);
    put("flat-epochs", s.flat_epochs);
  }
  std::string steps;
  for (const auto& step : s.steps) steps += fmt::format("{}{}:{}", steps.empty() ? "" : ",", step.epoch, step.factor);
  if (s.kind == Schedule::Kind::steps) c["decay"] = steps;
  return c;
}

void bind_trainer(nb::module_& m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<TrainerObject>(
      m, "Trainer",
      "Trains the network of `parameters` on data, together with the ranks of its context.\n\n"
      "training, validation: a data set of keelson.data, or arrays by the name of the graph input that they feed:\n"
      "{'x': images, 'y': targets}; all ranks must have the same data. batch: samples per step and rank. epochs: "
      "passes\n"
      "over the training data, those of resumed runs included; required. optimizer: None: Adam.\n"
      "learning_rate: a number or a keelson.optim.Schedule. metrics: metrics of validations; the first one judges the "
      "network.\n"
      "prediction, target_field: the graph output and the data field that metrics compare.\n"
      "target: > 0: training ends when the metric is this value or better.\n"
      "checkpoints: folder for step-N.h5 and best.h5, which the programs can read; None: writes no checkpoints.\n"
      "Checkpoints of another run in this folder are moved to abandoned-<n> in it before the first one is "
      "written,\n"
      "with a UserWarning.\n"
      "callbacks: objects with methods of keelson.Callback. config, texts: stored in checkpoints.\n"
      "prune_samples: which samples epochs leave out: 'none', 'infobatch', 'random', 'kakurenbo', 'forgetting' or\n"
      "'el2n'. prune_ratio: the part; None: 0.5 for infobatch, else 0.3.\n"
      "apoptosis: 'conservative', 'normal' or 'aggressive': the network loses units that contribute nothing while it\n"
      "trains. Then `parameters` have other shapes, and inferences must be made anew.\n"
      "grow: the path of a blueprint, or a dict with its keys: the network gains units and layers while it trains. If\n"
      "the blueprint makes it begin smaller than `parameters` are, these begin anew, from their seed.\n"
      "transform: a keelson.data.SampleTransform, or a function of a sample, a dict of arrays by field, and a seed, "
      "which\n"
      "returns the changed arrays. It must depend on these alone; the seed depends on sample, epoch and seed of the "
      "run.\n"
      "change_network: a function of state and parameters, called before each epoch but the first, which returns None "
      "or\n"
      "a keelson.NetworkChange; it must return the same on all ranks.\n"
      "report: folder into which the first rank writes report.html and metrics.jsonl while it trains, as the programs "
      "do.\n"
      "A new run replaces these files, and a resumed one goes on in them.\n"
      "noise_scale: > 0: every so many steps the noise scale of the gradient is measured (Step.noise_scale), up to "
      "which\n"
      "larger batches pay. Needs several ranks or micro_batches; parameters stay the same, to the bit.\n\n"
      "run() trains to the end. Or `for step in trainer:` gives the results of each step, and validates and writes\n"
      "checkpoints between steps as run() does. step(batch) makes a step on the caller's arrays.")
      .def("__init__", &construct, nb::arg("parameters"), nb::arg("training"), nb::arg("validation") = nb::none(),
           nb::kw_only(), nb::arg("batch") = 32, nb::arg("epochs") = nb::none(), nb::arg("max_steps") = -1,
           nb::arg("optimizer") = nb::none(), nb::arg("learning_rate") = 1e-3, nb::arg("seed") = nb::none(),
           nb::arg("shuffle") = true, nb::arg("transform") = nb::none(), nb::arg("precision") = "fp32",
           nb::arg("metrics") = std::vector<std::shared_ptr<Metric>>(), nb::arg("prediction") = "prediction",
           nb::arg("target_field") = "y", nb::arg("target") = 0.0, nb::arg("time_limit") = 0.0,
           nb::arg("sync") = "synchronous", nb::arg("reproducible") = false, nb::arg("shard_optimizer") = "none",
           nb::arg("micro_batches") = 1, nb::arg("recompute") = false, nb::arg("checkpoints") = nb::none(),
           nb::arg("keep") = 2, nb::arg("checkpoint_epochs") = 1, nb::arg("checkpoint_steps") = 0,
           nb::arg("callbacks") = std::vector<nb::object>(), nb::arg("loader_threads") = 1, nb::arg("prefetch") = 2,
           nb::arg("config") = std::map<std::string, std::string>(),
           nb::arg("texts") = std::map<std::string, std::string>(),
           nb::arg("unit") = std::pair<std::string, std::int64_t>("sample", 1), nb::arg("prune_samples") = "none",
           nb::arg("prune_ratio") = nb::none(), nb::arg("apoptosis") = "off", nb::arg("grow") = nb::none(),
           nb::arg("report") = nb::none(), nb::arg("change_network") = nb::none(), nb::arg("noise_scale") = 0)
      .def(
          "run",
          [](TrainerObject& t, std::optional<bool> progress) {
            const nb::object shown = nb::module_::import_("keelson._progress").attr("of_run")(progress);
            {
              const nb::gil_scoped_release release;
              t.run(shown);
            }
            return t.history();
          },
          nb::arg("progress") = nb::none(), nb::sig("def run(self, progress: bool | None = None) -> keelson.History"),
          "Trains to the end and returns the history: the results of all epochs, and the reason of the end.\n"
          "progress: shows how far the training is (keelson.Progress); None: on a terminal and in a notebook; True: "
          "also\n"
          "elsewhere, a line for each epoch; False: not at all. Ctrl-C ends training after the step, with a "
          "checkpoint,\n"
          "and raises KeyboardInterrupt. Collective.")
      .def_prop_ro(
          "history", [](const TrainerObject& t) { return t.history(); },
          nb::sig("def history(self) -> keelson.History"), "The results of all epochs so far.")
      .def_prop_ro("parameters", &TrainerObject::parameters, "The parameters that are trained.")
      .def(
          "gradients",
          [](TrainerObject& t) {
            std::map<std::string, std::vector<float>> all;
            {
              const nb::gil_scoped_release release;
              all = t.gradients();
            }
            nb::dict arrays;
            for (const auto& p : t.parameters()->values.all()) {
              const auto found = all.find(p.name);
              if (found == all.end()) continue;
              void* data = nullptr;
              arrays[p.name.c_str()] = new_array(p.shape, DType::f32, false, &data);
              std::copy(found->second.begin(), found->second.end(), static_cast<float*>(data));
            }
            return arrays;
          },
          nb::sig("def gradients(self) -> dict[str, numpy.typing.NDArray[numpy.float32]]"),
          "Copies of the gradients of the latest step, by parameter: of the mean loss of all ranks' samples, before "
          "the\n"
          "optimizer clips them or adds weight decay, without parameters on which the loss does not depend. They are "
          "there after a step, in a loop, after step(), or in "
          "on_step()\n"
          "of a callback, until a validation or an inference on the same parameters; afterwards raises InputError.")
      .def("stop", &TrainerObject::stop, Release(),
           "Ends training on all ranks, if one of them calls it, as at its normal end: with a checkpoint, and the "
           "reason\n"
           "'stopped'. In on_epoch() of a callback training ends with the epoch. Else it ends before the next step, "
           "and on\n"
           "several ranks, which agree beside a step, after one more. run() trains on.")
      .def_prop_rw(
          "learning_rate", [](TrainerObject& t) { return look(t, [](const Trainer& r) { return r.learning_rate(); }); },
          [](TrainerObject& t, double rate) {
            const nb::gil_scoped_release release;
            t.set_learning_rate(rate);
          },
          "The learning rate of the next step. Setting it, between steps or in a callback, multiplies all later rates "
          "of\n"
          "the schedule by the same factor, which checkpoints store. Setting it is collective: all ranks give the "
          "same\n"
          "rate.")
      .def("lr_range", &lr_range, nb::kw_only(), nb::arg("least") = RateRangeOptions().least,
           nb::arg("most") = RateRangeOptions().most, nb::arg("steps") = RateRangeOptions().steps,
           nb::arg("smoothing") = RateRangeOptions().smoothing, nb::arg("stop_at") = RateRangeOptions().stop_at,
           nb::arg("report") = nb::none(),
           "Tries learning rates (a learning-rate range test, Smith 2017): makes up to `steps` steps, with rates from "
           "`least`\n"
           "to `most` in a geometric series, from the present parameters on and with an optimizer that begins anew. "
           "Parameters,\n"
           "optimizer and state of the training are afterwards as before. Returns a keelson.RateRange.\n"
           "smoothing: part of the smoothed loss that a step takes over from the one before. stop_at: the search ends "
           "where "
           "the\n"
           "smoothed loss is so many times the least one. report: path of an HTML page with the losses. Collective.")
      .def_prop_ro("epochs", &TrainerObject::epochs, "Passes over the training data in all.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__next__",
          [](TrainerObject& t) {
            auto record = t.next();
            if (!record) throw nb::stop_iteration();
            return *record;
          },
          Release(), "Makes the next step.")
      .def("step", &TrainerObject::step, nb::arg("batch"),
           "Makes a step on these arrays, by field, of at most `batch` samples, instead of the next samples of the "
           "training "
           "data.\n"
           "Full batches that are 64-byte aligned and channels-last (keelson.data.empty) are not copied. Collective.")
      .def("end_epoch", &TrainerObject::end_epoch, Release(),
           "Ends an epoch whose steps are all done: validates, and counts the epoch as done. Collective.")
      .def_prop_ro(
          "epoch_done", [](TrainerObject& t) { return look(t, [](const Trainer& r) { return r.epoch_done(); }); },
          "Whether all steps of the epoch are done and end_epoch() has not been called.")
      .def("validate", &TrainerObject::validate, Release(), "Evaluates the network on the validation data. Collective.")
      .def("save_checkpoint", &TrainerObject::save, nb::arg("best") = false, Release(),
           "Writes step-N.h5 into the folder of checkpoints, while training goes on. best: also as best.h5.\n"
           "wait() returns when the file is written. Collective.")
      .def("resume", &TrainerObject::resume, nb::arg("path"), Release(),
           "Continues from a checkpoint, or the newest one of a folder, of Python or of a program. If it is refused,\n"
           "nothing changes. Later checkpoints in the trainer's folder are moved to abandoned-<n> in it before the "
           "next\n"
           "step, with a UserWarning. Collective.")
      .def(
          "wait", [](TrainerObject& t) { t.wait(); }, Release(),
          "Returns when all steps are done, and the last checkpoint is written. Collective.")
      .def_prop_ro(
          "last_step",
          [](TrainerObject& t) { return look(t, [](const Trainer& r) { return StepRecord(r.last_step()); }); },
          "The latest step whose loss is known.")
      .def_prop_ro(
          "state", [](TrainerObject& t) { return look(t, [](const Trainer& r) { return RunState(r.state()); }); },
          "A copy of the training state.")
      .def_prop_ro(
          "stop_reason",
          [](TrainerObject& t) {
            const auto reason = look(t, [](const Trainer& r) { return r.stop_reason(); });
            return reason ? std::optional(to_string(*reason)) : std::nullopt;
          },
          "Why training makes no further step; None: it makes one.")
      .def_prop_ro(
          "samples",
          [](TrainerObject& t) {
            return look(t, [](const Trainer& r) {
              if (!r.pruning().enabled()) refuse("this training knows nothing of its samples: give it prune_samples");
              auto arrays = r.pruning().state(false);
              arrays["score"] = r.pruning().scores();
              return arrays;
            });
          },
          "With prune_samples: what the epochs that have ended tell of each training sample, lists by name: 'score', "
          "by\n"
          "which the rule ranks samples, 'loss' of the last visit, 'visits' and of them 'learned' and 'forgotten', "
          "'used'\n"
          "in training, 'known': the last visit has found the sample learned, 'error': sum for el2n.")
      .def_prop_ro(
          "steps_per_epoch",
          [](TrainerObject& t) { return look(t, [](const Trainer& r) { return r.steps_per_epoch(); }); },
          "Training samples / samples of all ranks in a step, rounded up.")
      .def_prop_ro(
          "last_checkpoint",
          [](TrainerObject& t) {
            return look(t, [](const Trainer& r) { return std::filesystem::path(r.last_checkpoint()); });
          },
          "The latest checkpoint that was written or resumed from; '.' : none.")
      .def(
          "close", [](TrainerObject& t) { t.close(); }, Release(),
          "Frees memory and threads now. Waits for a running call to end.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__",
          [](TrainerObject& t, nb::handle, nb::handle, nb::handle) {
            const nb::gil_scoped_release release;
            t.close();
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
}

}  // namespace keelson::python
