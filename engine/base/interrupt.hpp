#pragma once

#include <string>

namespace keelson {

/// The request of the user or the batch system to end this process soon: SIGTERM, SIGINT and SIGUSR1 set a flag that
/// the program reads between steps. A second SIGINT ends the process at once.
///
/// The flag belongs to this process: ranks that act on it must first agree, e.g. by allreduce(max) of signal_number().
class Interrupt {
 public:
  /// Installs handlers for the three signals; a second call has no effect. The first signal prints `notice` on stderr
  /// at once, since the program may react much later. The library itself never calls install().
  static void install(const std::string& notice = "");
  /// Restores the former handlers, and clears the flag.
  static void uninstall();

  /// Whether one of the signals has come.
  static bool requested() { return signal_number() != 0; }
  static int signal_number();  ///< the first signal that came; 0: none
  /// "SIGTERM" ...; empty for 0.
  static std::string signal_name(int number = signal_number());
};

}  // namespace keelson
