#pragma once

#include <memory>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson {

class Device;

namespace comm {

/// The group `world` with collectives (make_collective()) on arrays in the memory of `device`. All other calls are
/// those of `world`, on host memory, and on_host() is `world`. split() makes groups of the same kind. Collective.
/// `world` and `device` must outlive the result.
///
/// A collective's start() queues the collective after the work that is already queued on the device, and returns. After
/// wait(), or when test() has returned true, work that is queued later on the device sees the result, even if the host
/// has not waited for the device.
///
/// While the result lives, the watchdog of `world` checks waits of the calling host thread for `device`: see
/// Device::watch_waits().
///
/// `requested` is the transport of the arrays (Communicator::transport() returns the chosen one). The environment
/// variable KEELSON_COLLECTIVES overrides it:
/// - "nccl": by NCCL, from device to device; needs a build with NCCL and a GPU per rank.
/// - "staged": copied to page-locked host memory, sent by MPI, and copied back, all in parallel to the device's work.
/// - "mpi": by MPI, which reads and writes the device's memory: with a CUDA-aware MPI only, which is not checked. A
///   collective of all ranks is a blocking call of MPI that is made in wait() or test(), when the device's work before
///   it has ended; test() then returns when all ranks test it or wait for it.
/// - "" or "auto": by NCCL if NCCL works here, else staged.
/// If the host can access the device's memory, the collectives are always those of `world`. A group of one rank sends
/// nothing; with "nccl", NCCL is called nevertheless, so that a machine with one GPU can test NCCL. Throws InputError
/// for another word, and, with the reason, for a request that is not supported here.
std::unique_ptr<Communicator> on_device(Communicator& world, Device& device, const std::string& requested = "");

}  // namespace comm
}  // namespace keelson
