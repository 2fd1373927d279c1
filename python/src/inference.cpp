#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "arrays.hpp"
#include "casters.hpp"
#include "data.hpp"
#include "engine/execute/executor.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/train/evaluator.hpp"
#include "objects.hpp"
#include "records.hpp"

namespace keelson::python {
namespace {

/// The names of the inputs on which the outputs depend, in the graph's order. Throws InputError if there are no
/// outputs.
std::vector<std::string> inputs_of_outputs(const Graph& graph) {
  const auto& nodes = graph.nodes();
  if (graph.outputs().empty())
    refuse(
        "the graph has no output, so there is nothing to predict: name a value by graph.output('prediction', value)");
  std::vector<bool> needed(nodes.size());
  for (const auto& [name, node] : graph.outputs()) needed[static_cast<std::size_t>(node)] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (needed[i])
      for (const int src : nodes[i].srcs) needed[static_cast<std::size_t>(src)] = true;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (needed[i] && nodes[i].srcs.empty() && !nodes[i].is_state) names.push_back(nodes[i].name);
  return names;
}

/// Makes a plan that keeps the parameters alive, which keep the device alive. Called in a turn.
std::shared_ptr<Plan> keep_plan(std::shared_ptr<NetworkParameters> parameters, const PlanOptions& options) {
  struct Kept {
    Kept(std::shared_ptr<NetworkParameters> p, const PlanOptions& options)
        : parameters(std::move(p)), network(parameters->network), plan(network->graph, parameters->values, options) {}
    std::shared_ptr<NetworkParameters> parameters;
    std::shared_ptr<Network> network;
    Plan plan;
  };
  auto kept = std::make_shared<Kept>(std::move(parameters), options);
  return {kept, &kept->plan};
}

/// Predictions of a network for arrays. Constructed without the GIL.
class Inference final : public Closable {
 public:
  Inference(std::shared_ptr<NetworkParameters> parameters, std::int64_t batch, const std::string& precision)
      : Closable(Stage::work),
        parameters_(std::move(parameters)),
        network_(parameters_->network),
        batch_(batch),
        inputs_(inputs_of_outputs(network_->graph)) {
    if (batch < 1) refuse("batch is {}. Expected at least 1 sample", batch);
    const Turn turn(*parameters_);
    plan_ = keep_plan(parameters_, {.batch = batch, .training = false, .precision = precision_of(precision)});
    executor_ = std::make_unique<Executor>(*plan_, parameters_->values);
    parameters_->computed = nullptr;  // the arena may have moved
    for (const auto& name : inputs_) tensors_.push_back(executor_->input(name));
    copies_.resize(inputs_.size());
  }
  /// Takes no turn: no other thread has this object, and the thread that drops it may be in a turn of other parameters.
  ~Inference() override = default;
  /// Waits for a running call to end. Called without the GIL.
  void close() override {
    const Turn turn(*parameters_);
    executor_.reset();
    copies_.clear();
    kept_.clear();
  }

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::shared_ptr<Plan>& plan() const { return plan_; }
  const std::shared_ptr<NetworkParameters>& parameters() const { return parameters_; }
  /// Predicts for any number of samples. Called with the GIL.
  nb::dict predict(const nb::dict& arrays, bool carry);
  void reset_states();  ///< called without the GIL
  /// An output of the last batch, and the memory in which predict() keeps this output from now on. Called with the GIL.
  std::pair<TensorDesc, std::shared_ptr<void>> keep(const std::string& output);

 private:
  Executor& get() const {  ///< called in a turn
    if (!executor_) fail("this inference was closed");
    if (network_ != parameters_->network)
      refuse(
          "the network has lost or gained units or layers since this inference was made. Make another one of the same "
          "parameters");
    return *executor_;
  }
  /// The arrays in the order of the inputs. Throws InputError for arrays that do not fit.
  std::vector<HostArray> check(const nb::dict& arrays) const;
  /// Makes samples [first, first + count) the inputs of the next batch.
  void feed(const std::vector<HostArray>& arrays, std::int64_t first, std::int64_t count);
  Device& device() const { return parameters_->device->get().device(); }

  std::shared_ptr<NetworkParameters> parameters_;
  std::shared_ptr<Network> network_;  ///< of the parameters when the inference was made
  std::int64_t batch_;
  std::vector<std::string> inputs_;
  std::vector<Tensor> tensors_;  ///< the inputs; their memory is the executor's, unless it reads from elsewhere
  std::vector<Tensor> copies_;   ///< by input: copies of arrays that cannot be read in place
  std::map<std::string, std::shared_ptr<void>> kept_;  ///< by output: results of the last batch, for views
  std::shared_ptr<Plan> plan_;
  std::unique_ptr<Executor> executor_;
  std::uint64_t step_ = 0;
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Shape sample_of(const Shape& shape) {
  Shape sample;
  for (int i = 1; i < shape.rank(); ++i) sample.push_back(shape[i]);
  return sample;
}

std::vector<HostArray> Inference::check(const nb::dict& arrays) const {
  for (const auto& [key, value] : arrays) {
    const auto name = nb::cast<std::string>(key);
    if (std::find(inputs_.begin(), inputs_.end(), name) == inputs_.end())
      refuse("predictions do not depend on an input '{}'. Expected {}", name, joined(inputs_));
  }
  std::vector<HostArray> held;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto& name = inputs_[i];
    const Tensor& tensor = tensors_[i];
    if (!arrays.contains(name.c_str()))
      refuse("no array was given for the input '{}'. Expected samples of {}, {}", name,
             shape_text(sample_of(tensor.shape())), numpy_name(tensor.dtype()));
    auto array = host_array(arrays[name.c_str()], name);
    require_dtype(array, tensor.dtype(), name);
    const Shape sample = sample_of(tensor.shape());
    if (array.shape.rank() != tensor.shape().rank() || !(sample_of(array.shape) == sample)) {
      const bool one = array.shape == sample;
      if (one) refuse("{} is one sample of {}. Expected an array of samples: give x[None]", name, shape_text(sample));
      refuse("{} has the shape {}: {}. Expected samples of {}", name, shape_text(array.shape),
             samples_text(array.shape), shape_text(sample));
    }
    if (!held.empty() && array.shape[0] != held[0].shape[0])
      refuse("{} has {} samples, but {} has {}. Expected the same number in all inputs", name, array.shape[0],
             inputs_[0], held[0].shape[0]);
    held.push_back(std::move(array));
  }
  return held;
}

void Inference::feed(const std::vector<HostArray>& arrays, std::int64_t first, std::int64_t count) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    HostArray part = arrays[i];
    const auto sample = part.strides.empty() ? 0 : part.strides[0];
    part.data += first * sample * static_cast<std::int64_t>(size_of(tensor.dtype()));
    part.shape[0] = count;
    const bool channels_last = tensor.shape().rank() >= 4 && tensor.layout().is_channels_last(tensor.shape()) &&
                               !tensor.layout().is_plain(tensor.shape());
    constexpr std::size_t alignment = 64;
    const bool aligned = reinterpret_cast<std::uintptr_t>(part.data) % alignment == 0;
    if (device().shares_host_memory()) {
      if (count == batch_ && aligned && is_dense(part, channels_last)) {
        executor_->read_input_from(inputs_[i],
                                   const_cast<std::byte*>(part.data));  // the forward pass only reads the array
        continue;
      }
      if (!copies_[i]) copies_[i] = parameters_->device->get().allocate(tensor.desc(), inputs_[i]);
      copy_dense(part, -1, channels_last, copies_[i].raw());
      executor_->read_input_from(inputs_[i], copies_[i].raw());
      continue;
    }
    const auto bytes = static_cast<std::size_t>(part.shape.elements()) * size_of(tensor.dtype());
    const auto staged = device().allocate_host(bytes, "input of an inference");
    copy_dense(part, -1, channels_last, staged.get());
    device().copy_from_host(tensor.raw(), staged.get(), bytes);
    device().fence();
  }
}

nb::dict Inference::predict(const nb::dict& arrays, bool carry) {
  const auto held = check(arrays);
  const std::int64_t samples = held.empty() ? batch_ : held[0].shape[0];
  const auto& outputs = parameters_->network->graph.outputs();
  nb::dict results;
  std::vector<std::byte*> data;
  for (const auto& [name, node] : outputs) {
    const auto& value = parameters_->network->graph.nodes()[static_cast<std::size_t>(node)].shape;
    void* memory = nullptr;
    results[name.c_str()] = new_array(value.at_batch(samples), value.dtype, false, &memory);
    data.push_back(static_cast<std::byte*>(memory));
  }
  const nb::gil_scoped_release release;
  const Turn turn(*parameters_);
  Executor& executor = get();
  parameters_->computed = this;
  for (std::int64_t first = 0; first < samples; first += batch_) {
    const auto count = std::min(batch_, samples - first);
    feed(held, first, count);
    ops::StepParams params;
    params.step = step_++;
    params.inverse_samples = 1.0f / static_cast<float>(count);
    executor.forward(params);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor output = executor.output(outputs[i].first);
      if (const auto kept = kept_.find(outputs[i].first); kept != kept_.end())
        device().copy(kept->second.get(), output.raw(), output.bytes());
      const auto bytes = output.bytes() / static_cast<std::size_t>(batch_) * static_cast<std::size_t>(count);
      device().copy_to_host(data[i], output.raw(), bytes);
      data[i] += bytes;
    }
    if (carry) executor.carry_states();
  }
  return results;
}

void Inference::reset_states() {
  const Turn turn(*parameters_);
  get().reset_states();
}

std::pair<TensorDesc, std::shared_ptr<void>> Inference::keep(const std::string& name) {
  return in_turn(*parameters_, [&] {
    const Tensor output = get().output(name);
    auto kept = kept_.find(name);
    if (kept == kept_.end()) {
      if (parameters_->computed != this)
        refuse("the last batch of this inference is no longer there: call the inference, then view('{}')", name);
      kept = kept_.emplace(name, device().allocate(output.bytes(), "view of " + name)).first;
      device().copy(kept->second.get(), output.raw(), output.bytes());
      device().fence();
    }
    return std::pair(output.desc(), kept->second);
  });
}

/// An array over the memory of keep(). Keeps the memory and the device alive.
nb::object view_of(Inference& inference, const std::string& name) {
  struct Owner {
    std::shared_ptr<ContextObject> device;
    std::shared_ptr<void> memory;
  };
  const auto& device = inference.parameters()->device;
  const auto [desc, memory] = inference.keep(name);
  auto owner = std::make_unique<Owner>(Owner{device, memory});
  const nb::capsule capsule(owner.get(), [](void* p) noexcept { delete static_cast<Owner*>(p); });
  owner.release();
  return view(Tensor(desc, memory.get()), device->get().device().shares_host_memory(), capsule, name);
}

nb::object call(Inference& inference, const nb::args& given, bool carry, const nb::kwargs& named) {
  nb::dict arrays;
  arrays.update(named);
  if (given.size() > inference.inputs().size())
    refuse("{} arrays were given. Expected {}: {}", given.size(), inference.inputs().size(),
           joined(inference.inputs()));
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (nb::isinstance<nb::dict>(given[i]))
      arrays.update(nb::borrow<nb::dict>(given[i]));
    else
      arrays[inference.inputs()[i].c_str()] = given[i];
  }
  nb::dict results = inference.predict(arrays, carry);
  if (results.size() > 1) return results;
  return nb::object(results.values()[0]);
}

Evaluated evaluate(NetworkParameters& parameters, const std::shared_ptr<Dataset>& given, EvaluatorOptions options) {
  const auto data = read_for(parameters, given);
  const Turn turn(parameters);
  parameters.computed = nullptr;
  Evaluator evaluator(parameters.network->graph, parameters.values, *data, parameters.device->communicator(), options);
  const auto evaluation = evaluator.run();
  parameters.computed = nullptr;  // a metric may have computed predictions
  return evaluated(evaluation, options.evaluation.metrics);
}

void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "A graph compiled for a context, a batch size and a mode: a flat list of calls.")
      .def(
          "__init__",
          [](Plan* self, NetworkParameters& parameters, std::int64_t batch, bool training, const Optimizer* optimizer,
             const std::string& precision, bool recompute) {
            const PlanOptions o{.batch = batch,
                                .training = training,
                                .precision = precision_of(precision),
                                .optimizer = optimizer,
                                .recompute = recompute};
            in_turn(parameters, [&] { new (self) Plan(parameters.network->graph, parameters.values, o); });
          },
          nb::arg("parameters"), nb::kw_only(), nb::arg("batch") = 1, nb::arg("training") = false,
          nb::arg("optimizer").none() = nb::none(), nb::arg("precision") = "fp32", nb::arg("recompute") = false,
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 5>())
      .def_prop_ro(
          "rows",
          [](const Plan& plan) {
            nb::list rows;
            for (const auto& r : plan.rows()) {
              nb::dict row;
              row["phase"] = r.phase;
              row["node"] = r.node;
              row["op"] = r.op;
              row["backend"] = r.backend;
              row["kernel"] = r.kernel;
              row["layout"] = r.layout;
              row["gflop"] = r.gflop;
              row["megabytes"] = r.megabytes;
              rows.append(row);
            }
            return rows;
          },
          nb::sig("def rows(self) -> list[dict[str, str | float]]"), "The calls of a step, in their order.")
      .def_prop_ro(
          "memory",
          [](const Plan& plan) {
            nb::dict sizes;
            for (const auto& [purpose, bytes] : plan.memory()) sizes[purpose.c_str()] = bytes;
            return sizes;
          },
          nb::sig("def memory(self) -> dict[str, int]"), "Bytes on the device that one executor needs, by purpose.")
      .def("__str__", [](const Plan& plan) {
        std::ostringstream text;
        plan.print(text);
        return text.str();
      });
}

}  // namespace

void bind_inference(nb::module_& m) {
  bind_plan(m);
  nb::class_<Inference>(
      m, "Inference",
      "Predictions of the network of `parameters`. inference(x) or inference(x=array) takes any number of samples,\n"
      "computes `batch` at a time, and returns the output's array, or a dict of arrays where there are several "
      "outputs.\n"
      "Full batches that are 64-byte aligned and channels-last (keelson.data.empty) are read without a copy. "
      "Inferences\n"
      "see the values that trainers on the same parameters write.")
      .def(
          "__init__",
          [](Inference* self, std::shared_ptr<NetworkParameters> parameters, std::int64_t batch,
             const std::string& precision) {
            const nb::gil_scoped_release release;
            new (self) Inference(std::move(parameters), batch, precision);
          },
          nb::arg("parameters"), nb::kw_only(), nb::arg("batch") = 1, nb::arg("precision") = "fp32")
      .def("__call__", &call, nb::arg("arrays"), nb::arg("carry_states") = false, nb::arg("named"),
           nb::sig("def __call__(self, *arrays, carry_states: bool = False, **named) -> numpy.typing.NDArray | "
                   "dict[str, numpy.typing.NDArray]"),
           "Predicts. carry_states: recurrent states are kept from batch to batch, and for the next call.")
      .def(
          "reset_states", [](Inference& i) { i.reset_states(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Sets all recurrent states to zero.")
      .def_prop_ro("inputs", &Inference::inputs, "Names of the inputs on which the outputs depend.")
      .def_prop_ro(
          "parameters", [](const Inference& i) { return i.parameters(); }, "The parameters of the network.")
      .def_prop_ro(
          "plan", [](const Inference& i) { return i.plan(); }, "The compiled plan.")
      .def("view", &view_of, nb::arg("output"),
           "The output of the last batch in the device's memory: a NumPy array, or on a GPU an object with\n"
           "__dlpack__. Each later call of this inference writes its last batch there; nothing else does. The memory\n"
           "stays as long as the array, also after close().")
      .def(
          "close", [](Inference& i) { i.close(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Frees the memory now. Waits for a running call to end.");
  m.def(
      "evaluate",
      [](NetworkParameters& parameters, nb::handle given, std::int64_t batch,
         std::vector<std::shared_ptr<Metric>> metrics, const std::string& precision, const std::string& prediction,
         const std::string& target_field, int loader_threads, int prefetch) {
        const auto data = dataset_of(given);
        if (!data) refuse("data is None. Expected a data set, or arrays by name");
        EvaluatorOptions o{
            .batch = batch,
            .precision = precision_of(precision),
            .threads = {.count = reads_in_order(*data) ? 1 : loader_threads, .prefetch = prefetch},
            .evaluation = {.prediction = prediction, .target = target_field, .metrics = std::move(metrics)}};
        const nb::gil_scoped_release release;
        return evaluate(parameters, data, std::move(o));
      },
      nb::arg("parameters"), nb::arg("data"), nb::kw_only(), nb::arg("batch") = 1,
      nb::arg("metrics") = std::vector<std::shared_ptr<Metric>>(), nb::arg("precision") = "fp32",
      nb::arg("prediction") = "prediction", nb::arg("target_field") = "y", nb::arg("loader_threads") = 1,
      nb::arg("prefetch") = 2, "Evaluates the network of `parameters` on data, over all ranks. Collective.");
}

}  // namespace keelson::python
