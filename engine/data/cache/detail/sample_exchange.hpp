#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/collective.hpp"
#include "engine/data/cache/batch_shares.hpp"

namespace keelson::detail {

/// The messages of one step that bring samples to this rank, or from this rank to others: the stored form, and a byte
/// that is 0 if the sample could be read. The host thread of the loader makes, starts and ends the messages, in the
/// order of the steps; other threads read the samples that are sent.
class SampleExchange {
 public:
  /// `peers` and `cache` must outlive this.
  SampleExchange(Communicator& peers, SampleCache& cache) : peers_(peers), cache_(cache) {}

  /// Makes the messages of a step, after end(). `shares`: per rank. Receives are started.
  void begin(const std::vector<std::vector<BatchSample>>& shares);
  std::size_t sends() const { return sends_.size(); }  ///< messages to other ranks
  bool receives(std::size_t position) const;  ///< whether this sample of this rank's share comes from another rank
  /// Whether send `i` waits for read().
  bool needs_reading(std::size_t i) const { return !sends_[i]->ready; }
  /// Reads the sample of send `i`, in any thread. Throws as SampleCache::read(); the message then says so.
  void read(std::size_t i);
  /// Starts the sends whose samples have been read, but none behind one to the same rank that has not, here or in an
  /// earlier step: `blocked` has a value per rank. Calls arrived(position) for each sample of this rank's share that
  /// has come.
  void advance(std::vector<bool>& blocked, const std::function<void(std::size_t position)>& arrived);
  bool all_started() const;  ///< all sends
  /// Waits for the next sample of this rank's share that has not come, if there is one; all sends have been started, on
  /// all ranks, sooner or later. Returns whether there was one.
  bool wait_for_one(const std::function<void(std::size_t position)>& arrived);
  void end();  ///< waits for all messages, which have been started, and drops them
  std::int64_t received() const { return received_; }  ///< samples so far
  std::int64_t sent() const { return sent_; }          ///< samples so far
  /// The stored form of a sample that has come. Throws Error if the other rank could not read the sample.
  const std::byte* received(std::size_t position) const;

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  struct Message {
    BatchSample sample;
    int peer = 0;
    std::size_t position = 0;         ///< of a receive: in this rank's share
    Memory memory;                    ///< null if the cache has the message
    std::atomic<bool> ready = false;  ///< of a send: the sample has been read
    bool started = false, done = false;
    std::unique_ptr<Collective> call;  ///< ends before the memory
  };
  Memory take_memory();
  std::size_t message_bytes() const { return static_cast<std::size_t>(cache_.bytes()) + 1; }
  std::unique_ptr<Message> send(const BatchSample& s, int to);
  std::unique_ptr<Message> receive(const BatchSample& s, std::size_t position);

  Communicator& peers_;
  SampleCache& cache_;
  std::vector<std::unique_ptr<Message>> sends_, receives_;
  std::vector<Memory> free_;  ///< memory of earlier messages
  std::int64_t received_ = 0, sent_ = 0;
};

}  // namespace keelson::detail
