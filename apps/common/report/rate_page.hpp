#pragma once

#include <string>

#include "engine/train/rate_range.hpp"

namespace keelson::app {

/// One HTML page with the losses of a search for learning rates, made as the reports of runs are.
std::string render_rates(const RateRange& range, const std::string& title, const std::string& subtitle);

/// All points as CSV with a line of names: "step,learning_rate,loss,smoothed_loss".
std::string rates_csv(const RateRange& range);

/// For people: what the search suggests, one line for each rate, without a newline at the end.
std::string describe_rates(const RateRange& range);

}  // namespace keelson::app
