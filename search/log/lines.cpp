#include "search/log/lines.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::search {
namespace {

using nlohmann::json;

struct NamedObjective {
  Objective objective;
  const char* name;
};
constexpr NamedObjective objectives[] = {{Objective::loss, "loss"},
                                         {Objective::parameters, "parameters"},
                                         {Objective::flops, "flops"},
                                         {Objective::time, "time"}};

}  // namespace

struct Line::Impl {
  json object;

  const json& entry(const char* name, bool (json::*is)() const noexcept) const {
    const auto found = object.find(name);
    if (found == object.end() || !((*found).*is)())
      refuse("a line of the log has no \"{}\" that can be read: {}", name, object.dump().substr(0, 300));
    return *found;
  }
};

Line::Line(const std::string& text) : impl_(new Impl{json::parse(text, nullptr, false)}) {
  if (!impl_->object.is_object()) refuse("a line of the log is no JSON object: {}", text.substr(0, 300));
}
Line::~Line() = default;

std::string Line::text(const char* name) const { return impl_->entry(name, &json::is_string).get<std::string>(); }
std::string Line::dumped(const char* name) const {
  const auto found = impl_->object.find(name);
  if (found == impl_->object.end())
    refuse("a line of the log has no \"{}\": {}", name, impl_->object.dump().substr(0, 300));
  return found->dump();
}
double Line::number(const char* name) const { return impl_->entry(name, &json::is_number).get<double>(); }
std::int64_t Line::whole(const char* name) const {
  return impl_->entry(name, &json::is_number_integer).get<std::int64_t>();
}
bool Line::has(const char* name) const { return impl_->object.contains(name); }
bool Line::flag(const char* name) const { return impl_->entry(name, &json::is_boolean).get<bool>(); }

std::vector<std::int64_t> Line::wholes(const char* name) const {
  std::vector<std::int64_t> values;
  for (const auto& v : impl_->entry(name, &json::is_array))
    if (v.is_number_integer()) values.push_back(v.get<std::int64_t>());
  return values;
}

std::vector<std::string> Line::texts(const char* name) const {
  std::vector<std::string> values;
  for (const auto& v : impl_->entry(name, &json::is_array))
    if (v.is_string()) values.push_back(v.get<std::string>());
  return values;
}

std::string to_string(Objective objective) {
  for (const auto& o : objectives)
    if (o.objective == objective) return o.name;
  fail("an objective without a name");
}

Objective parse_objective(const std::string& name) {
  std::string all;
  for (const auto& o : objectives) {
    if (name == o.name) return o.objective;
    all += std::string(all.empty() ? "" : ", ") + o.name;
  }
  refuse("no objective \"{}\"; there are {}", name, all);
}

std::string Settings::to_json() const {
  std::vector<std::string> names;
  for (const Objective o : objectives) names.push_back(to_string(o));
  std::vector<std::int64_t> sample(space.sample.begin(), space.sample.end());
  json line{{"type", "search"},
            {"version", 1},
            {"seed", seed},
            {"method", method},
            {"objectives", names},
            {"epochs", epochs},
            {"first_epochs", first_epochs},
            {"eta", eta},
            {"least_lease", least_lease},
            {"sample", sample},
            {"outputs", space.outputs},
            {"classes", space.classes},
            {"space", json::parse(space.to_json())},
            {"data", data},
            {"config", json::parse(config)}};
  if (trains_population())
    line["population"] = {{"members", population.members},
                          {"interval", population.interval},
                          {"tournament", population.tournament},
                          {"partition", population.partition}};
  if (start) line["start"] = json::parse(search::to_json(*start, space));
  return line.dump();
}

namespace {

PopulationTraining parse_population(const Line& line) {
  PopulationTraining p;
  p.members = line.whole("members");
  p.interval = line.number("interval");
  p.tournament = line.number("tournament");
  p.partition = line.flag("partition");
  constexpr std::int64_t most_members = 1'000'000;
  if (p.members < 1 || p.members > most_members || !(p.interval > 0))
    refuse("the log has a wrong number of members or a wrong interval");
  return p;
}

}  // namespace

namespace {

/// Refuses numbers that no search has, before they are used to reserve memory.
void check_numbers(const Settings& s) {
  constexpr double most_epochs = 1e9, most_rungs = 1e6;
  if (!(s.first_epochs > 0) || s.epochs < s.first_epochs || s.epochs > most_epochs || s.eta < 2 ||
      (s.trains_population() && s.epochs > most_rungs * s.population.interval))
    refuse("the log has wrong numbers of epochs");
}

Space parse_space(const Line& line) {
  constexpr double most_elements = 1e12;  // of a sample, and outputs
  const auto extents = line.wholes("sample");
  const auto outputs = line.whole("outputs");
  double elements = 1;
  for (const std::int64_t extent : extents) elements *= extent > 0 ? static_cast<double>(extent) : INFINITY;
  if (extents.empty() || elements > most_elements || outputs < 1 || static_cast<double>(outputs) > most_elements)
    refuse("the log has a wrong shape of samples, or a wrong number of outputs");
  Space space = Space::of(Shape(extents), outputs, line.flag("classes"));
  space.restrict(line.dumped("space"));
  return space;
}

}  // namespace

Settings Settings::parse(const std::string& text) {
  const Line line(text);
  if (line.whole("version") != 1) refuse("the log was written by another version: {}", line.whole("version"));
  Settings s;
  s.seed = static_cast<std::uint64_t>(line.whole("seed"));
  s.method = line.text("method");
  s.objectives.clear();
  for (const auto& name : line.texts("objectives")) s.objectives.push_back(parse_objective(name));
  if (s.objectives.empty()) refuse("the log names no objective");
  s.epochs = line.number("epochs");
  s.first_epochs = line.number("first_epochs");
  s.eta = static_cast<int>(line.whole("eta"));
  s.least_lease = line.number("least_lease");
  s.data = line.text("data");
  s.config = line.dumped("config");
  s.space = parse_space(line);
  if (line.has("population")) s.population = parse_population(Line(line.dumped("population")));
  check_numbers(s);
  if (line.has("start")) s.start = parse_genome(line.dumped("start"), s.space);
  return s;
}

Individual parse_birth(const Line& line, const Space& space) {
  Individual i;
  i.genome = parse_genome(line.dumped("genome"), space);
  i.key = to_json(i.genome, space);
  i.parents = line.wholes("parents");
  i.origin = line.text("origin");
  i.seen = line.whole("seen");
  i.slot = i.worker = static_cast<int>(line.whole("slot"));
  i.since = line.number("time");
  return i;
}

std::string member_key(std::int64_t id) { return fmt::format("member {}", id); }

Interval parse_interval(const Line& line, const Space& space) {
  return {.source = line.whole("source"),
          .source_rung = static_cast<int>(line.whole("source_rung")),
          .partner = line.whole("partner"),
          .training = parse_training(line.dumped("training"), space)};
}

Result parse_result(const Line& line) {
  Result r{.rung = static_cast<int>(line.whole("rung")),
           .loss = line.number("loss"),
           .metric = line.number("metric"),
           .seconds = line.number("seconds"),
           .step_ms = line.number("step_ms")};
  if (line.has("own_loss")) r.tournament = {line.number("own_loss"), line.number("partner_loss")};
  return r;
}

std::string start_line(int workers, double now) {
  return json{{"type", "start"}, {"workers", workers}, {"time", now}}.dump();
}

std::string birth_line(const Individual& i, const Space& space, std::int64_t most, double now) {
  json line{{"type", "birth"},      {"seen", i.seen},     {"slot", i.slot},
            {"parents", i.parents}, {"origin", i.origin}, {"genome", json::parse(to_json(i.genome, space))},
            {"most", most},         {"time", now}};
  if (!i.intervals.empty()) line["member"] = i.id;
  return line.dump();
}

std::string run_line(std::int64_t id, int rung, int attempt, int slot, double now) {
  return json{{"type", "run"}, {"id", id}, {"rung", rung}, {"attempt", attempt}, {"slot", slot}, {"time", now}}.dump();
}

std::string interval_line(std::int64_t id, int rung, const Interval& i, std::int64_t seen, int slot, const Space& space,
                          double now) {
  return json{{"type", "run"},
              {"id", id},
              {"rung", rung},
              {"attempt", 0},
              {"slot", slot},
              {"time", now},
              {"seen", seen},
              {"source", i.source},
              {"partner", i.partner},
              {"source_rung", i.source_rung},
              {"training", json::parse(to_json(i.training, space))}}
      .dump();
}

std::string result_line(std::int64_t id, const Result& r, double now) {
  json line{{"type", "result"},     {"id", id},           {"rung", r.rung},
            {"loss", r.loss},       {"metric", r.metric}, {"seconds", r.seconds},
            {"step_ms", r.step_ms}, {"time", now}};
  if (r.tournament) {
    line["own_loss"] = r.tournament->first;
    line["partner_loss"] = r.tournament->second;
  }
  return line.dump();
}

std::string failure_line(std::int64_t id, int rung, const std::string& reason, bool again, double now) {
  return json{{"type", "failure"}, {"id", id}, {"rung", rung}, {"reason", reason}, {"again", again}, {"time", now}}
      .dump();
}

}  // namespace keelson::search
