#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "apps/common/app.hpp"
#include "apps/common/config_file.hpp"
#include "apps/common/help_formatter.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/suggest.hpp"
#include "engine/base/atomic_file.hpp"

namespace keelson::app {
namespace {

/// The value of --config among the arguments; nothing if --config is not given.
std::optional<std::string> config_of(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") break;
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(9);
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return std::nullopt;
}

/// A message of CLI11 without the full stop and white space at its end.
std::string tidy(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

struct CommandLine::Impl {
  AppInfo info;
  CLI::App root;
  struct Entry {
    Entry(CLI::App& root, const std::string& subcommand_name, const std::string& description,
          std::function<ExitCode(Launch&)> subcommand_run)
        : subcommand(root, subcommand_name, description), name(subcommand_name), run(std::move(subcommand_run)) {}
    Subcommand subcommand;
    std::string name;
    std::function<ExitCode(Launch&)> run;
  };
  std::deque<Entry> subcommands;
  std::string config;  // only shown in --help; read before the rest is parsed

  std::string version() const { return info.name + " " KEELSON_VERSION "\n"; }

  Entry* find(const std::string& name) {
    const auto found =
        std::find_if(subcommands.begin(), subcommands.end(), [&](const Entry& e) { return e.name == name; });
    return found == subcommands.end() ? nullptr : &*found;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Entry& e : subcommands) all.push_back(e.name);
    return all;
  }

  [[noreturn]] void refuse_rest(const CLI::App& app, const std::vector<std::string>& rest) const {
    const bool subcommand = &app != &root;
    const std::string name = subcommand ? info.name + " " + app.get_name() : info.name;
    const auto option = std::find_if(rest.begin(), rest.end(), [](const auto& a) { return a.starts_with("-"); });
    if (option != rest.end()) {
      const std::string asked = option->substr(0, option->find('='));
      refuse("unknown option '{}'{}; `{} --help` lists all options", asked, did_you_mean(asked, long_names(app)), name);
    }
    if (subcommand) refuse("'{}' does not belong to an option; `{} --help` lists all options", rest.front(), name);
    refuse("unknown subcommand '{}'{}; the subcommands are: {}", rest.front(), did_you_mean(rest.front(), names()),
           CLI::detail::join(names(), ", "));
  }
};

CommandLine::CommandLine(const AppInfo& info) : impl_(std::make_unique<Impl>()) {
  impl_->info = info;
  CLI::App& root = impl_->root;
  root.formatter(std::make_shared<HelpFormatter>());
  root.name(info.name);
  root.description(info.description);
  root.set_help_flag("-h,--help", "Show this help and exit");
  root.set_version_flag("--version", impl_->version(), "Show the version and exit");
  root.allow_extras();
  root.footer("`" + info.name + " VERB --help` shows the options of a subcommand.");
}

CommandLine::~CommandLine() = default;

Subcommand& CommandLine::subcommand(const std::string& name, const std::string& description,
                                    std::function<ExitCode(Launch&)> run) {
  auto& entry = impl_->subcommands.emplace_back(impl_->root, name, description, std::move(run));
  CLI::App& subcommand = entry.subcommand.cli();
  subcommand.set_help_flag("-h,--help", "Show this help and exit");
  subcommand.set_version_flag("--version", impl_->version(), "Show the version and exit");
  subcommand.add_option("--config", impl_->config, "Read options from this TOML file; the command line wins over it")
      ->type_name("FILE");
  subcommand.allow_extras();
  return entry.subcommand;
}

CommandLine::Request CommandLine::parse(const std::vector<std::string>& arguments) {
  CLI::App& root = impl_->root;
  std::vector<std::string> all = arguments;
  const auto name = std::find_if(all.begin(), all.end(), [](const auto& a) { return !a.starts_with("-"); });
  Impl::Entry* entry = name != all.end() ? impl_->find(*name) : nullptr;
  if (entry != nullptr) {
    if (const auto config = config_of(arguments)) {
      protect_input(*config);
      const auto more = arguments_from_config(*config, entry->subcommand.cli(), impl_->names(), arguments);
      all.insert(name + 1, more.begin(), more.end());
    }
  }
  const CLI::App& app = entry ? entry->subcommand.cli() : root;
  const std::string program = impl_->info.name + (entry ? " " + entry->name : "");

  try {
    std::reverse(all.begin(), all.end());  // CLI11 expects the last argument first
    root.parse(all);
  } catch (const CLI::CallForHelp&) {
    return {{}, entry ? app.help(impl_->info.name) : root.help(), "", nullptr};
  } catch (const CLI::CallForVersion&) {
    return {{}, impl_->version(), "", nullptr};
  } catch (const CLI::ParseError& error) {
    // If an option is misspelt, say so: this explains a missing value better than CLI11's message.
    if (const auto rest = app.remaining(); !rest.empty()) impl_->refuse_rest(app, rest);
    refuse("{}; `{} --help` lists all options", tidy(error.what()), program);
  } catch (const InputError& error) {
    refuse("{}; `{} --help` lists all options", error.what(), program);
  }
  if (const auto rest = app.remaining(); !rest.empty()) impl_->refuse_rest(app, rest);
  if (const auto rest = root.remaining(true); !rest.empty()) impl_->refuse_rest(root, rest);
  if (entry == nullptr) {
    refuse("a subcommand is expected: {}; `{} --help` tells what they do", CLI::detail::join(impl_->names(), ", "),
           impl_->info.name);
  }
  return {entry->run, "", entry->name, &entry->subcommand};
}

}  // namespace keelson::app
