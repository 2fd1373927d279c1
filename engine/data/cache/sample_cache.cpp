#include "engine/data/cache/sample_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {

CachedSamples::Place CachedSamples::place_of(std::int64_t sample) const {
  if (batch > 0) {
    const std::int64_t step = sample / (ranks * batch), in_step = sample % (ranks * batch);
    return {static_cast<int>(in_step / batch), step * batch + in_step % batch};
  }
  // The block of the sample: the last one that does not begin behind the sample.
  const auto rank = static_cast<int>(((sample + 1) * ranks - 1) / samples);
  return {rank, sample - begin(rank)};
}

std::int64_t CachedSamples::share_of(int rank) const {
  if (batch == 0) return begin(rank + 1) - begin(rank);
  const std::int64_t step = ranks * batch;
  return samples / step * batch + std::clamp<std::int64_t>(samples % step - rank * batch, 0, batch);
}

int CachedSamples::holder(std::int64_t sample) const {
  if (copies) return copies->holder(sample);
  const Place place = place_of(sample);
  return place.slot < memory + disk ? place.rank : -1;
}

std::int64_t CachedSamples::kept() const {
  std::int64_t all = 0;
  for (int r = 0; r < ranks; ++r) all += std::min(share_of(r), memory + disk);
  return all;
}

SampleCache::SampleCache(const Dataset& data, const CacheOptions& options, const CachedSamples& shares, int rank,
                         Communicator* ranks)
    : data_(data),
      options_(options),
      bytes_(std::max<std::int64_t>(data.stored_bytes(), 1)),
      samples_(shares),
      rank_(rank) {
  if (options.copies && ranks) {
    KEELSON_EXPECT(options.disk == 0);
    const std::int64_t room = options.memory / (bytes_ + 1);
    samples_.copies = std::make_shared<const CopiedSamples>(data, options.copies, room, *ranks);
    samples_.memory = slots_ = samples_.copies->kept();
  } else {
    share_room(ranks);
  }
  take_room(ranks);
}

/// Decides how many samples the rank keeps.
void SampleCache::share_room(Communicator* ranks) {
  std::int64_t most = 0;
  for (int r = 0; r < samples_.ranks; ++r) most = std::max(most, samples_.share_of(r));
  std::int64_t room[2] = {std::min(options_.memory / (bytes_ + 1), most), std::min(options_.disk / bytes_, most)};
  if (ranks) ranks->allreduce(room, 2, Reduction::min);
  samples_.memory = room[0];
  samples_.disk = std::min(room[1], most - room[0]);
  slots_ = std::min(samples_.share_of(rank_), samples_.memory + samples_.disk);
}

void SampleCache::take_room(Communicator* ranks) {
  try {
    on_each_rank(ranks, [&] {
      try {
        // Not touched, so that pages become memory when samples come.
        memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(in_memory() * (bytes_ + 1)));
      } catch (const std::bad_alloc&) {
        refuse("A cache of {} samples needs {:.1f} GiB of memory on this rank, and there is less: choose a smaller one",
               in_memory(), static_cast<double>(in_memory() * bytes_) / (1 << 30));
      }
      states_ = std::make_unique<std::atomic<State>[]>(static_cast<std::size_t>(slots_));
      if (slots_ > in_memory()) open_disk();
    });
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

SampleCache::~SampleCache() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// Takes the whole room at once, so that a full disk shows before training begins.
void SampleCache::open_disk() {
  const std::string& folder = options_.folder;
  const auto wanted = (slots_ - in_memory()) * bytes_;
  std::string path = folder + "/keelson-cache-XXXXXX";
  descriptor_ = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0)
    refuse("{}: no file for the cache can be made: {}. Name a folder on a disk of the node that can be written", folder,
           std::strerror(errno));
  ::unlink(path.c_str());
  const int error = ::posix_fallocate(descriptor_, 0, wanted);
  if (error == 0) return;
  std::error_code ignored;
  const auto space = std::filesystem::space(folder, ignored);
  refuse(
      "{}: has no room for {:.2f} GiB of samples: {}; {:.2f} GiB are free. Choose a smaller cache, or another folder",
      folder, static_cast<double>(wanted) / (1 << 30), std::strerror(error),
      static_cast<double>(space.available) / (1 << 30));
}

void SampleCache::read_disk(std::int64_t slot, std::byte* to) {
  const std::int64_t offset = (slot - samples_.memory) * bytes_;
  for (std::int64_t done = 0; done < bytes_;) {
    const auto n = ::pread(descriptor_, to + done, static_cast<std::size_t>(bytes_ - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail("{}: the file of the cache cannot be read: {}", options_.folder, n < 0 ? std::strerror(errno) : "it is cut");
    done += n;
  }
}

void SampleCache::write_disk(std::int64_t slot, const std::byte* from) {
  const std::int64_t offset = (slot - samples_.memory) * bytes_;
  for (std::int64_t done = 0; done < bytes_;) {
    const auto n = ::pwrite(descriptor_, from + done, static_cast<std::size_t>(bytes_ - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail("{}: the file of the cache cannot be written{}", options_.folder,
           reason_of_writing(n < 0 ? errno : ENOSPC, options_.folder));
    done += n;
  }
}

CacheOptions SampleCache::left() const {
  return {options_.memory - in_memory() * (bytes_ + 1), options_.disk - (slots_ - in_memory()) * bytes_,
          options_.folder};
}

std::int64_t SampleCache::slot_of(std::int64_t sample) const {
  if (samples_.copies) return samples_.copies->slot_of(sample);
  const auto [rank, slot] = samples_.place_of(sample);
  return rank == rank_ && slot < slots_ ? slot : -1;
}

/// From a copy on this rank's disk, if there is one.
void SampleCache::read_files(std::int64_t sample, std::byte* to) {
  const bool is_copied = options_.copies && options_.copies->has(data_.file_number_of(sample));
  ++(is_copied ? from_copies_ : from_files_);
  data_.read_stored(sample, to);
}

const std::byte* SampleCache::read(std::int64_t sample, std::byte* scratch) {
  const std::int64_t slot = slot_of(sample);
  if (slot < 0) {
    read_files(sample, scratch);
    return scratch;
  }
  const bool is_in_memory = slot < samples_.memory;
  std::atomic<State>& state = states_[static_cast<std::size_t>(slot)];
  if (state.load(std::memory_order_acquire) == State::filled) {
    ++(is_in_memory ? from_memory_ : from_disk_);
    if (is_in_memory) return memory_of(slot);
    read_disk(slot, scratch);
    return scratch;
  }
  State expected = State::empty;
  const bool fills = state.compare_exchange_strong(expected, State::filling);  // else another thread does so now
  std::byte* const to = fills && is_in_memory ? memory_of(slot) : scratch;
  try {
    read_files(sample, to);
    if (fills && !is_in_memory) write_disk(slot, to);
  } catch (...) {
    if (fills) state.store(State::empty, std::memory_order_release);
    throw;
  }
  if (fills && is_in_memory) to[bytes_] = std::byte{0};
  if (fills) state.store(State::filled, std::memory_order_release);
  return to;
}

const std::byte* SampleCache::find(std::int64_t sample) {
  const std::int64_t slot = slot_of(sample);
  if (slot < 0 || slot >= samples_.memory) return nullptr;
  if (states_[static_cast<std::size_t>(slot)].load(std::memory_order_acquire) != State::filled) return nullptr;
  ++from_memory_;
  return memory_of(slot);
}

SampleCache::Counts SampleCache::counts() const { return {from_memory_, from_disk_, from_copies_, from_files_}; }

}  // namespace keelson
