#pragma once

#include <cstdint>

#include "apps/common/app.hpp"

namespace keelson::app {

/// How a rank's samples are decoded; nothing of it is stored in checkpoints. 0: left open.
struct LoaderThreads {
  int threads = 0;   ///< per rank
  int prefetch = 0;  ///< batches decoded ahead, besides the current one
};

/// Declares --loader-threads and, on request, --prefetch on a verb.
void declare_threads(LoaderThreads& o, Verb& verb);
void declare_prefetch(LoaderThreads& o, Verb& verb);

/// What is open, decided. A rank that computes on its cores has one thread and two batches. The cores of a rank that
/// computes on a GPU have nothing else to do: all but one decode, at most 8, and so many batches of `batch` samples
/// that each has one to decode.
LoaderThreads decide(const LoaderThreads& wanted, const Job& job, std::int64_t batch);

}  // namespace keelson::app
