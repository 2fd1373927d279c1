
#include <utility>
#include <vector>

#include "casters.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/optim/sgd.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Groups = std::vector<ParameterGroup>;

Larc larc_of(const std::string& mode, float eta, float floor, bool relative) {
  return {.mode = choose<ops::LarcMode>(
              "larc", mode,
              {{"none", ops::LarcMode::none}, {"scale", ops::LarcMode::scale}, {"clip", ops::LarcMode::clip}}),
          .eta = eta,
          .floor = floor,
          .relative = relative};
}

template <class T>
void bind_adam(nb::module_& m, const char* name, const char* text) {
  nb::class_<T, Optimizer>(m, name, text)
      .def(
          "__init__",
          [](T* self, float beta1, float beta2, float epsilon, float weight_decay, float clip_norm,
             const std::string& larc, float larc_eta, float larc_floor, bool larc_relative, Groups groups) {
            const Larc rates = larc_of(larc, larc_eta, larc_floor, larc_relative);
            new (self) T();
            self->beta1 = beta1;
            self->beta2 = beta2;
            self->epsilon = epsilon;
            self->larc = rates;
            self->weight_decay = weight_decay;
            self->clip_norm = clip_norm;
            self->groups = std::move(groups);
          },
          nb::kw_only(), nb::arg("beta1") = 0.9f, nb::arg("beta2") = 0.999f, nb::arg("epsilon") = 1e-8f,
          nb::arg("weight_decay") = 0.0f, nb::arg("clip_norm") = 0.0f, nb::arg("larc") = "none",
          nb::arg("larc_eta") = 0.002f, nb::arg("larc_floor") = 0.0f, nb::arg("larc_relative") = false,
          nb::arg("groups") = Groups());
}

void bind_schedule(nb::module_& m) {
  using Kind = Schedule::Kind;
  nb::class_<Schedule>(
      m, "Schedule",
      "The learning rate by position in training. It rises from `warmup_from` to `rate` over\n"
      "`warmup_epochs`, and then follows `kind`: 'constant'; 'steps': rate * factor from each epoch of\n"
      "`steps` on, a list of (epoch, factor); 'linear' or 'cosine': to `final` over `epochs`; 'decay':\n"
      "rate * decay_factor^max(e - flat_epochs, 0) in the e-th epoch.")
      .def(
          "__init__",
          [](Schedule* self, double rate, const std::string& kind, double final, double epochs, double warmup_epochs,
             double warmup_from, const std::vector<std::pair<double, double>>& steps, double decay_factor,
             std::int64_t flat_epochs) {
            Schedule s;
            s.kind = choose<Kind>("kind", kind,
                                  {{"constant", Kind::constant},
                                   {"steps", Kind::steps},
                                   {"linear", Kind::linear},
                                   {"cosine", Kind::cosine},
                                   {"decay", Kind::decay}});
            s.base = rate;
            s.final = final;
            s.epochs = epochs;
            s.warmup_epochs = warmup_epochs;
            s.warmup_from = warmup_from;
            for (const auto& [epoch, factor] : steps) s.steps.push_back({epoch, factor});
            s.decay_factor = decay_factor;
            s.flat_epochs = flat_epochs;
            new (self) Schedule(std::move(s));
          },
          nb::arg("rate") = 1e-3, nb::arg("kind") = "constant", nb::kw_only(), nb::arg("final") = 0.0,
          nb::arg("epochs") = 1.0, nb::arg("warmup_epochs") = 0.0, nb::arg("warmup_from") = 0.0,
          nb::arg("steps") = std::vector<std::pair<double, double>>(), nb::arg("decay_factor") = 1.0,
          nb::arg("flat_epochs") = 0)
      .def("at", &Schedule::at, nb::arg("epoch"), "The rate at this position: epochs done, with their fraction.")
      .def("__repr__", &Schedule::to_string);
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<ParameterGroup>(m, "ParameterGroup",
                             "Settings for the parameters whose names match a pattern: 'dense1/weights', 'dense*',\n"
                             "'*bias'. The first matching group is used.")
      .def(
          "__init__",
          [](ParameterGroup* self, std::vector<std::string> patterns, float weight_decay, float lr_multiplier) {
            new (self) ParameterGroup{std::move(patterns), weight_decay, lr_multiplier};
          },
          nb::arg("patterns"), nb::kw_only(), nb::arg("weight_decay") = 0.0f, nb::arg("lr_multiplier") = 1.0f);
  nb::class_<Optimizer>(m, "Optimizer", "How parameters change in a step.")
      .def_prop_ro("state_names", &Optimizer::state_names,
                   "Names of the arrays that the optimizer keeps per parameter.")
      .def("__repr__", &Optimizer::to_string);
  nb::class_<Sgd, Optimizer>(m, "SGD", "Stochastic gradient descent: v = momentum v + g, w -= lr v.")
      .def(
          "__init__",
          [](Sgd* self, float momentum, bool nesterov, float weight_decay, float clip_norm, const std::string& larc,
             float larc_eta, float larc_floor, bool larc_relative, Groups groups) {
            const Larc rates = larc_of(larc, larc_eta, larc_floor, larc_relative);
            new (self) Sgd();
            self->momentum = momentum;
            self->nesterov = nesterov;
            self->larc = rates;
            self->weight_decay = weight_decay;
            self->clip_norm = clip_norm;
            self->groups = std::move(groups);
          },
          nb::kw_only(), nb::arg("momentum") = 0.0f, nb::arg("nesterov") = false, nb::arg("weight_decay") = 0.0f,
          nb::arg("clip_norm") = 0.0f, nb::arg("larc") = "none", nb::arg("larc_eta") = 0.002f,
          nb::arg("larc_floor") = 0.0f, nb::arg("larc_relative") = false, nb::arg("groups") = Groups());
  bind_adam<Adam>(m, "Adam", "Adam, bias-corrected; weight decay is added to the gradient.");
  bind_adam<AdamW>(m, "AdamW", "Adam with decoupled weight decay: w -= lr * weight_decay * w.");
  nb::class_<Lars, Optimizer>(m, "LARS", "SGD with momentum in which each parameter has a local rate.")
      .def(
          "__init__",
          [](Lars* self, float momentum, float eta, float epsilon, bool rate_in_momentum, bool adapt_vectors,
             float weight_decay, float clip_norm, Groups groups) {
            new (self) Lars();
            self->momentum = momentum;
            self->eta = eta;
            self->epsilon = epsilon;
            self->rate_in_momentum = rate_in_momentum;
            self->adapt_vectors = adapt_vectors;
            self->weight_decay = weight_decay;
            self->clip_norm = clip_norm;
            self->groups = std::move(groups);
          },
          nb::kw_only(), nb::arg("momentum") = 0.9f, nb::arg("eta") = 0.001f, nb::arg("epsilon") = 0.0f,
          nb::arg("rate_in_momentum") = true, nb::arg("adapt_vectors") = false, nb::arg("weight_decay") = 5e-4f,
          nb::arg("clip_norm") = 0.0f, nb::arg("groups") = Groups());
  nb::class_<Lamb, Optimizer>(m, "LAMB", "Adam's direction, scaled to the norm of each parameter, as in MLPerf.")
      .def(
          "__init__",
          [](Lamb* self, float beta1, float beta2, float epsilon, bool nvlamb, bool adapt_vectors, float weight_decay,
             float clip_norm, Groups groups) {
            new (self) Lamb();
            self->beta1 = beta1;
            self->beta2 = beta2;
            self->epsilon = epsilon;
            self->nvlamb = nvlamb;
            self->adapt_vectors = adapt_vectors;
            self->weight_decay = weight_decay;
            self->clip_norm = clip_norm;
            self->groups = std::move(groups);
          },
          nb::kw_only(), nb::arg("beta1") = 0.9f, nb::arg("beta2") = 0.999f, nb::arg("epsilon") = 1e-6f,
          nb::arg("nvlamb") = false, nb::arg("adapt_vectors") = false, nb::arg("weight_decay") = 0.01f,
          nb::arg("clip_norm") = 1.0f, nb::arg("groups") = Groups());
  bind_schedule(m);
}

}  // namespace keelson::python
