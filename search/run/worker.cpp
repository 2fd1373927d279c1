#include "search/run/worker.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

namespace keelson::search {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The line that says how a training has ended, and the failure that ends the worker, too, if there was one.
struct Ended {
  std::string line;
  std::exception_ptr failure = nullptr;
};

/// Whether a file could not be written because the disk is full: reason_of_writing() has the system's text.
bool is_about_space(const Error& error) {
  const std::string what = error.what();
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT, EFBIG},
                             [&](int why) { return what.find(std::strerror(why)) != what.npos; });
}

Ended train_for_line(const WorkerTask& task, std::int64_t id, int rung, WorkerTimes& times) {
  const auto begin = Clock::now();
  const auto failed = [&](const Error& error, bool again) {
    times.trained += seconds_from(begin);
    return failure_line(id, rung, error.what(), again, seconds_since_1970());
  };
  try {
    Result result = task.train(task.population.all()[static_cast<std::size_t>(id)], rung);
    result.rung = rung;
    result.seconds = seconds_from(begin);
    times.trained += result.seconds;
    ++times.trainings;
    return {result_line(id, result, seconds_since_1970())};
  } catch (const Diverged& e) {
    return {failed(e, false)};
  } catch (const OutOfMemory& e) {
    return {failed(e, true)};
  } catch (const Interrupted&) {
    throw;
  } catch (const RanksLost&) {
    throw;
  } catch (const Error& e) {
    if (is_about_space(e)) throw;  // a line about it might find room, and would count as a trial
    return {failed(e, true), std::current_exception()};
  }
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

WorkerTimes work(const WorkerTask& task) {
  WorkerTimes times;
  const auto begin = Clock::now();
  const auto take = [&](const std::string& line) { task.population.apply(line); };
  double pause = task.seconds_between_looks;
  while (!task.interrupted || !task.interrupted()) {
    task.log.read_new(take);
    const Job job = next_job(task.population, task.method, task.slot, task.budget, seconds_since_1970());
    if (job.kind == Job::Kind::done) break;
    if (job.kind == Job::Kind::wait) {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      pause = std::min(2 * pause, 20 * task.seconds_between_looks);
      continue;
    }
    pause = task.seconds_between_looks;
    task.log.append(job.line, take);
    const auto id = claimed(task.population, job, task.slot);
    if (!id) continue;
    try {
      const Ended ended = train_for_line(task, *id, job.rung, times);
      task.log.append(ended.line, take);
      if (ended.failure) std::rethrow_exception(ended.failure);
    } catch (const Interrupted&) {
      break;
    }
    if (task.tell) task.tell(task.population);
  }
  times.all = seconds_from(begin);
  return times;
}

}  // namespace keelson::search
