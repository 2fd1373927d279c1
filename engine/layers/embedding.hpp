#pragma once

#include <memory>
#include <string>

#include "engine/ops/embedding.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

/// Emits the gradient of a parameter of which the forward pass has looked up the rows `ids`, by `op`. `diff_dst`: the
/// gradient of the rows that were found. The gradient stays a list of rows if the plan has a use for that; else its
/// rows are added to a dense gradient. The parameter is a table, plain, or a vector, whose elements are the rows.
void gradient_of_rows(BackwardBuilder& b, const std::string& parameter, const std::shared_ptr<ops::Embedding>& op,
                      BufferId ids, BufferId diff_dst);

}  // namespace keelson
