#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/common/app.hpp"
#include "engine/base/trace_file.hpp"

namespace keelson::app {

/// Whether a subcommand traces all ranks, and the trace's file. Not stored in checkpoints.
struct TraceOption {
  std::string file;         ///< empty: no trace
  std::int64_t events = 0;  ///< as in TraceFile
};

/// Declares --trace and --trace-events on a subcommand.
void declare(TraceOption& o, Subcommand& subcommand);

/// Begins the trace; null if the user wants none. The trace must outlive the executors and loaders that it records.
/// Throws InputError if the file cannot be written. Collective.
std::unique_ptr<TraceFile> begin_trace(const TraceOption& o, Communicator& world);

/// Ends the trace, if there is one, and writes the file. Rank 0 prints on `out`, if not null, how to open the file.
/// Collective.
void end_trace(const TraceOption& o, TraceFile* trace, Communicator& world, std::FILE* out);

}  // namespace keelson::app
