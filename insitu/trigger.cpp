#include "insitu/trigger.hpp"

#include <sstream>

#include "engine/base/error.hpp"

namespace keelson::insitu {

std::vector<std::string> words(const char* text) {
  std::vector<std::string> all;
  std::istringstream in(text ? text : "");
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

Trigger make_trigger(const keelson_insitu_trigger_desc& desc) {
  if (!desc.name || !*desc.name) refuse("a trigger has no name. Expected a text such as \"blast\" in `name`");
  const std::string name = desc.name;
  if (!desc.model)
    refuse("trigger '{}' has no model. Expected the name of the model whose scores decide, in `model`", name);
  if (!(desc.off <= desc.on))
    refuse("trigger '{}' turns on at {} and off below {}. Expected off <= on", name, desc.on, desc.off);
  if (desc.every < 0)
    refuse("trigger '{}': every is {}. Expected at least 1 call, or 0: only when it turns on", name, desc.every);
  Trigger t{.name = name,
            .model = desc.model,
            .path = desc.path ? desc.path : "",
            .fields = words(desc.fields),
            .state = {desc.on, desc.off, desc.every}};
  if (!t.fields.empty() && t.path.empty())
    refuse("trigger '{}' writes fields, but has no path. Expected the beginning of the files' names in `path`", name);
  return t;
}

}  // namespace keelson::insitu
