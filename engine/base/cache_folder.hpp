#pragma once

#include <filesystem>

namespace keelson {

/// The folder for files that the programs can make again: ${KEELSON_CACHE}, else ${XDG_CACHE_HOME}/keelson, else
/// ~/.cache/keelson; empty if none of these variables is set.
std::filesystem::path cache_folder();

}  // namespace keelson
