#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/placement.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/error.hpp"

/// The parts that all programs share: main function, command line, reports of errors.
namespace keelson::app {

class Subcommand;
struct Restart;
struct Member;

struct AppInfo {
  std::string name;         ///< "keelson-cosmoflow"
  std::string description;  ///< one sentence, for --help
};

/// How the program was launched: what run_app has set up when a subcommand runs.
struct Launch {
  Communicator& world;
  const comm::Placement& placement;
  std::string program;                 ///< "keelson-cosmoflow"
  std::vector<std::string> arguments;  ///< as given, without the program's name
  std::string machine;                 ///< "2 ranks on 1 node, 1 thread each (2 of 2 cores)"
  bool on_gpu = false;                 ///< the rank computes on a GPU
  Restart* restart = nullptr;          ///< set if spare ranks replace ranks that die (apps/common/restart.hpp)
  Member* member = nullptr;            ///< set if `world` trains a member of an ensemble (apps/common/members.hpp)
};

/// The subcommands of a program.
class CommandLine {
 public:
  explicit CommandLine(const AppInfo& info);
  ~CommandLine();

  /// Adds the subcommand `keelson-x name --options`. Declare the options of the subcommand on the result
  /// (apps/common/subcommand.hpp) and bind them to variables that live as long as `run`. Every subcommand has --help,
  /// --version and --config.
  Subcommand& subcommand(const std::string& name, const std::string& description, std::function<ExitCode(Launch&)> run);

  /// The result of parse().
  struct Request {
    std::function<ExitCode(Launch&)> run;  ///< empty: print `text` (help or version) on stdout and exit with code 0
    std::string text;
    std::string subcommand;               ///< name of the subcommand
    const Subcommand* options = nullptr;  ///< lives as long as this CommandLine
  };
  /// Reads the arguments (without the program's name) and the --config file; the command line wins over the file.
  /// Throws InputError.
  Request parse(const std::vector<std::string>& arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The main function of a program:
///
///   int main(int argc, char** argv) {
///     return keelson::app::run_app(argc, argv, {"keelson-x", "Does x."}, [](auto& line) { define_train(line); });
///   }
///
/// Reads the command line, starts MPI, places the process on its cores, starts the backends, runs the subcommand, and
/// returns the exit code: the subcommand's; 2 after InputError; 1 after any other exception. What all ranks throw alike
/// is printed once, what some ranks throw is printed with their names; ranks that still work are then ended with the
/// same exit code, after a grace of KEELSON_GRACE seconds (2). SIGTERM, SIGINT and SIGUSR1 end the program at once with
/// exit code 75, until a subcommand that can end well when asked to calls Interrupt::install().
int run_app(int argc, char** argv, const AppInfo& info, const std::function<void(CommandLine&)>& define);

}  // namespace keelson::app
