#include "apps/common/time_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/counted.hpp"

namespace keelson::app {
namespace {

constexpr double little = 0.05;

double percent(double share) { return 100 * share; }

std::string on_imbalance(const RunTimes& t) {
  const RunTimes::Spread& compute = t[TimePart::compute];
  const double others = (compute.mean * t.ranks - compute.most) / (t.ranks - 1);
  const double slower = others > 0 ? compute.most / others - 1 : 0;
  const std::string waiting =
      fmt::format("ranks wait {:.0f} % of the time for slower ones", percent(t.share(TimePart::imbalance)));
  if (slower >= little)
    return fmt::format(
        "{}: rank {} ({}) computes {:.0f} % longer than the others: look at its node (other jobs, clock "
        "rate, heat), or leave it out",
        waiting, compute.most_rank, compute.most_host, percent(slower));
  for (const TimePart stage : {TimePart::reading, TimePart::decoding})
    if (const RunTimes::Spread& input = t[stage]; input.most - input.mean > t[TimePart::imbalance].mean / 2)
      return fmt::format("{}: rank {} ({}) waits longest for samples to be {}: {}", waiting, input.most_rank,
                         input.most_host, stage == TimePart::reading ? "read" : "decoded",
                         stage == TimePart::reading ? "give more --reader-threads, or look at its file system"
                                                    : "give more --loader-threads");
  return fmt::format(
      "{}, but no rank is always the slow one: look for other work on the cores (--trace shows which steps "
      "are long)",
      waiting);
}

}  // namespace

std::string advice(const RunTimes& t) {
  const std::string ahead =
      t.host_runs_ahead ? "; compute includes waiting for other ranks, since the host only queues the device's work"
                        : "";
  constexpr std::array losses{TimePart::communication, TimePart::imbalance, TimePart::reading,    TimePart::decoding,
                              TimePart::received,      TimePart::copy,      TimePart::checkpoints};
  const TimePart worst =
      *std::max_element(losses.begin(), losses.end(), [&](TimePart a, TimePart b) { return t.share(a) < t.share(b); });
  const double lost = percent(t.share(worst));
  if (t.share(worst) < little)
    return fmt::format(
        "{} takes most besides compute and validation, {:.1f} %: only faster kernels or more ranks would make the run "
        "much faster{}",
        to_string(worst), lost, ahead);
  switch (worst) {
    case TimePart::imbalance:
      return on_imbalance(t);
    case TimePart::communication:
      return fmt::format(
          "exposed communication takes {:.0f} %: more samples per rank and step (--batch) give it more "
          "compute to hide behind",
          lost);
    case TimePart::reading:
      return fmt::format(
          "waiting for samples to be read takes {:.0f} %: give more --reader-threads, keep samples (--cache-memory), "
          "or stage the files (--stage); keelson-bench input times reading alone{}",
          lost, ahead);
    case TimePart::decoding:
      return fmt::format(
          "waiting for samples to be decoded takes {:.0f} %: give more --loader-threads (keelson-bench input times "
          "reading alone){}",
          lost, ahead);
    case TimePart::received:
      return fmt::format(
          "waiting for samples of other ranks takes {:.0f} %: give more --prefetch, so that they are sent earlier{}",
          lost, ahead);
    case TimePart::copy:
      return fmt::format("copying samples takes {:.0f} %: a network whose input is channels-last reads them in place{}",
                         lost, ahead);
    default:
      return fmt::format("checkpoints take {:.0f} %: write fewer of them (--checkpoint-every, --checkpoint-steps){}",
                         lost, ahead);
  }
}

std::string time_table(const RunTimes& t) {
  std::string text = fmt::format("where the time went: {} on {}, {:.1f} s\n", counted(t.steps, "step"),
                                 counted(t.ranks, "rank"), t.seconds);
  text += fmt::format("{:<26}{:>8}{:>12}{:>22}{:>22}\n", "", "share", "mean", "least", "most");
  for (std::size_t p = 0; p < time_parts; ++p) {
    const RunTimes::Spread& s = t.parts[p];
    const auto part = static_cast<TimePart>(p);
    const auto of_rank = [](double seconds, int rank) { return fmt::format("{:.2f} s (rank {})", seconds, rank); };
    text += fmt::format("{:<26}{:>6.1f} %{:>10.2f} s{:>22}{:>22}\n", to_string(part), percent(t.share(part)), s.mean,
                        of_rank(s.least, s.least_rank), of_rank(s.most, s.most_rank));
  }
  return text + advice(t) + "\n";
}

std::string describe(const SampleCounts& c) {
  const std::int64_t all = c.read.memory + c.read.disk + c.read.copies + c.read.files;
  const auto share = [&](std::int64_t n) {
    return 100.0 * static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(all, 1));
  };
  return fmt::format(
      "{} were read: {:.1f} % from memory, {:.1f} % from {}, {:.1f} % from the files of the data; {:.1f} % were sent "
      "from rank to rank",
      counted(all, "sample"), share(c.read.memory), share(c.read.disk + c.read.copies),
      c.read.copies > 0 ? "staged copies" : "the cache's disk", share(c.read.files), share(c.sent));
}

}  // namespace keelson::app
