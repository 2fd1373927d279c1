#include "engine/plan/updates.hpp"

#include "engine/plan/update_builder.hpp"

namespace keelson {

void append_updates(CompileState& build, const Optimizer& optimizer, std::int64_t gradients) {
  UpdateBuilder builder(build, gradients, optimizer.state_names());
  if (build.checks_gradients) builder.check_gradients();
  optimizer.append_updates(builder);
}

}  // namespace keelson
