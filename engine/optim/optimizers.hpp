#pragma once

#include <memory>

#include "engine/base/type_list.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/kfac.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/lion.hpp"
#include "engine/optim/muon.hpp"
#include "engine/optim/schedule_free.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/optim/shampoo.hpp"

namespace keelson {

/// The one list of all optimizers. Programs (--optimizer), Python (keelson.optim) and the tests take their optimizers
/// from this list. Each class has a `name`, that of its class in Python, and a `summary`, its text there. Programs know
/// the name in small letters.
using Optimizers = TypeList<Sgd, Adam, AdamW, AdamWScheduleFree, Lion, Lars, Lamb, Muon, Shampoo, Kfac>;

/// The names in small letters, in the order of the list: "sgd", ...
std::vector<std::string> optimizer_names();

/// An optimizer with its default settings. Throws InputError, naming all optimizers, for another name than
/// optimizer_names() has.
std::shared_ptr<Optimizer> make_optimizer(const std::string& name);

/// Sets members of an optimizer by text, "beta2=0.95,epsilon=1e-6"; an empty text sets none. Throws InputError, naming
/// the settings that the optimizer has, for any other name, and for texts that are no values of a setting.
void read_settings(Optimizer& optimizer, const std::string& text);

}  // namespace keelson
