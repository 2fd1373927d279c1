
#include <algorithm>
#include <utility>
#include <vector>

#include "casters.hpp"
#include "engine/optim/optimizers.hpp"
#include "engine/optim/schedule.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Groups = std::vector<ParameterGroup>;

/// "momentum: float = 0.0"
std::string argument(const OptimizerSetting& s) {
  const bool is_flag = std::holds_alternative<bool*>(s.value),
             is_whole = std::holds_alternative<std::int32_t*>(s.value),
             is_number = is_whole || std::holds_alternative<float*>(s.value);
  const std::string value = s.text();
  const char* const type = is_flag ? "bool" : is_whole ? "int" : is_number ? "float" : "str";
  return fmt::format("{}: {} = {}", s.name, type,
                     is_flag          ? (value == "true" ? "True" : "False")
                     : !is_number     ? fmt::format("'{}'", value)
                     : value == "inf" ? "float('inf')"
                                      : value);
}

void assign(const char* optimizer, const OptimizerSetting& s, nb::handle value) {
  try {
    if (auto* const* number = std::get_if<float*>(&s.value))
      **number = nb::cast<float>(value);
    else if (auto* const* flag = std::get_if<bool*>(&s.value))
      **flag = nb::cast<bool>(value);
    else if (auto* const* whole = std::get_if<std::int32_t*>(&s.value))
      **whole = nb::cast<std::int32_t>(value);
    else
      s.read(nb::cast<std::string>(value));
  } catch (const nb::cast_error&) {
    throw nb::type_error(fmt::format("{}: {} is {}; expected a value as {}", optimizer, s.name,
                                     nb::cast<std::string>(nb::repr(value)), argument(s))
                             .c_str());
  }
}

std::string unknown_setting(const char* optimizer, const std::string& name,
                            const std::vector<OptimizerSetting>& settings) {
  if (name == "lr" || name == "learning_rate" || name == "rate")
    return fmt::format("{} has no setting '{}': give the learning rate to the Trainer, learning_rate=", optimizer,
                       name);
  std::string known;
  for (const OptimizerSetting& s : settings) known += std::string(s.name) + ", ";
  return fmt::format("{} has no setting '{}'. Expected one of: {}groups", optimizer, name, known);
}

/// A class whose constructor takes the optimizer's settings and `groups`, by name.
template <class T>
void bind(nb::module_& m) {
  T defaults;
  std::string signature = "def __init__(self, *";
  for (const OptimizerSetting& s : defaults.settings()) signature += ", " + argument(s);
  signature += ", groups: collections.abc.Sequence[ParameterGroup] = []) -> None";
  nb::class_<T, Optimizer>(m, T::name, T::summary)
      .def(
          "__init__",
          [](T* self, const nb::kwargs& given) {
            T made;
            const auto settings = made.settings();
            for (const auto& [key, value] : given) {
              const auto name = nb::cast<std::string>(key);
              const auto found = std::ranges::find_if(settings, [&](const auto& s) { return s.name == name; });
              if (name == "groups")
                made.groups = nb::cast<Groups>(value);
              else if (found != settings.end())
                assign(T::name, *found, value);
              else
                throw nb::type_error(unknown_setting(T::name, name, settings).c_str());
            }
            new (self) T(std::move(made));
          },
          nb::sig(signature.c_str()));
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
  for_each_type(Optimizers{}, [&]<class T>() { bind<T>(m); });
  bind_schedule(m);
}

}  // namespace keelson::python
