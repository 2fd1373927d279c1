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

}  // namespace keelson
