#include "apps/bench/scale/replay_job.hpp"

#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

using Kind = RankEvent::Kind;

nlohmann::json event_json(const RankEvent& e) {
  switch (e.kind) {
    case Kind::compute:
      return {"compute", e.seconds};
    case Kind::busy:
      return {"busy", e.seconds};
    case Kind::send:
      return {"send", e.peer, e.bytes};
    case Kind::receive:
      return {"receive", e.peer, e.bytes};
    case Kind::wait:
      return {"wait", e.index};
    case Kind::bucket:
      return {"bucket", e.index};
  }
  fail("no such event");
}

RankEvent event_of(const nlohmann::json& j) {
  const auto name = j.at(0).get<std::string>();
  if (name == "compute" || name == "busy")
    return {.kind = name == "busy" ? Kind::busy : Kind::compute, .seconds = j.at(1)};
  if (name == "send" || name == "receive")
    return {.kind = name == "send" ? Kind::send : Kind::receive, .peer = j.at(1), .bytes = j.at(2)};
  if (name != "wait" && name != "bucket")
    fail("event \"{}\": expected compute, busy, send, receive, wait or bucket", name);
  return {.kind = name == "wait" ? Kind::wait : Kind::bucket, .index = j.at(1)};
}

nlohmann::json program_json(const RankProgram& p) {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& e : p.events) events.push_back(event_json(e));
  return {{"events", events}, {"buckets", p.buckets}, {"update", p.update}};
}

RankProgram program_of_json(const nlohmann::json& j) {
  RankProgram p{.events = {}, .buckets = j.at("buckets"), .update = j.at("update")};
  for (const auto& e : j.at("events")) p.events.push_back(event_of(e));
  return p;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExchangeSettings, algorithm, bucket_bytes, overlap, compress, hide_rows, copies)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplayResult, step, slowest, wire_bytes, messages, wall_seconds, megabytes)

double RankProgram::computing() const {
  double seconds = update;
  for (const auto& e : events)
    if (e.kind == Kind::compute) seconds += e.seconds;
  return seconds;
}

const RankProgram& ReplayJob::program_of(int rank) const {
  const std::size_t parts = programs.size() / static_cast<std::size_t>(stages);
  const auto stage = static_cast<std::size_t>(rank / stage_ranks()), part = static_cast<std::size_t>(rank) % parts;
  return programs[stage * parts + part];
}

nlohmann::json json_of(const ReplayJob& job) {
  nlohmann::json programs = nlohmann::json::array();
  for (const auto& p : job.programs) programs.push_back(program_json(p));
  return {{"machine", json_of(job.machine)},
          {"ranks", job.ranks},
          {"steps", job.steps},
          {"seed", job.seed},
          {"stages", job.stages},
          {"programs", programs},
          {"exchange", job.exchange}};
}

ReplayJob replay_job_of(const nlohmann::json& j) {
  ReplayJob job{.machine = machine_of(j.at("machine"), "the job"),
                .ranks = j.at("ranks"),
                .steps = j.at("steps"),
                .seed = j.at("seed"),
                .stages = j.at("stages"),
                .programs = {},
                .exchange = j.at("exchange")};
  for (const auto& p : j.at("programs")) job.programs.push_back(program_of_json(p));
  return job;
}

nlohmann::json json_of(const ReplayResult& result) { return result; }
ReplayResult replay_result_of(const nlohmann::json& json) { return json; }

}  // namespace keelson::bench
