#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/onnx/model.hpp"

namespace keelson::onnx {

/// Protocol Buffers reads no message of more bytes.
inline constexpr std::int64_t largest_message = 0x7fffffff;

/// Writes the model as one file, or, where that would have more than `largest_file` bytes, as `file` and `file`.data
/// ("external data"), which must stay side by side: the second one then holds the weights of more than 1 KiB. Returns
/// the path of the second file; empty: there is none. Each file replaces an older one of its name in one step, the data
/// first. At most one initializer is in memory at a time. Throws Error where a file cannot be written, and
/// InputError as AtomicFile does. A device or a pipe is written to as it is, and takes no second file.
std::filesystem::path write(const Model& model, const std::filesystem::path& file,
                            std::int64_t largest_file = largest_message);

}  // namespace keelson::onnx
