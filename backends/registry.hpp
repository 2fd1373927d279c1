#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// Names of the backends in this build, in the order in which a context asks them: {"onednn", "kokkos"} on CPUs,
/// {"cuda", "kokkos"} on GPUs.
std::vector<std::string> available();

/// Names of the devices that this build computes on: {"cpu"} or {"cuda"}. All kernels of a build are compiled for one
/// kind of device.
std::vector<std::string> devices();

/// Whether a context can be made on this machine. If not, `why` says what was found and what to try. Some commands of
/// programs need no device, so that a missing device is no error here.
bool device_available(std::string* why = nullptr);

/// The backends in `requested`, a comma-separated list of names such as "kokkos". If `requested` is empty, those in the
/// variable KEELSON_BACKEND; else available(). Throws InputError for names that this build does not have, and lists
/// those that it has.
std::vector<std::string> selected(const std::string& requested = "");

/// Whether `backend` (one of available()) computes in `type` with native instructions of this machine's processor. If
/// not, the backend may still convert such values, but makes hardly any op in that type.
bool computes_in(const std::string& backend, DType type);

/// A context for `device` (one of devices(); empty or "auto": this build's device) that asks the backends
/// selected(requested_backends), in this order. Throws InputError for a device that this build or this machine does not
/// have.
std::unique_ptr<Context> make_context(const std::string& device = "", const std::string& requested_backends = "");

/// Starts Kokkos with `threads` threads unless the host program has started it. The destructor ends Kokkos if this
/// object started it. 0: all threads that this process may use. Call this after binding the process to its cores,
/// before the first context is made.
///
/// In a build for GPUs, Kokkos takes GPU number `local_rank` (this process' number among those of its node) modulo the
/// number of GPUs that this process sees. If there is no GPU or no driver, nothing is started, and programs can still
/// do the work that needs no context.
class Runtime {
 public:
  /// Starts Kokkos unless it is started.
  explicit Runtime(int threads = 0, int local_rank = 0);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  bool owns_ = false;
};

}  // namespace keelson::backends
