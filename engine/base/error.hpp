#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace keelson {

/// Process exit codes of every program (design: 0 done, 1 failure, 2 bad usage or input, 75 interrupted, checkpoint
/// written).
enum class ExitCode : int { done = 0, failure = 1, bad_input = 2, interrupted = 75 };

/// A failure that the user did not cause: a full disk, a lost rank, an error of a library.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks of a group have died, or other ranks of the group have reported this: calls of the group can no longer end. If
/// Communicator::survives_losses(), the other ranks can make a new group.
class RanksLost : public Error {
 public:
  using Error::Error;
};

/// A device does not have enough free memory. Programs treat this as bad input: exit code 2.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// An input or option of the user cannot be used. The message says what was found, what was expected and what to try.
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

/// Checks a condition between our own functions. It is always checked, since none of these checks is in an inner loop.
#define KEELSON_EXPECT(condition)                                                                            \
  do {                                                                                                       \
    if (!(condition)) ::keelson::fail("{}:{}: internal error: expected {}", __FILE__, __LINE__, #condition); \
  } while (false)

}  // namespace keelson
