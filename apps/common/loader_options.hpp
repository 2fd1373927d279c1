#pragma once

#include <cstdint>

#include "apps/common/app.hpp"
#include "engine/data/loader.hpp"

namespace keelson::app {

/// Options of which the user has given none: decide() and the Loader fill in what is 0.
inline const LoaderThreads undecided_threads{.count = 0, .prefetch = 0, .cpus = {}};

/// Declare --loader-threads and --reader-threads, and --prefetch and --loader-memory on a subcommand. Checkpoints do
/// not store them.
void declare_threads(LoaderThreads& o, Subcommand& subcommand);
void declare_prefetch(LoaderThreads& o, Subcommand& subcommand);
/// Declare --cache-memory, --cache-disk and --cache-folder on a subcommand. Checkpoints do not store them.
void declare(CacheOptions& o, Subcommand& subcommand);
/// Throws InputError for a disk without a folder, a folder without a disk, and a disk beside copies.
void check(const CacheOptions& o);
/// Throws InputError on all ranks if the caches of the ranks of a node need more memory than is free there. `needed`:
/// bytes of a rank's samples, of which at most CacheOptions::memory are kept. Collective.
void check_memory(const CacheOptions& o, std::int64_t needed, Communicator& world);

/// Replaces numbers of threads that are 0, which may then grow, and sets the CPUs of the rank. A rank that computes on
/// its cores begins with one decoding thread. The cores of a rank that computes on a GPU have nothing else to do: all
/// but one decode, at most 8.
LoaderThreads decide(const LoaderThreads& wanted, const Launch& launch);

}  // namespace keelson::app
