#pragma once

#include <string>
#include <vector>

namespace keelson::app {

/// The folder or file of a split under --data DIR: DIR/<name> for the first of `names` that exists. `option`: the
/// option with which the user can name the data instead. Throws InputError.
std::string split_path(const std::string& folder, const std::vector<std::string>& names, const std::string& option);

}  // namespace keelson::app
