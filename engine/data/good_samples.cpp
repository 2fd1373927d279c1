#include "engine/data/good_samples.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

/// Memory for a sample, and its fields.
struct SampleMemory {
  explicit SampleMemory(const Dataset& data) {
    for (const Field& f : data.fields()) {
      memory.emplace_back(static_cast<std::size_t>(f.bytes()));
      fields.push_back(memory.back().data());
    }
  }
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> fields;
};

/// Those of the samples first, first + step, ...
std::vector<BrokenSample> broken_of(const Dataset& data, std::int64_t first, std::int64_t step, int threads,
                                    const std::function<void(std::int64_t)>& progress) {
  std::vector<BrokenSample> broken;
  std::atomic<std::int64_t> next = first;
  std::int64_t read = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    const SampleMemory memory(data);
    for (std::int64_t i; (i = next.fetch_add(step)) < data.size();) {
      std::string reason;
      try {
        data.read(i, memory.fields.data());
      } catch (const InputError& e) {
        reason = e.what();
      } catch (...) {
        const std::lock_guard guard(mutex);
        failure = std::current_exception();
        next = data.size();
      }
      const std::lock_guard guard(mutex);
      if (!reason.empty()) broken.push_back({i, std::move(reason)});
      if (progress) progress(++read);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return broken;
}

std::string in_one_line(std::string reason) {
  std::ranges::replace(reason, '\n', ' ');
  return reason;
}

/// "<index> <reason>" in lines.
std::string to_text(const std::vector<BrokenSample>& broken) {
  std::string text;
  for (const BrokenSample& b : broken) text += fmt::format("{} {}\n", b.index, in_one_line(b.reason));
  return text;
}

}  // namespace

std::vector<BrokenSample> find_broken_samples(const Dataset& data, std::int64_t most, int threads,
                                              Communicator* communicator,
                                              const std::function<void(std::int64_t read)>& progress) {
  const int rank = communicator ? communicator->rank() : 0, ranks = communicator ? communicator->size() : 1;
  std::string mine;
  on_each_rank(communicator, [&] {
    mine = to_text(broken_of(data, rank, ranks, threads, rank == 0 ? progress : std::function<void(std::int64_t)>()));
  });
  std::vector<BrokenSample> all;
  for (const std::string& text : communicator ? communicator->allgather(mine) : std::vector{mine}) {
    std::istringstream lines(text);
    BrokenSample b;
    while (lines >> b.index && std::getline(lines >> std::ws, b.reason)) all.push_back(b);
  }
  std::ranges::sort(all, {}, &BrokenSample::index);
  if (std::ssize(all) <= most) return all;
  std::string text = fmt::format("{} of {} cannot be read, and at most {} may be left out:", std::ssize(all),
                                 counted(data.size(), "sample"), most);
  constexpr std::size_t shown = 3;
  for (std::size_t i = 0; i < std::min(all.size(), shown); ++i) text += "\n  " + all[i].reason;
  if (all.size() > shown) text += fmt::format("\n  and {} more", all.size() - shown);
  refuse("{}\nmend or remove these files, or allow more (--skip-broken)", text);
}

std::int64_t find_good_file(std::int64_t files, std::int64_t most, const std::function<void(std::int64_t file)>& read) {
  for (std::int64_t file = 0;; ++file) {
    try {
      read(file);
      return file;
    } catch (const InputError&) {
      if (file == most || file + 1 == files) throw;
    }
  }
}

void add_broken_files(std::vector<std::string>& all, const std::vector<std::string>& mine, std::int64_t most,
                      Communicator* communicator) {
  std::string text;  // in lines
  for (const std::string& reason : mine) text += in_one_line(reason) + '\n';
  for (const std::string& of_rank : communicator ? communicator->allgather(text) : std::vector{text}) {
    std::istringstream lines(of_rank);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
  }
  if (std::ssize(all) > most)
    refuse("{} {} broken, and at most {} may be left out (--skip-broken); the first: {}",
           counted(std::ssize(all), "file"), all.size() == 1 ? "is" : "are", most, all[0]);
}

GoodSamples::GoodSamples(const Dataset& data, std::vector<std::int64_t> broken)
    : data_(data), broken_(std::move(broken)) {
  KEELSON_EXPECT(std::ranges::adjacent_find(broken_, std::greater_equal<>()) == broken_.end());
}

std::int64_t GoodSamples::original(std::int64_t index) const {
  // The number of broken samples before the sample, by binary search: broken_[k] - k good ones are before broken_[k].
  std::size_t low = 0, high = broken_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (broken_[middle] - static_cast<std::int64_t>(middle) <= index)
      low = middle + 1;
    else
      high = middle;
  }
  return index + static_cast<std::int64_t>(low);
}

std::string GoodSamples::describe() const {
  return fmt::format("{}, without {}", data_.describe(), counted(std::ssize(broken_), "broken sample"));
}

std::uint64_t GoodSamples::digest() const { return Digest().add(data_.digest()).add(broken_).value(); }

}  // namespace keelson
