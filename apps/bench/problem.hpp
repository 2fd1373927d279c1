#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/ops/op_list.hpp"

namespace keelson::bench {

/// One op with its parameters and shapes, f32.
struct Problem {
  std::string text;  ///< as the user gave it
  std::variant<ops::ConvDesc, ops::TransposedConvDesc, ops::DenseDesc, ops::PoolDesc, ops::EltwiseDesc,
               ops::ProductDesc, ops::GroupNormDesc, ops::AttentionDesc, ops::UpdateDesc>
      desc;
};

/// Parses one line: an op, then key=value words in any order, as problem_help() lists them. Conv, transposed_conv and
/// dense choose their layouts. Throws InputError; the message names the op, what was found and what was expected.
Problem parse_problem(const std::string& line);

/// The help text: ops with their keys and defaults.
const char* problem_help();

/// Reads a file with one problem per line; empty lines, and text after a '#', are ignored. Throws InputError for a
/// wrong line (the message begins with "FILE:LINE: "), and for a file that cannot be read or has no problem.
std::vector<Problem> read_problems(const std::string& file);

}  // namespace keelson::bench
