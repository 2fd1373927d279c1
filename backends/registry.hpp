#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// Names of the backends in this build, in the order in which a CPU context asks them, e.g. {"onednn", "kokkos"}.
std::vector<std::string> available();

/// Those in `wish`, a comma-separated list of names such as "kokkos"; if that is empty those in the variable
/// KEELSON_BACKEND; else available(). Throws InputError for names that this build does not know, listing those it does.
std::vector<std::string> selected(const std::string& wish = "");

/// A context for `device` ("cpu"; "cuda" where built) that asks the backends selected(backends_wanted), in that order.
std::unique_ptr<Context> make_context(const std::string& device = "cpu", const std::string& backends_wanted = "");

/// Starts Kokkos with `threads` threads unless the host program has done so, and ends it if it was started here. 0: all
/// that this process may use. Call after binding the process to its cores, before the first context.
class Runtime {
 public:
  explicit Runtime(int threads = 0);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  bool owns_ = false;
};

}  // namespace keelson::backends
