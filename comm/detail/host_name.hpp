#pragma once

#include <string>

namespace keelson::comm::detail {

/// This machine's name.
std::string host_name();

}  // namespace keelson::comm::detail
