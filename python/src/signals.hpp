#pragma once

#include <optional>
#include <utility>

#include "objects.hpp"

namespace keelson::python {

/// Exceptions of Python that end long work of C++ at its next good place, and are raised when the work has ended: those
/// of signals' handlers (Ctrl-C), and those of functions of Python that the work calls. The first one is kept. Called
/// without the GIL, in the thread that works.
class Signals {
 public:
  enum class Kept : std::uint8_t { all, interrupts };

  /// Runs the handlers of signals that have come. Whether the work is to end.
  bool interrupted() {
    if (is_ending()) return true;
    const nb::gil_scoped_acquire acquire;
    if (!raised_ && PyErr_CheckSignals() != 0) raised_.emplace();
    return raised();
  }
  /// Calls a function of Python, and keeps an exception of these kinds: all, or KeyboardInterrupt alone, which a
  /// signal's handler may raise at any place. Others pass through. Returns whether the function raised nothing.
  template <class Work>
  bool call(Kept kept, const Work& work) {
    try {
      work();
      return true;
    } catch (nb::python_error& error) {
      const nb::gil_scoped_acquire acquire;
      if (kept == Kept::interrupts && !error.matches(PyExc_KeyboardInterrupt)) throw;
      if (!raised_) raised_.emplace(std::move(error));
      return false;
    }
  }
  bool raised() const { return raised_.has_value(); }  ///< whether one is kept
  /// Throws the exception that is kept, or KeyboardInterrupt: another rank has one then.
  [[noreturn]] void raise() {
    const nb::gil_scoped_acquire acquire;
    if (raised_) {
      nb::python_error mine = std::move(*raised_);
      raised_.reset();
      throw mine;
    }
    PyErr_SetString(PyExc_KeyboardInterrupt, "another rank was interrupted");
    throw nb::python_error();
  }

 private:
  std::optional<nb::python_error> raised_;
};

}  // namespace keelson::python
