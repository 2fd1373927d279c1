#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/onnx/model.hpp"

namespace keelson::onnx {

/// The largest message that Protocol Buffers can read, in bytes.
inline constexpr std::int64_t largest_message = 0x7fffffff;

/// Writes the model as one file. If that file would have more than `largest_file` bytes, writes `file` and `file`.data
/// ("external data"), which must stay in the same folder: the second file then holds the weights of more than 1 KiB.
/// Returns the path of the second file; empty: there is none. Each file replaces an older one atomically, the data
/// first. At most one initializer is in memory at a time. Throws Error if a file cannot be written, and InputError as
/// AtomicFile does. A device or a pipe is written directly; it cannot have a second file.
std::filesystem::path write(const Model& model, const std::filesystem::path& file,
                            std::int64_t largest_file = largest_message);

}  // namespace keelson::onnx
