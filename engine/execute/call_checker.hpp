#pragma once

#include <cstddef>
#include <vector>

#include "engine/execute/bindings.hpp"

namespace keelson {

/// Whether the environment variable KEELSON_CHECK is 1. Throws InputError for values other than 0, 1 and empty.
bool checks_calls();

/// Runs computations one by one and checks that each call treats its operands as its primitive declares (ops::Access).
/// Before a call, memory that is written or scratch is filled with NaN. After the call, memory that is only read must
/// have the same bytes as before, and every written element of a floating-point type must have another value than the
/// fill. Operands that share memory (in place) are not checked. Checks are slow: they copy all operands to the host,
/// twice.
class CallChecker {
 public:
  /// Both must outlive the checker.
  CallChecker(const Program& program, Device& device) : program_(program), device_(device) {}
  /// Runs the call of index `call` in the program. `bound`: that call with its operands in memory. Throws Error, naming
  /// node, verb, op and operand, if a declaration is violated. Communications run without checks.
  void run(std::size_t call, const BoundCall& bound);

 private:
  /// The checks for the memory of one operand.
  struct Use {
    bool fills = false;        ///< filled before the call
    bool keeps = false;        ///< must have the same bytes after the call
    std::uint64_t before = 0;  ///< hash of the bytes
  };
  std::vector<Use> uses(const Call& call, const BoundCall& bound) const;
  std::vector<std::byte> bytes_of(const Tensor& t) const;
  void fill(const Tensor& t);
  [[noreturn]] void report(const Call& call, std::size_t operand, const std::string& what) const;

  const Program& program_;
  Device& device_;
};

}  // namespace keelson
