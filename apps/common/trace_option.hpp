#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/common/app.hpp"
#include "engine/base/trace_file.hpp"

namespace keelson::app {

/// Whether a verb traces all ranks, and into which file; nothing of it is stored in checkpoints.
struct TraceOption {
  std::string file;         ///< empty: no trace
  std::int64_t events = 0;  ///< as TraceFile takes them
};

/// Declares --trace and --trace-events on a verb.
void declare(TraceOption& o, Verb& verb);

/// Begins the trace that is wanted; null: none is. It must outlive the executors and loaders that it traces. Throws
/// InputError where the file cannot be written. Collective.
std::unique_ptr<TraceFile> begin_trace(const TraceOption& o, Communicator& world);

/// Ends the trace, if there is one, and writes the file; rank 0 tells people on `out` how to look at it, if `out` is
/// not null. Collective.
void end_trace(const TraceOption& o, TraceFile* trace, Communicator& world, std::FILE* out);

}  // namespace keelson::app
