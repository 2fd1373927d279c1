#include "apps/common/subcommand.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

/// "--size,--subcube": "size".
std::string first_name(const std::string& names) {
  KEELSON_EXPECT(names.starts_with("--"));
  return names.substr(2, names.find(',') - 2);
}

const char* default_unit(const Option::Destination& target) {
  struct {
    const char* operator()(const std::string*) const { return "TEXT"; }
    const char* operator()(const bool*) const { return "BOOL"; }
    const char* operator()(const float*) const { return "X"; }
    const char* operator()(const double*) const { return "X"; }
    const char* operator()(const std::vector<std::string>*) const { return "TEXT..."; }
    const char* operator()(const std::vector<int>*) const { return "N..."; }
    const char* operator()(const void*) const { return "N"; }
  } visitor;
  return std::visit(visitor, target);
}

bool is_list(const Option::Destination& target) {
  return std::holds_alternative<std::vector<int>*>(target) || std::holds_alternative<std::vector<std::string>*>(target);
}

}  // namespace

const char* heading(OptionGroup group) {
  switch (group) {
    case OptionGroup::options:
      return "OPTIONS";
    case OptionGroup::data:
      return "DATA";
    case OptionGroup::network:
      return "NETWORK";
    case OptionGroup::training:
      return "TRAINING";
    case OptionGroup::run:
      return "RUN";
    case OptionGroup::ensemble:
      return "ENSEMBLE";
    case OptionGroup::machine:
      return "MACHINE";
    case OptionGroup::mlperf:
      return "MLPERF";
  }
  return "";
}

Config dashed(const Config& config) {
  Config all;
  for (const auto& [name, value] : config) all["--" + name] = value;
  return all;
}

Subcommand::Subcommand() : own_(std::make_unique<CLI::App>()), app_(own_.get()) {}

Subcommand::Subcommand(CLI::App& parent, const std::string& name, const std::string& description)
    : app_(parent.add_subcommand(name, description)) {}

Subcommand::~Subcommand() = default;

Option& Subcommand::add(const std::string& names, Option::Destination target, const std::string& help,
                        const std::string& unit, bool shows_default) {
  Option& made = options_.emplace_back(Option(first_name(names), target, shows_default));
  made.option_ = app_->add_option(
      names,
      [&made](const CLI::results_t& words) {
        made.read(words);
        return true;
      },
      help);
  if (is_list(target)) made.option_->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  made.option_->type_name(unit.empty() ? default_unit(target) : unit);
  if (shows_default) made.option_->default_str(made.text());
  made.option_->group(heading(group_));
  return made;
}

Option& Subcommand::flag(const std::string& name, bool& target, const std::string& help) {
  Option& made = options_.emplace_back(Option(first_name(name), &target, true));
  // --help shows first the form that changes the default.
  const std::string off = "--no-" + made.name_;
  made.option_ = app_->add_flag(target ? "!" + off + "," + name : name + ",!" + off, target, help)
                     ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  made.option_->group(heading(group_));
  return made;
}

void Subcommand::positional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                            const std::string& unit) {
  app_->add_option(name, target, help)->type_name(unit);
  positional_.push_back(&target);
}

void Subcommand::footer(const std::string& text) { app_->footer(text); }

Option& Subcommand::find(const std::string& name) {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name_ == name; });
  KEELSON_EXPECT(found != options_.end());
  return *found;
}

bool Subcommand::given(const std::string& name) const {
  return overridden_.contains(name) ||
         std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.name_ == name && o.given(); });
}

std::vector<std::pair<std::string, std::string>> Subcommand::outputs() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Option& o : options_)
    if (o.output_)
      for (const auto& file : o.given_texts()) all.emplace_back("--" + o.name_, file);
  return all;
}

std::vector<std::string> Subcommand::inputs() const {
  std::vector<std::string> all;
  for (const Option& o : options_)
    if (!o.output_) std::ranges::copy(o.given_texts(), std::back_inserter(all));
  for (const auto* words : positional_) all.insert(all.end(), words->begin(), words->end());
  return all;
}

Config Subcommand::values() const {
  Config all;
  for (const Option& o : options_)
    if (o.stored_.value_or(false)) all[o.name_] = o.text();
  return all;
}

std::vector<std::string> Subcommand::undecided() const {
  std::vector<std::string> names;
  for (const Option& o : options_)
    if (!o.stored_) names.push_back(o.name_);
  return names;
}

std::vector<std::string> Subcommand::changes(const Config& config) const {
  std::vector<std::string> all;
  for (const Option& o : options_) {
    const auto before = config.find(o.name_);
    const bool comparable = o.stored_.value_or(false) && !o.differs_;  // paths are stored in another form
    if (!o.given() || !comparable || before == config.end() || before->second == o.text()) continue;
    const auto was = before->second.empty() ? "not given" : before->second;
    all.push_back(fmt::format("--{} {} (was {})", o.name_, o.text(), was));
  }
  return all;
}

Config Subcommand::common_values() const {
  Config all;
  for (const Option& o : options_)
    if (!o.differs_) all[o.name_] = o.text();
  return all;
}

void Subcommand::fill(const Config& config, const std::string& source) {
  std::set<std::string> replaced;
  for (const auto& [other, by] : replaced_by_)
    if (given(by)) replaced.insert(other);
  for (Option& o : options_) {
    const auto found = config.find(o.name_);
    if (!o.stored_.value_or(false) || replaced.contains(o.name_) || given(o.name_) || found == config.end() ||
        found->second.empty())
      continue;
    set(o, found->second, source);
  }
}

void Subcommand::set(Option& o, const std::string& text, const std::string& source) {
  try {
    o.read({text});
  } catch (const InputError& error) {
    refuse("{}: {}", source, error.what());
  }
  o.filled_ = true;
}

void Subcommand::override_with(const Config& config, const std::string& source) {
  for (Option& o : options_) o.filled_ = false;
  overridden_ = config;
  for (const auto& [name, text] : config) set(find(name), text, source);
}

std::vector<std::string> Subcommand::member_options() const {
  std::vector<std::string> names;
  for (const Option& o : options_)
    if (o.stored_.value_or(false) && !o.same_ && !o.differs_) names.push_back(o.name_);
  return names;
}

void Subcommand::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  try {
    app_->parse(reversed);
  } catch (const CLI::Error& error) {
    refuse("{}", error.what());
  }
}

}  // namespace keelson::app
