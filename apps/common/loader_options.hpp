#pragma once

#include <cstdint>

#include "apps/common/app.hpp"
#include "engine/data/loader.hpp"

namespace keelson::app {

/// Options of which the user has given none: decide() fills in what is 0.
inline const LoaderThreads undecided_threads{.count = 0, .prefetch = 0, .cpus = {}};

/// Declare --loader-threads and --prefetch on a subcommand. Checkpoints do not store them.
void declare_threads(LoaderThreads& o, Subcommand& subcommand);
void declare_prefetch(LoaderThreads& o, Subcommand& subcommand);
/// Declare --cache-memory, --cache-disk and --cache-folder on a subcommand. Checkpoints do not store them.
void declare(CacheOptions& o, Subcommand& subcommand);
/// Throws InputError for a disk without a folder, and for a folder without a disk.
void check(const CacheOptions& o);

/// Replaces what is 0, and sets the CPUs of the rank. A rank that computes on its cores gets one thread and two
/// batches. The cores of a rank that computes on a GPU have nothing else to do: all but one decode, at most 8, and
/// there are so many batches of `batch` samples that each thread has a sample to decode.
LoaderThreads decide(const LoaderThreads& wanted, const Launch& launch, std::int64_t batch);

}  // namespace keelson::app
