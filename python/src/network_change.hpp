#pragma once

#include <nanobind/stl/variant.h>

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "arrays.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/train/checkpoint/run_state.hpp"
#include "objects.hpp"

namespace keelson::python {

/// TrainerOptions::change_network of a function of Python, which gets the state and the parameters and returns None or
/// a NetworkChange of Python. Called with the GIL; what it returns is called and destroyed without the GIL.
std::function<std::optional<NetworkChange>(const RunState&, const Parameters&)> change_of(
    nb::handle function, std::shared_ptr<NetworkParameters> parameters);

}  // namespace keelson::python
