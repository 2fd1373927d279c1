#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/common/app.hpp"
#include "engine/ops/context.hpp"

namespace keelson::app {

/// The device on which a subcommand computes.
struct DeviceOptions {
  std::string device = "auto";
  std::uint64_t memory_limit = 0;  ///< bytes; 0: no limit
  bool exact_conv = false;         ///< as Context::require_exact_convolutions()
};

/// Declares --device, --memory-limit and --exact-conv on a subcommand.
void declare(DeviceOptions& o, Subcommand& subcommand);

/// The device, its backends, and a communicator whose collectives work on the device's memory.
struct DeviceSession {
  std::unique_ptr<Context> context;
  std::unique_ptr<Communicator> ranks;
  /// "NVIDIA H200 ...; backends cuda, kokkos; gradients by NCCL 2.28.9"
  std::string describe() const;
};

/// `backends`: as in backends::make_context. Throws InputError for a device that this build or machine does not have.
/// Collective.
DeviceSession open_device(const DeviceOptions& o, Launch& launch, const std::string& backends = "");

}  // namespace keelson::app
