#include "engine/optim/optimizers.hpp"

#include <fmt/ranges.h>

#include <cctype>
#include <sstream>

#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"

namespace keelson {

namespace {

std::string small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for_each_type(Optimizers{}, [&]<class O>() { names.push_back(small_letters(O::name)); });
  return names;
}

std::shared_ptr<Optimizer> make_optimizer(const std::string& name) {
  std::shared_ptr<Optimizer> made;
  for_each_type(Optimizers{}, [&]<class O>() {
    if (small_letters(O::name) == name) made = std::make_shared<O>();
  });
  if (!made)
    refuse("there is no optimizer '{}'; expected one of {}", printable(name), fmt::join(optimizer_names(), ", "));
  return made;
}

void read_settings(Optimizer& optimizer, const std::string& text) {
  const auto settings = optimizer.settings();
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto sign = word.find('=');
    const auto found =
        std::ranges::find_if(settings, [&](const OptimizerSetting& s) { return s.name == word.substr(0, sign); });
    if (sign == std::string::npos || found == settings.end()) {
      std::vector<std::string_view> names;
      for (const OptimizerSetting& s : settings) names.push_back(s.name);
      refuse("'{}' is no setting of the optimizer ({}); expected NAME=VALUE, where NAME is one of {}", printable(word),
             optimizer.to_string(), fmt::join(names, ", "));
    }
    found->read(word.substr(sign + 1));
  }
}

}  // namespace keelson
