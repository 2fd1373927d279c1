#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/ops/op_list.hpp"

namespace keelson::bench {

/// One op with its parameters and shapes, f32.
struct Problem {
  std::string text;  ///< as given
  std::variant<ops::ConvDesc, ops::TransposedConvDesc, ops::DenseDesc, ops::PoolDesc, ops::EltwiseDesc, ops::UpdateDesc>
      desc;
};

/// One line: an op, then key=value words in any order, as problem_help() lists them. Conv, transposed_conv and dense
/// choose their layouts. Throws InputError that names the op, what was found and what was expected.
Problem parse_problem(const std::string& line);

/// The ops with their keys and defaults, for people.
const char* problem_help();

/// One problem per line; empty lines and what follows a '#' do not count. Throws InputError with "FILE:LINE: " in
/// front, and for a file that cannot be read or has no problem.
std::vector<Problem> read_problems(const std::string& file);

}  // namespace keelson::bench
