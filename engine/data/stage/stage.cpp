#include "engine/data/stage/stage.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/stage/detail/stage_places.hpp"
#include "engine/data/stage/detail/stage_source.hpp"
#include "engine/data/stage/detail/stage_work.hpp"

namespace keelson {
namespace {

using detail::StagePlaces, detail::StageSource, detail::StageWork;

/// The next start would take copies in the source for further files.
void check_target(const StageOptions& o) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(o.source)) return;
  const auto source = fs::canonical(o.source), target = fs::weakly_canonical(fs::absolute(o.target));
  if (std::ranges::mismatch(source, target).in1 == source.end())
    refuse(
        "{}: lies in {}, from which files are copied. Expected another folder, on the node's own disk or on a burst "
        "buffer",
        o.target, o.source);
}

void check_count(const StageOptions& o, const StageSource& source) {
  if (o.mode != StageMode::sample || (o.count > 0 && o.count <= source.size())) return;
  refuse(
      "{}: holds {}, but {} files per node were asked for. Expected a number from 1 to {}; for all files, take the "
      "mode full",
      o.source, counted(source.size(), "file"), o.count, source.size());
}

std::int64_t sum(std::int64_t number, Communicator* group) {
  if (group) group->allreduce(&number, 1, Reduction::sum);
  return number;
}

/// Adds what is missing to the message of an error, which all ranks have. Collective.
template <class E>
[[noreturn]] void throw_with_missing(const E& error, const StageWork& work, Communicator* world) {
  const auto missing = sum(work.missing_files(), world), all = sum(std::ssize(work.items()), world);
  throw E(fmt::format("{}; {} of {} copies are missing: start again to copy them, the complete ones stay", error.what(),
                      missing, all));
}

void copy_all(StageWork& work, const StagePlaces& places, Communicator* world) {
  try {
    on_each_rank(world, [&] {
      if (places.lane < 0) return;
      work.begin();
      work.copy_owned();
    });
    on_each_rank(world, [&] { work.exchange(); });
    on_each_rank(world, [&] {
      if (places.first) work.copy_beside();
      work.end();
    });
  } catch (const RanksLost&) {
    throw;
  } catch (const InputError& error) {
    throw_with_missing(error, work, world);
  } catch (const Error& error) {
    throw_with_missing(error, work, world);
  }
}

/// Adds up the results of all ranks.
StageResult total(StageResult r, Communicator* world) {
  if (!world) return r;
  std::int64_t counts[] = {r.files_present, r.files_repaired,  r.opened,         r.files_read,
                           r.bytes_read,    r.files_exchanged, r.bytes_exchanged};
  world->allreduce(counts, std::size(counts), Reduction::sum);
  double seconds[] = {r.read_seconds, r.exchange_seconds};
  world->allreduce(seconds, std::size(seconds), Reduction::max);
  r.files_present = counts[0], r.files_repaired = counts[1], r.opened = counts[2], r.files_read = counts[3];
  r.bytes_read = counts[4], r.files_exchanged = counts[5], r.bytes_exchanged = counts[6];
  r.read_seconds = seconds[0], r.exchange_seconds = seconds[1];
  return r;
}

}  // namespace

StageResult stage_files(const StageOptions& options, Communicator* world) {
  on_first_rank(world, [&] { check_target(options); });
  const auto places = detail::find_stage_places(options.target, world);
  const StageSource source(options, world);
  check_count(options, source);
  const StagePlan plan(source.size(), options.mode, options.count, options.seed, places.places);
  StageWork work(options, source, plan, places);
  on_each_rank(world, [&] { work.look_around(); });
  const auto missing = sum(work.missing_bytes(), places.members.get());
  on_each_rank(world, [&] {
    if (places.first) work.prepare(missing);
  });
  copy_all(work, places, world);
  on_each_rank(world, [&] {
    if (places.first) work.finish();
  });
  auto result = work.result();
  result.places = places.places;
  result.files = plan.kept();
  for (std::int64_t i = 0; i < source.size(); ++i) result.bytes += plan.owner(i) < 0 ? 0 : source.bytes(i);
  if (std::ssize(plan.files_of(places.place)) < source.size())
    result.copies =
        std::make_shared<const FileCopies>(FileCopies{options.target, plan, places.place, source.digest_of_names()});
  return total(result, world);
}

}  // namespace keelson
