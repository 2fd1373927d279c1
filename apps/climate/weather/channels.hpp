#pragma once

#include <array>

namespace keelson::climate {

/// The channels of a snapshot in the order of the public CAM5 data, in SI units: column water vapour (kg/m2), wind at
/// 850 hPa and in the lowest layer (m/s), humidity at the reference height (kg/kg), pressure at the surface and at sea
/// level (Pa), temperature at 200 and 500 hPa (K), precipitation rate (m/s), temperature of the surface and at the
/// reference height (K), geopotential height at 1000 and 200 hPa (m), height of the lowest layer (m).
enum Channel { TMQ, U850, V850, UBOT, VBOT, QREFHT, PS, PSL, T200, T500, PRECT, TS, TREFHT, Z1000, Z200, ZBOT };

inline constexpr int kChannels = 16;
inline constexpr std::array<const char*, kChannels> kChannelNames{"TMQ",    "U850",  "V850", "UBOT", "VBOT",  "QREFHT",
                                                                  "PS",     "PSL",   "T200", "T500", "PRECT", "TS",
                                                                  "TREFHT", "Z1000", "Z200", "ZBOT"};

/// The class of a pixel: the values of labels.
enum Class { kBackground, kCyclone, kRiver };

inline constexpr int kClasses = 3;
inline constexpr std::array<const char*, kClasses> kClassNames{"background", "tropical cyclone", "atmospheric river"};

}  // namespace keelson::climate
