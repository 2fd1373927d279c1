#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace keelson {

/// This machine's name.
std::string host_name();

/// Identifies a process on a machine, also after its end: the system uses the numbers of processes again.
struct Process {
  std::string host;          ///< name of the machine
  std::string boot;          ///< identifies the machine's boot; empty if Linux does not say
  std::string numbering;     ///< the namespace of the process number (a container may have its own)
  std::int64_t number = 0;   ///< of the process (pid)
  std::int64_t started = 0;  ///< in clock ticks since the machine started

  /// This process.
  static Process current();
  bool operator==(const Process&) const = default;
};

/// Whether a process exists.
enum class Life : std::uint8_t { runs, ended, unknown };

/// The nearest ancestor of this process, on this machine, whose program has one of these names; 0: none.
std::int64_t find_ancestor(std::initializer_list<std::string_view> names);

/// Whether a process still runs. Unknown on another machine or in another container.
Life life_of(const Process& process);

}  // namespace keelson
