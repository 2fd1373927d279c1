#include "engine/optim/optimizers.hpp"

#include <fmt/ranges.h>

#include <cctype>

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

}  // namespace keelson
