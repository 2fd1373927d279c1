#include "apps/common/options.hpp"

#include "engine/base/error.hpp"

namespace keelson::app {

CLI::Option* flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help) {
  KEELSON_EXPECT(name.starts_with("--"));
  // One name per meaning: the one that changes something stands first in --help.
  const std::string off = "--no-" + name.substr(2);
  return verb.add_flag(value ? "!" + off + "," + name : name + ",!" + off, value, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace keelson::app
