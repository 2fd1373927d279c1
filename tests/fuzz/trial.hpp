#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// One run of a program's command line on a file, in a process of its own.
namespace keelson::fuzz {

struct Trial {
  std::string program;                 ///< "keelson-lm", or a reader of tests/fuzz/readers.hpp
  std::vector<std::string> arguments;  ///< in the shell's order
};

struct Ending {
  enum class Kind : std::uint8_t { accepted, refused, failed, bug };
  Kind kind = Kind::bug;
  std::string why;  ///< of a bug
};

/// Runs the program's main function, without its start-up, in a child process, for at most `seconds`. A bug is a
/// signal, a hang, an exit code other than 0, 1 and 2, an error without a message of ours, or a number that is not
/// finite in what a run that ended well says (metrics.jsonl in `folder`, JSON on its output).
Ending run(const Trial& trial, const std::filesystem::path& folder, double seconds);

std::string content_of(const std::filesystem::path& file);

/// The command that does it again.
std::string to_string(const Trial& trial);

}  // namespace keelson::fuzz
