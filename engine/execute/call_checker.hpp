#pragma once

#include <cstddef>
#include <vector>

#include "engine/execute/bindings.hpp"

namespace keelson {

/// Whether the environment variable KEELSON_CHECK is 1. Throws InputError where it is neither 0 nor 1 nor empty.
bool checks_calls();

/// Runs computations one by one and holds each against what its primitive declares of the operands (ops::Access).
/// Before a call, memory that is written or scratch is filled with NaN. After the call, memory that is read must have
/// the same bytes, and written f32, f64, f16 and bf16 elements must have lost the fill. Operands that share memory, as
/// in place, are left alone. Slow: all operands are copied to the host, twice.
class CallChecker {
 public:
  CallChecker(const Program& program, Device& device) : program_(program), device_(device) {}
  /// Runs call number `call`. Throws Error that names node, verb, op and operand where a promise was broken.
  /// Communications are run as they are.
  void run(std::size_t call, const BoundCall& bound);

 private:
  /// What a call does with the memory of one operand.
  struct Use {
    bool fills = false;        ///< filled before the call
    bool keeps = false;        ///< has to have the same bytes after the call
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
