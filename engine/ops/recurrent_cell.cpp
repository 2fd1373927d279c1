#include "engine/ops/recurrent_cell.hpp"

namespace keelson::ops {

std::string_view to_string(CellKind k) { return k == CellKind::lstm ? "lstm" : "gru"; }

}  // namespace keelson::ops
