#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// Names of the backends in this build, in the order in which a context asks them: {"onednn", "kokkos"} on CPUs,
/// {"cuda", "kokkos"} on GPUs.
std::vector<std::string> available();

/// Names of the devices that this build computes on: {"cpu"} or {"cuda"}. A build knows one kind, for which all its
/// kernels were compiled.
std::vector<std::string> devices();

/// Whether a context can be made on this machine; if not, `why` says what was found and what to try. Programs ask it
/// for what they can do without a device; it is no error to have none.
bool device_available(std::string* why = nullptr);

/// Those in `wish`, a comma-separated list of names such as "kokkos"; if that is empty those in the variable
/// KEELSON_BACKEND; else available(). Throws InputError for names that this build does not know, listing those it does.
std::vector<std::string> selected(const std::string& wish = "");

/// Whether `backend` (one of available()) computes in `type` with instructions that this machine's processor has for
/// that. Where the answer is no the backend may still convert such values, but makes hardly any op in that type.
bool computes_in(const std::string& backend, DType type);

/// A context for `device` (one of devices(); empty or "auto": the one that this build knows) that asks the backends
/// selected(backends_wanted), in that order. Throws InputError for a device that this build or this machine does not
/// have.
std::unique_ptr<Context> make_context(const std::string& device = "", const std::string& backends_wanted = "");

/// Starts Kokkos with `threads` threads unless the host program has done so, and ends it if it was started here. 0: all
/// that this process may use. Call after binding the process to its cores, before the first context.
///
/// In a build for GPUs it takes GPU number `local_rank` (this process' number among those of its node) modulo the
/// number of GPUs that this process sees. Where there is no GPU or no driver nothing is started, and programs can still
/// do what needs no context.
class Runtime {
 public:
  /// `threads` 0: all that this process may use.
  explicit Runtime(int threads = 0, int local_rank = 0);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  bool owns_ = false;
};

}  // namespace keelson::backends
