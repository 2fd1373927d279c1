#include "engine/ops/primitive.hpp"

#include <iterator>

namespace keelson::ops {

std::string_view to_string(Verb v) {
  constexpr std::string_view names[] = {"forward", "backward_data", "backward_weights"};
  return names[static_cast<int>(v)];
}

std::string_view to_string(Role r) {
  constexpr std::string_view names[] = {"src",          "weights",        "bias",       "dst",        "diff_src",
                                        "diff_weights", "diff_bias",      "diff_dst",   "scratch",    "workspace",
                                        "step_params",  "loss_scale",     "saved",      "ids",        "rows",
                                        "target",       "sample_weight",  "importance", "loss",       "sample_loss",
                                        "sums",         "diff_sums",      "mean",       "variance",   "norms",
                                        "moment1",      "moment2",        "state",      "next_state", "gates",
                                        "diff_gates",   "diff_recurrent", "h_prev",     "table",      "channels",
                                        "samples",      "scale",          "shift",      "dst_bias",   "none"};
  static_assert(std::size(names) == static_cast<std::size_t>(Role::none) + 1);
  return names[static_cast<int>(r)];
}

}  // namespace keelson::ops
