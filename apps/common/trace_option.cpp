#include "apps/common/trace_option.hpp"

#include <fmt/format.h>

#include "apps/common/subcommand.hpp"

namespace keelson::app {

void declare(TraceOption& o, Subcommand& v) {
  const auto group = v.in(OptionGroup::machine);
  v.option_without_default("--trace", o.file,
                           "Write a trace of all ranks to one JSON file, which https://ui.perfetto.dev opens", "FILE")
      .output()
      .not_stored();
  v.option("--trace-events", o.events,
           "How many events the trace keeps per rank, the newest ones; 0: 4 million for all ranks together, at least "
           "2000 and at most 250000 per rank",
           "N")
      .non_negative()
      .not_stored();
}

std::unique_ptr<TraceFile> begin_trace(const TraceOption& o, Communicator& world) {
  return o.file.empty() ? nullptr : std::make_unique<TraceFile>(o.file, world, o.events);
}

void end_trace(const TraceOption& o, TraceFile* trace, Communicator& world, std::FILE* out) {
  if (!trace) return;
  trace->finish();
  if (world.rank() == 0 && out) fmt::print(out, "trace: {} (open it in https://ui.perfetto.dev)\n", o.file);
}

}  // namespace keelson::app
