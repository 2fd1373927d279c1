#pragma once

#include <functional>

#include "apps/common/app.hpp"

namespace keelson::app {

/// Runs `work` on the first ranks of the job, while the last `spares` ranks wait. When a rank dies, `work` ends on all
/// ranks with RanksLost. Then the ranks that ran `work` before, and as many spare ranks as are missing, call `work`
/// again (as in Reinit: Laguna et al., "Evaluating and extending user-level fault tolerance in MPI applications",
/// 2016). The Launch that `work` gets has the ranks that train, and Launch::restart. Without spares, `work` gets the
/// job itself.
///
/// Throws InputError if MPI does not survive losses, or if fewer than two ranks would train. Throws Error on all ranks
/// when more ranks have died than there were spares. Collective.
ExitCode with_spares(Launch& launch, int spares, const std::function<ExitCode(Launch&)>& work);

}  // namespace keelson::app
