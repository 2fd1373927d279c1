#pragma once

#include <filesystem>

namespace keelson {

/// The folder for what can be made again: ${KEELSON_CACHE}, else ${XDG_CACHE_HOME}/keelson, else ~/.cache/keelson;
/// empty where none of them is set.
std::filesystem::path cache_folder();

}  // namespace keelson
