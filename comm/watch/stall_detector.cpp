#include "comm/watch/stall_detector.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

#include "comm/mpi/support.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/activity.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::comm {

WatchdogOptions WatchdogOptions::from_environment() {
  WatchdogOptions watchdog;
  watchdog.seconds = seconds_from_environment("KEELSON_WATCHDOG", watchdog.seconds);
  watchdog.abort_seconds = seconds_from_environment("KEELSON_WATCHDOG_ABORT", 3 * watchdog.seconds);
  watchdog.abort_elsewhere_seconds =
      seconds_from_environment("KEELSON_WATCHDOG_ABORT", watchdog.abort_elsewhere_seconds);
  return watchdog;
}

namespace detail {
namespace {

constexpr double longest_gap = 5;  // seconds between two polls of a process that runs, on a crowded machine

/// The ranks that report if no collector waits: 1, 2, 4 ..., so that only few ranks report.
bool may_report(int rank) { return std::has_single_bit(static_cast<unsigned>(rank)); }

}  // namespace

StallDetector::StallDetector(MPI_Comm comm, std::vector<std::string> names, WatchdogOptions watchdog)
    : comm_(comm), names_(std::move(names)), watchdog_(std::move(watchdog)) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  collectors_ = std::min(size_, 4);
  last_messages_.resize(static_cast<std::size_t>(size_));
  // Early enough that all waiting ranks are known when the first report is due.
  double limit = std::numeric_limits<double>::infinity();
  for (const double seconds : {watchdog_.seconds, watchdog_.abort_seconds, watchdog_.abort_elsewhere_seconds})
    if (seconds > 0) limit = std::min(limit, seconds);
  announce_every_ = std::min(limit / 4, std::max(10.0, limit / 30));
}

StallDetector::~StallDetector() {
  static std::list<std::list<PendingSend>> abandoned;  // MPI may still read them if no connection was made
  if (!mpi_running() || left_unfinished()) return;
  try {
    receive(nullptr);
  } catch (const RanksLost&) {  // the dead rank receives no more messages
  }
  if (pending_sends_.empty()) return;
  for (PendingSend& send : pending_sends_) MPI_Request_free(&send.request);
  abandoned.push_back(std::move(pending_sends_));
}

void StallDetector::poll(Wait& wait, double seconds) {
  try {
    look(wait, seconds);
  } catch (const RanksLost&) {  // the call that waits also gets this error
  }
}

void StallDetector::look(Wait& wait, double seconds) {
  end_if_over(wait.label, seconds, wait.for_first_rank);
  if (seconds < wait.polled)  // another wait has begun
    wait = {.number = wait.number, .label = wait.label, .for_first_rank = wait.for_first_rank, .peer = wait.peer};
  // Polls follow each other within milliseconds. A longer gap means that the job was suspended, and does not count.
  if (seconds - wait.polled > longest_gap) wait.stopped += seconds - wait.polled;
  wait.polled = seconds;
  seconds -= wait.stopped;
  if (seconds < announce_every_) return;
  if (wait.announcements == 0) receive(&wait);  // messages from before this wait
  if (seconds >= (wait.announcements + 1) * announce_every_) announce(wait);
  receive(&wait);
  if (watchdog_.seconds > 0 && seconds >= (wait.reports + 1) * watchdog_.seconds) {
    ++wait.reports;
    if (is_reporter(wait)) report(wait, seconds, "");
  }
  const double most = Activity::any() ? watchdog_.abort_seconds : watchdog_.abort_elsewhere_seconds;
  if (most > 0 && seconds >= most) {
    // The other ranks give the reporter time to write.
    const bool speaker = is_reporter(wait);
    if (!speaker && seconds < most + 2) return;
    if (speaker) report(wait, seconds, "; ending the job (KEELSON_WATCHDOG_ABORT)");
    notify_failure(static_cast<int>(ExitCode::failure));
    end_job(static_cast<int>(ExitCode::failure));
  }
}

void StallDetector::send(std::uint64_t number, int to, int tag) {
  PendingSend& send = pending_sends_.emplace_back(PendingSend{number, MPI_REQUEST_NULL});
  check(MPI_Isend(&send.number, 1, MPI_UINT64_T, to, tag, comm_, &send.request), "MPI_Isend", "watchdog");
}

void StallDetector::announce(Wait& wait) {
  ++wait.announcements;
  for (int to = 0; to < collectors_; ++to)
    if (to != rank_) send(wait.number, to, tag_waiting);
}

void StallDetector::receive(const Wait* wait) {
  pending_sends_.remove_if([](PendingSend& send) {
    int done = 0;
    check(MPI_Test(&send.request, &done, MPI_STATUS_IGNORE), "MPI_Test", "watchdog");
    return done != 0;
  });
  for (const int tag : {tag_waiting, tag_acknowledged}) receive(wait, tag);
}

void StallDetector::receive(const Wait* wait, int tag) {
  for (;;) {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status), "MPI_Iprobe", "watchdog");
    if (!there) return;
    std::uint64_t number = 0;
    check(MPI_Recv(&number, 1, MPI_UINT64_T, status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv", "watchdog");
    // A message from before this wait may be old. If its sender still waits for this call, the sender repeats the
    // message.
    if (wait == nullptr || (wait->announcements == 0 && number < wait->number)) continue;
    last_messages_[static_cast<std::size_t>(status.MPI_SOURCE)] = {number, std::chrono::steady_clock::now()};
    if (tag == tag_waiting && status.MPI_SOURCE >= collectors_) send(wait->number, status.MPI_SOURCE, tag_acknowledged);
  }
}

bool StallDetector::waits(int rank) const {
  const LastMessage& last = last_messages_[static_cast<std::size_t>(rank)];
  const std::chrono::duration<double> ago = std::chrono::steady_clock::now() - last.at;
  return last.number > 0 && ago.count() < 2.5 * announce_every_;
}

bool StallDetector::is_reporter(const Wait& wait) const {
  for (int r = 0; r < std::min(rank_, collectors_); ++r)
    if (waits(r)) return false;
  return rank_ < collectors_ || may_report(rank_) || wait.peer >= 0;
}

std::string StallDetector::late_ranks(const Wait& wait) const {
  const int known = rank_ < collectors_ ? size_ : collectors_;  // only collectors get messages from all ranks
  std::vector<int> missing, behind, beyond;
  for (int r = 0; r < known; ++r) {
    if (r == rank_) continue;
    const auto number = last_messages_[static_cast<std::size_t>(r)].number;
    if (!waits(r))
      missing.push_back(r);
    else if (number < wait.number)
      behind.push_back(r);
    else if (number > wait.number)
      beyond.push_back(r);
  }
  // The other ranks take no part in a send or receive, but the peer may wait for them.
  const bool peers = wait.peer >= 0;
  std::string text;
  if (!missing.empty())
    text += fmt::format("; not waiting for {}: {}", peers ? "anything" : "it", name_ranks(missing, names_));
  if (!behind.empty()) text += "; waiting for an earlier call: " + name_ranks(behind, names_);
  if (peers && !beyond.empty()) text += "; waiting for a later call: " + name_ranks(beyond, names_);
  if (text.empty())
    text = peers ? "; all ranks wait, so the peer has not started its part, or the network is slow or stuck"
                 : "; all ranks wait for it, so the network is slow or stuck";
  if (known < size_) text += fmt::format("; ranks above {} are not known", known - 1);
  return text;
}

void StallDetector::report(const Wait& wait, double seconds, std::string_view end) const {
  const std::string peer = wait.peer < 0 ? "" : fmt::format(" with {}", name_ranks({wait.peer}, names_));
  const std::string at_work_on = Activity::any() ? " in " + Activity::describe() : "";
  const std::string text =
      fmt::format("watchdog: rank {} has waited {:.0f} s for {}{}{}{}{}", names_[static_cast<std::size_t>(rank_)],
                  seconds, wait.label, peer, at_work_on, late_ranks(wait), end);
  if (watchdog_.report) return watchdog_.report(text);
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace detail
}  // namespace keelson::comm
