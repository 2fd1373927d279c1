#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace keelson {

/// For each index along one dimension of a new array: the index in the old array, or -1 for an index that is new.
/// Indices of the old array may occur several times, in any order, or not at all. No value: the dimension stays as it
/// was.
using IndexMap = std::optional<std::vector<std::int64_t>>;

/// Where the values and moments of one parameter of a new network come from.
struct ParameterMap {
  std::string from;               ///< name of the parameter in the old network; empty: the same name
  std::vector<IndexMap> indices;  ///< one per dimension; dimensions beyond the list stay as they were
  friend bool operator==(const ParameterMap&, const ParameterMap&) = default;
};

/// By the name of the parameter in the new network: "conv1/weights".
using ParameterMaps = std::map<std::string, ParameterMap>;

}  // namespace keelson
