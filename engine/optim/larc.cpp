#include "engine/optim/larc.hpp"

#include <fmt/format.h>

namespace keelson {

void Larc::apply_to(ops::UpdateParams& p) const {
  p.larc = mode;
  p.larc_eta = eta;
  p.larc_floor = floor;
  p.larc_relative = relative;
}

std::vector<OptimizerSetting> Larc::settings() {
  return {{"larc", &mode}, {"larc_eta", &eta}, {"larc_floor", &floor}, {"larc_relative", &relative}};
}

std::string Larc::to_string() const {
  if (!needs_norms()) return "";
  return fmt::format(", larc {} {}", mode == ops::LarcMode::clip ? "clip" : "scale", eta);
}

}  // namespace keelson
