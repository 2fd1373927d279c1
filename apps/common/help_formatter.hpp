#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace keelson::app {

/// --help with the options in their groups (OptionGroup), the groups in the order of the enumeration.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  /// Without CLI11's mark of the flags that turn something off, "{false}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace keelson::app
