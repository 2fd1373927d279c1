#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "apps/common/app.hpp"
#include "apps/common/config_file.hpp"
#include "apps/common/suggest.hpp"

namespace keelson::app {
namespace {

/// The value of --config among the arguments, or nothing.
std::string config_of(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") break;
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(9);
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

/// CLI11's sentences, made to end alike.
std::string tidy(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

struct CommandLine::Impl {
  AppInfo info;
  CLI::App root;
  std::map<std::string, std::function<ExitCode(Session&)>> runs;
  std::vector<std::string> verbs;
  std::string config;  // only shown in --help; read before the rest is parsed

  std::string version() const { return info.name + " " KEELSON_VERSION "\n"; }

  [[noreturn]] void refuse_rest(const CLI::App& app, const std::vector<std::string>& rest) const {
    const bool verb = &app != &root;
    const std::string name = verb ? info.name + " " + app.get_name() : info.name;
    const auto option = std::find_if(rest.begin(), rest.end(), [](const auto& a) { return a.starts_with("-"); });
    if (option != rest.end()) {
      const std::string asked = option->substr(0, option->find('='));
      refuse("unknown option '{}'{}; `{} --help` lists all options", asked, did_you_mean(asked, long_names(app)), name);
    }
    if (verb) refuse("'{}' does not belong to an option; `{} --help` lists all options", rest.front(), name);
    refuse("unknown verb '{}'{}; the verbs are: {}", rest.front(), did_you_mean(rest.front(), verbs),
           CLI::detail::join(verbs, ", "));
  }
};

CommandLine::CommandLine(const AppInfo& info) : impl_(std::make_unique<Impl>()) {
  impl_->info = info;
  CLI::App& root = impl_->root;
  root.name(info.name);
  root.description(info.description);
  root.set_help_flag("-h,--help", "Show this help and exit");
  root.set_version_flag("--version", impl_->version(), "Show the version and exit");
  root.allow_extras();
  root.footer("`" + info.name + " VERB --help` shows the options of a verb.");
}

CommandLine::~CommandLine() = default;

CLI::App& CommandLine::verb(const std::string& name, const std::string& description,
                            std::function<ExitCode(Session&)> run) {
  CLI::App* verb = impl_->root.add_subcommand(name, description);
  verb->set_help_flag("-h,--help", "Show this help and exit");
  verb->set_version_flag("--version", impl_->version(), "Show the version and exit");
  verb->add_option("--config", impl_->config, "Read options from this TOML file; the command line wins over it")
      ->type_name("FILE");
  verb->allow_extras();
  impl_->runs[name] = std::move(run);
  impl_->verbs.push_back(name);
  return *verb;
}

CommandLine::Request CommandLine::parse(const std::vector<std::string>& arguments) {
  CLI::App& root = impl_->root;
  std::vector<std::string> all = arguments;
  const auto name = std::find_if(all.begin(), all.end(), [](const auto& a) { return !a.starts_with("-"); });
  const auto named =
      root.get_subcommands([&](const CLI::App* v) { return name != all.end() && v->get_name() == *name; });
  CLI::App* verb = named.empty() ? nullptr : named.front();
  if (verb != nullptr) {
    if (const std::string config = config_of(arguments); !config.empty()) {
      const auto more = arguments_from_config(config, *verb, impl_->verbs, arguments);
      all.insert(name + 1, more.begin(), more.end());
    }
  }

  try {
    std::reverse(all.begin(), all.end());  // as CLI11 wants them
    root.parse(all);
  } catch (const CLI::CallForHelp&) {
    return {{}, verb ? verb->help(impl_->info.name) : root.help()};
  } catch (const CLI::CallForVersion&) {
    return {{}, impl_->version()};
  } catch (const CLI::ParseError& error) {
    // A misspelt option explains a missing value better than CLI11's complaint about it does.
    const CLI::App& app = verb ? *verb : root;
    if (const auto rest = app.remaining(); !rest.empty()) impl_->refuse_rest(app, rest);
    refuse("{}; `{}{} --help` lists all options", tidy(error.what()), impl_->info.name,
           verb ? " " + verb->get_name() : "");
  }
  const CLI::App& app = verb ? *verb : root;
  if (const auto rest = app.remaining(); !rest.empty()) impl_->refuse_rest(app, rest);
  if (const auto rest = root.remaining(true); !rest.empty()) impl_->refuse_rest(root, rest);
  if (verb == nullptr) {
    refuse("a verb is expected: {}; `{} --help` tells what they do", CLI::detail::join(impl_->verbs, ", "),
           impl_->info.name);
  }
  return {impl_->runs.at(verb->get_name()), ""};
}

}  // namespace keelson::app
