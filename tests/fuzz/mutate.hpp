#pragma once

#include <cstdint>
#include <random>
#include <string>

/// Damage as it happens to files: on disks, in transfers, by editors and by those who mean harm. A function of the
/// generator's state alone.
namespace keelson::fuzz {

using Random = std::mt19937_64;

/// Bits turned over, bytes and numbers replaced by extreme ones (sizes, offsets, NaN), parts cut out, moved or doubled,
/// the end missing. Half of the damage to a large file is near its beginning, where formats keep their structure.
std::string damage_bytes(std::string bytes, Random& random);

/// The same for text that a person writes: values, names and punctuation replaced by others.
std::string damage_text(std::string text, Random& random);

}  // namespace keelson::fuzz
