#include "apps/search/training/search_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/search/training/train_member.hpp"
#include "engine/base/error.hpp"
#include "search/genome/design.hpp"
#include "search/genome/ranges.hpp"
#include "search/method/method.hpp"
#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

/// How the members of a population are trained. `s` is complete but for this.
PopulationTraining population_of(const SearchOptions& o, const Settings& s) {
  if (o.first_epochs > 0) refuse("the method {} trains all members to the end: leave out the first epochs", o.method);
  if (s.objectives != std::vector{Objective::loss})
    refuse("the method {} trains one network, so it can minimise the loss alone: leave out other objectives", o.method);
  if (!(o.interval > 0)) refuse("the interval is {} epochs; expected more than 0", o.interval);
  if (o.members < 1) refuse("the number of members is {}; expected at least 1", o.members);
  const bool ltfb = o.method == "ltfb";
  if (ltfb && !(o.tournament > 0 && o.tournament < 1))
    refuse("the part for tournaments is {}; expected more than 0 and less than 1", o.tournament);
  if (const auto why = over_limit(cost_of(design_of(s), s.space), s.space); !why.empty())
    refuse("the network has {}: set \"limits\" in the space", why);
  return {.members = o.members,
          .interval = std::min(o.interval, o.epochs),
          .tournament = ltfb ? o.tournament : 0,
          .partition = o.partition};
}

/// Puts the file into errors.
template <class F>
void naming(const std::string& file, F&& read) {
  try {
    read();
  } catch (const InputError& e) {
    refuse("{}: {}", file, e.what());
  }
}

}  // namespace

Settings settings_of(const SearchOptions& o, const SearchData& data, const std::string& config) {
  Settings s;
  s.seed = o.seed;
  s.method = o.method;
  s.objectives.clear();
  for (const auto& name : o.objectives) s.objectives.push_back(parse_objective(name));
  s.epochs = o.epochs;
  s.first_epochs = o.first_epochs > 0 ? std::min(o.first_epochs, o.epochs) : o.epochs;
  s.eta = o.eta;
  s.least_lease = o.lease;
  s.space = data.space();
  if (!o.space.empty()) s.space.restrict(o.space);
  s.data = fmt::format("{:016x}", data.digest());
  s.config = config;
  if (!o.start.empty())
    naming(o.start_from, [&] {
      s.space.admit(o.start);
      s.start = parse_start(o.start, s);
    });
  if (o.blueprint) naming(o.blueprint_from, [&] { restrict_by(s.space, *o.blueprint, s.start ? &*s.start : nullptr); });
  if (o.partition && o.method != "ltfb")
    refuse("the method {} trains all networks on all training data: leave out partition, or take the method ltfb",
           o.method);
  if (is_population_method(o.method)) {
    s.population = population_of(o, s);
    MemberData(s, data.training());  // refuses
  } else if (o.method != "tpe") {    // Python makes that one itself
    make_method(s);                  // refuses
  }
  Settings::parse(s.to_json());  // refuses what a log may not have
  return s;
}

void require_same_data(const Settings& settings, const SearchData& data, const std::string& folder) {
  if (settings.data != fmt::format("{:016x}", data.digest()))
    refuse("{}: the data are not those with which the search began: {}", folder, data.describe());
}

}  // namespace keelson::search
