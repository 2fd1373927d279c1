#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "apps/cosmoflow/data/detail/universe_files.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/good_samples.hpp"

namespace keelson::cosmoflow::detail {

void UniverseFiles::read_first(std::int64_t file) {
  ++opened_;
  const auto name = path(file);
  first_ = open_universe_file(name, list_.folder_of(file))->content();
  const RawFile raw(name);
  first_bytes_ = raw.size();
  const auto offset = volume_offset(first_), length = volume_bytes(first_.samples);
  if (offset < 0) return;
  around_first_ = Surroundings::read(raw, first_bytes_, offset, length);
  if (first_.targets.raw_offset < 0 || first_.targets.type != hdf5::Type::f32 || first_.targets.file != name) return;
  const auto at = first_.targets.raw_offset - (first_.targets.raw_offset < offset ? 0 : length);
  if (at + first_.targets.elements() * 4 <= std::ssize(around_first_.bytes)) targets_at_ = at;
}

/// Checks the files in rounds: each rank checks its next files, then all ranks get the results. So the memory for a
/// round is bounded, and the first rank with an error has the first wrong file.
void UniverseFiles::check_all(Communicator* communicator) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  const std::int64_t share = std::min(files_per_round, (size() + ranks - 1) / ranks);
  for (std::int64_t first = 0; first < size(); first += ranks * share) {
    const auto begin_of = [&](std::int64_t r) { return std::min(size(), first + r * share); };
    Part mine;
    on_each_rank(communicator, [&] { mine = check_part(begin_of(rank), begin_of(rank + 1)); });
    if (skip_broken_ > 0) add_broken_files(broken_, mine.broken, skip_broken_, communicator);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks));
    rows[static_cast<std::size_t>(rank)] = mine.facts.empty() ? 0 : mine.facts.back().end_row;
    if (communicator) communicator->allreduce(rows.data(), rows.size(), Reduction::sum);
    for (std::int64_t r = 0; r < ranks; ++r) {
      if (r == rank)
        for (auto& f : mine.facts) f.end_row += rows_;
      facts_.append(mine.facts.data(), static_cast<std::size_t>(begin_of(r + 1) - begin_of(r)) * sizeof(FileFacts),
                    static_cast<int>(r));
      targets_.append(mine.targets.data(),
                      static_cast<std::size_t>(rows[static_cast<std::size_t>(r)] * layout().columns) * sizeof(float),
                      static_cast<int>(r));
      rows_ += rows[static_cast<std::size_t>(r)];
    }
  }
  facts_.finish();
  targets_.finish();
}

/// Uses several threads, more than there are cores, since most of the time is spent waiting for the file system.
UniverseFiles::Part UniverseFiles::check_part(std::int64_t begin, std::int64_t end) const {
  std::vector<Checked> checked(static_cast<std::size_t>(end - begin));
  // Threads take files in order. So when a file fails, all files before it have been taken, and the failure with the
  // lowest number is that of the first wrong file.
  std::atomic<std::int64_t> next = begin, failed = end;
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto note_failure = [&](std::int64_t i) {
    const std::lock_guard guard(error_mutex);
    if (i >= failed) return;
    failed = i;
    error = std::current_exception();
  };
  const auto work = [&] {
    for (std::int64_t i; (i = next.fetch_add(1)) < failed;) {
      try {
        checked[static_cast<std::size_t>(i - begin)] = check(i);
      } catch (const InputError& e) {
        if (skip_broken_ > 0) {
          checked[static_cast<std::size_t>(i - begin)] = {.broken = e.what()};
          continue;
        }
        note_failure(i);
      } catch (...) {
        note_failure(i);
      }
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (std::int64_t t = 1; t < std::min<std::int64_t>(8, (end - begin) / 16); ++t) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads can be started: the existing ones do the work
  }
  work();
  threads.clear();
  if (error) std::rethrow_exception(error);

  Part part;
  std::int64_t rows = 0;
  for (auto& c : checked) {
    c.facts.end_row = rows += c.facts.end_row;
    part.facts.push_back(c.facts);
    part.targets.insert(part.targets.end(), c.targets.begin(), c.targets.end());
    if (!c.broken.empty()) part.broken.push_back(std::move(c.broken));
  }
  return part;
}

/// Whether a file has the structure of the first file: the same size, and the same bytes around voxels and targets.
/// This check needs no HDF5, so many small files from one program open several times faster and in parallel.
bool UniverseFiles::looks_like_first(const RawFile& file, std::int64_t bytes, Checked& checked) const {
  if (!around_first_.whole || targets_at_ < 0 || bytes != first_bytes_) return false;
  const auto offset = volume_offset(first_);
  auto around = Surroundings::read(file, bytes, offset, volume_bytes(first_.samples));
  checked.facts.surroundings = around.hash();
  checked.targets.resize(static_cast<std::size_t>(first_.targets.elements()));
  const auto length = checked.targets.size() * sizeof(float);
  char* targets = around.bytes.data() + targets_at_;
  std::memcpy(checked.targets.data(), targets, length);
  std::memcpy(targets, around_first_.bytes.data() + targets_at_, length);
  if (around.bytes != around_first_.bytes) return false;
  checked.facts.end_row = first_.samples;
  checked.facts.volume_offset = offset;
  return true;
}

UniverseFiles::Checked UniverseFiles::check(std::int64_t file) const {
  ++opened_;
  const auto name = path(file);
  Checked checked;
  const RawFile raw(name);
  checked.facts.bytes = raw.size();
  if (!looks_like_first(raw, checked.facts.bytes, checked)) {
    const auto opened = open_universe_file(name, list_.folder_of(file));
    const auto& content = opened->content();
    require_same(first_, content);
    checked.targets = opened->targets();
    checked.facts.end_row = content.samples;
    checked.facts.volume_offset = volume_offset(content);
    checked.facts.surroundings = 0;
    if (checked.facts.volume_offset >= 0)
      checked.facts.surroundings =
          Surroundings::read(raw, checked.facts.bytes, checked.facts.volume_offset, volume_bytes(content.samples))
              .hash();
  }
  require_finite(checked.targets, layout(), name);
  return checked;
}

}  // namespace keelson::cosmoflow::detail
