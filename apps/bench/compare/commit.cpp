#include "commit.hpp"

#include "apps/bench/compare/measurement.hpp"

namespace keelson::bench::comparison {

const char* source_commit() { return keelson_commit; }

}  // namespace keelson::bench::comparison
