#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace keelson {

/// This machine's name.
std::string host_name();

/// Which process on which machine, in a way that holds beyond its end: numbers of processes are used again.
struct Process {
  std::string host;          ///< name of the machine
  std::string boot;          ///< of the machine: another one each time it starts; empty where Linux does not tell
  std::string numbering;     ///< the process number belongs to (a container may have its own)
  std::int64_t number = 0;   ///< of the process (pid)
  std::int64_t started = 0;  ///< in clock ticks since the machine started

  /// This process.
  static Process current();
  bool operator==(const Process&) const = default;
};

/// Whether a process is there.
enum class Life : std::uint8_t { runs, ended, unknown };

/// The nearest process above this one, on this machine, whose program has one of these names; 0: none.
std::int64_t find_ancestor(std::initializer_list<std::string_view> names);

/// Whether a process still runs. Unknown on another machine or in another container.
Life life_of(const Process& process);

}  // namespace keelson
