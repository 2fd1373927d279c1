#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace keelson {

/// Process exit codes of every program (design: 0 done, 1 failure, 2 bad usage or input, 75 interrupted, checkpoint
/// written).
enum class ExitCode : int { done = 0, failure = 1, bad_input = 2, interrupted = 75 };

/// A failure that is not the user's doing: a full disk, a lost rank, a library that reports an error.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks of a group have died, or other ranks of the group have said so: calls of the group can no longer end. Where
/// Communicator::survives_losses(), a group of the other ranks can be made.
class RanksLost : public Error {
 public:
  using Error::Error;
};

/// A device has no room for what was asked of it. Programs treat it as bad input: exit code 2.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Something the user gave cannot be used. The message says what was found, what was expected and what to try.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with the text, in the format of fmt.
template <class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw Error(fmt::format(text, std::forward<A>(args)...));
}

/// Throws InputError with the text, in the format of fmt.
template <class... A>
[[noreturn]] void refuse(fmt::format_string<A...> text, A&&... args) {
  throw InputError(fmt::format(text, std::forward<A>(args)...));
}

/// A broken promise between our own functions: always checked, since none of these stand in inner loops.
#define KEELSON_EXPECT(condition)                                                                            \
  do {                                                                                                       \
    if (!(condition)) ::keelson::fail("{}:{}: internal error: expected {}", __FILE__, __LINE__, #condition); \
  } while (false)

}  // namespace keelson
