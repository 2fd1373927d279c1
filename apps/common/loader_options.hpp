#pragma once

#include <cstdint>

#include "apps/common/app.hpp"

namespace keelson::app {

/// How a rank decodes samples. Not stored in checkpoints. 0: decide() chooses the value.
struct LoaderThreads {
  int threads = 0;   ///< per rank
  int prefetch = 0;  ///< batches decoded ahead, besides the current one
};

/// Declares --loader-threads and --prefetch on a verb.
void declare_threads(LoaderThreads& o, Verb& verb);
void declare_prefetch(LoaderThreads& o, Verb& verb);

/// Chooses the values that are 0. A rank that computes on its cores gets one thread and two batches. The cores of a
/// rank that computes on a GPU have nothing else to do: all of them but one decode, at most 8. Enough batches of
/// `batch` samples are decoded ahead that every thread has a sample to decode.
LoaderThreads decide(const LoaderThreads& wanted, const Job& job, std::int64_t batch);

}  // namespace keelson::app
