#pragma once

#include <string>

namespace keelson {

/// The wish of the user or the batch system that this process ends soon: SIGTERM, SIGINT and SIGUSR1 set a flag that
/// the program asks for between steps. A second SIGINT ends the process at once.
///
/// The flag belongs to this process: ranks that act on it must first agree, e.g. by allreduce(max) of signal_number().
class Interrupt {
 public:
  /// Takes the three signals over; again: no effect. The first that comes prints `notice` on stderr at once, which may
  /// be a while before the program acts on it. The library never calls this itself.
  static void install(const std::string& notice = "");
  /// Gives the signals back to whoever had them before, and clears the flag.
  static void uninstall();

  /// Whether one of the signals has come.
  static bool requested() { return signal_number() != 0; }
  static int signal_number();  ///< of the first signal that came; 0: none
  /// "SIGTERM" ...; empty for 0.
  static std::string signal_name(int number = signal_number());
};

}  // namespace keelson
