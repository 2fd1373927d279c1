#include "apps/common/ensemble_file.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/base/small_file.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

nlohmann::ordered_json member_to_json(const MemberRecord& m) {
  nlohmann::ordered_json j{
      {"member", m.member}, {"folder", MemberRecord::folder(m.member)}, {"seed", m.seed}, {"state", m.state},
      {"epochs", m.epochs}, {"epochs_wanted", m.epochs_wanted},         {"step", m.step}};
  j["metric"] = std::isfinite(m.metric) ? nlohmann::ordered_json(m.metric) : nullptr;
  if (!m.error.empty()) j["error"] = m.error;
  if (!m.options.empty()) j["options"] = m.options;
  if (!m.common.empty()) j["common"] = m.common;
  return j;
}

MemberRecord member_from_json(const nlohmann::json& j) {
  MemberRecord m;
  m.member = j.at("member");
  m.seed = j.at("seed");
  m.state = j.at("state");
  m.epochs = j.at("epochs");
  m.epochs_wanted = j.at("epochs_wanted");
  m.step = j.at("step");
  if (j.at("metric").is_number()) m.metric = j.at("metric");
  m.error = j.value("error", "");
  m.options = j.value("options", m.options);
  m.common = j.value("common", m.common);
  return m;
}

EnsembleFile parse_ensemble(const std::string& text, const fs::path& file) try {
  const auto j = nlohmann::json::parse(text);
  EnsembleFile e;
  e.program = j.at("program");
  e.seed = j.at("seed");
  e.member_ranks = j.at("member_ranks");
  e.stacked = j.value("stacked", false);
  e.metric = j.at("metric");
  e.designs = j.value("designs", e.designs);
  for (const auto& m : j.at("members")) {
    e.members.push_back(member_from_json(m));
    if (e.members.back().member != static_cast<std::int64_t>(e.members.size()) - 1)
      refuse("{}: lists the members in another order than 0, 1, 2, ...", file.string());
  }
  if (e.members.empty() || e.member_ranks < 1) refuse("{}: lists no members", file.string());
  if (e.designs < 0 || e.designs > static_cast<std::int64_t>(e.members.size()))
    refuse("{}: has {} designs for {} members", file.string(), e.designs, e.members.size());
  return e;
} catch (const nlohmann::json::exception& error) {
  refuse("{}: cannot be read as the list of an ensemble's members ({})", file.string(), error.what());
}

}  // namespace

std::string MemberRecord::folder(std::int64_t member) { return fmt::format("member-{:03}", member); }

bool EnsembleFile::exists(const fs::path& folder) {
  std::error_code e;
  return fs::exists(path(folder), e);
}

bool EnsembleFile::has_checkpoints(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("member-")) continue;
    if (!CheckpointFolder(entry.path() / "checkpoints", 1).list().empty()) return true;
  }
  return false;
}

std::optional<EnsembleFile> EnsembleFile::read(const fs::path& folder, Communicator& world) {
  std::string text;
  on_first_rank(&world, [&] {
    if (!exists(folder)) return;
    const auto found = read_small_file(path(folder).string());
    if (!found || found->empty()) refuse("{}: cannot be read", path(folder).string());
    text = *found;
  });
  text = world.allgather(text)[0];
  if (text.empty()) return std::nullopt;
  return parse_ensemble(text, path(folder));
}

void EnsembleFile::write(const fs::path& folder) const {
  nlohmann::ordered_json j{{"program", program}, {"seed", seed}, {"member_ranks", member_ranks}, {"metric", metric}};
  if (stacked) j["stacked"] = true;
  if (designs > 0) j["designs"] = designs;
  j["members"] = nlohmann::ordered_json::array();
  for (const auto& m : members) j["members"].push_back(member_to_json(m));
  write_atomically(path(folder), j.dump(2) + "\n");
}

void EnsembleFile::update(const fs::path& folder) {
  for (auto& m : members) {
    const auto file = folder / MemberRecord::folder(m.member) / "member.json";
    const auto text = read_small_file(file.string());
    if (!text) continue;
    try {
      const auto found = member_from_json(nlohmann::json::parse(*text));
      if (found.member == m.member && found.seed == m.seed) m = found;
    } catch (const nlohmann::json::exception&) {
      refuse("{}: cannot be read; remove it, and the member goes on from its checkpoint", file.string());
    }
  }
}

void write_member(const MemberRecord& record, const fs::path& folder) {
  write_atomically(folder / "member.json", member_to_json(record).dump(2) + "\n");
}

}  // namespace keelson::app
