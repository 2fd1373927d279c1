#include <algorithm>
#include <optional>

#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view step_begin = "step-", step_end = ".h5";

std::string step_name(std::int64_t step) { return fmt::format("{}{:010}{}", step_begin, step, step_end); }

/// The step of a file that write() has named; nothing: other files.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_begin) || !name.ends_with(step_end) || name.size() < step_name(0).size())
    return std::nullopt;
  const auto digits = name.substr(step_begin.size(), name.size() - step_begin.size() - step_end.size());
  const auto step = parse_number<std::int64_t>(digits);
  return step && *step >= 0 && name == step_name(*step) ? step : std::nullopt;
}

/// The state of a checkpoint; nothing: the file cannot be read.
std::optional<RunState> state_in(const fs::path& path) {
  try {
    return read_run_state(path);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path CheckpointFolder::write(const CheckpointCopy& copy, const std::function<void()>& progress) const {
  std::error_code e;
  fs::create_directories(folder_, e);
  if (e) fail("cannot make the folder {}: {}", folder_.string(), e.message());
  remove_temporaries(folder_);
  const auto path = path_of(copy.state.step);
  write_checkpoint(path, copy, progress);
  if (copy.best) link_atomically(path, best());
  // Checkpoints of later steps are not of this run: they are neither counted nor removed. So the checkpoint that was
  // just written always stays.
  auto kept = by_step();
  kept.erase(kept.upper_bound(copy.state.step), kept.end());
  const auto most = static_cast<std::size_t>(std::max(1, keep_));
  for (; kept.size() > most; kept.erase(kept.begin()))
    fs::remove(kept.begin()->second, e);  // what cannot be removed does no harm
  return path;
}

fs::path CheckpointFolder::path_of(std::int64_t step) const { return folder_ / step_name(step); }

std::map<std::int64_t, fs::path> CheckpointFolder::by_step() const {
  std::map<std::int64_t, fs::path> found;
  std::error_code e;
  for (const auto& entry : fs::directory_iterator(folder_, e))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_regular_file(e))
      found[*step] = entry.path();
  return found;
}

std::vector<fs::path> CheckpointFolder::list() const {
  std::vector<fs::path> all;
  for (const auto& [step, path] : by_step()) all.push_back(path);
  return all;
}

fs::path CheckpointFolder::set_aside(const RunState* from) const {
  std::vector<fs::path> others;
  if (fs::is_regular_file(best())) {
    const auto state = from ? state_in(best()) : std::nullopt;
    if (!state || state->step > from->step) others.push_back(best());
  }
  for (const auto& [step, path] : by_step())
    if (!from || step > from->step) others.push_back(path);
  if (others.empty()) return {};
  fs::path to;
  for (int n = 1; to.empty() || fs::exists(to); ++n) to = folder_ / fmt::format("abandoned-{}", n);
  std::error_code e;
  fs::create_directory(to, e);
  for (auto path = others.rbegin(); !e && path != others.rend(); ++path) fs::rename(*path, to / path->filename(), e);
  if (e)
    fail("cannot move {} to {}, away from the run that goes on: {}; move it by hand, or give another folder",
         counted(static_cast<std::int64_t>(others.size()), "checkpoint"), to.string(), e.message());
  if (from && !fs::exists(best())) restore_best(*from);
  return to;
}

void CheckpointFolder::restore_best(const RunState& from) const {
  for (const auto& path : list()) {
    const auto state = state_in(path);
    const bool judged = state && state->best_epoch >= 0 && state->best_epoch == state->epoch;
    if (judged && state->step_in_epoch == 0 && state->best_epoch == from.best_epoch) link_atomically(path, best());
  }
}

fs::path find_checkpoint(const fs::path& given, bool best) {
  if (fs::is_regular_file(given)) return given;
  if (!fs::exists(given)) refuse("{}: no such checkpoint or run folder", given.string());
  for (const auto& folder : {given / "checkpoints", given}) {
    const CheckpointFolder checkpoints(folder, 1);
    if (best && fs::is_regular_file(checkpoints.best())) return checkpoints.best();
    if (const auto all = checkpoints.list(); !all.empty()) return all.back();
  }
  refuse("{}: holds no checkpoint (expected checkpoints/step-<n>.h5 in it, <n> of ten digits)", given.string());
}

}  // namespace keelson
