#pragma once

#include <memory>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson {

class Device;

namespace comm {

/// `world` with collectives (make_collective()) on arrays in the memory of `device`; everything else is world's, on
/// host memory, and on_host() is world. split() gives groups of the same kind. Collective. `world` and `device` must
/// outlive it.
///
/// A collective's start() takes its place behind the work queued on the device so far and returns. After its wait(), or
/// once test() is true, work queued on the device sees the result; the host need not have waited for that work.
///
/// While it lives, the watchdog of `world` looks at waits of the calling host thread for `device`: see
/// Device::watch_waits().
///
/// How arrays travel (Communicator::collectives() tells in words): by `wish`, which the variable KEELSON_COLLECTIVES
/// overrides:
/// - "nccl": by NCCL, from device to device; needs a build with it and a GPU per rank.
/// - "staged": copied to page-locked host memory, by MPI, and copied back, all beside the device's work.
/// - "mpi": by MPI, which reads and writes the device's memory: with a CUDA-aware MPI only, which is not checked. A
///   collective of all ranks is a blocking call of MPI that is made in wait() or test(), when the device's work before
///   it has ended; test() then returns when all ranks test it or wait for it.
/// - "" or "auto": by NCCL where that works here, else staged.
/// Where the host can access the device's memory, world's own collectives are used whatever the wish. A group of one
/// rank sends nothing. Throws InputError for another word and for a wish that cannot be had, with the reason.
std::unique_ptr<Communicator> on_device(Communicator& world, Device& device, const std::string& wish = "");

}  // namespace comm
}  // namespace keelson
