#include "apps/common/rate_search.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/progress.hpp"
#include "apps/common/report/rate_page.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t table_rows = 20;

void print_rates(const RateRange& range) {
  fmt::print("{:>6}  {:>13}  {:>12}  {:>13}\n", "step", "learning rate", "loss", "smoothed loss");
  const std::size_t count = range.points.size(),
                    every = std::max<std::size_t>(1, (count + table_rows - 1) / table_rows);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % every != 0 && i + 1 != count) continue;
    const RatePoint& p = range.points[i];
    fmt::print("{:>6}  {:>13.3g}  {:>12.5g}  {:>13.5g}\n", i + 1, p.rate, p.loss, p.smoothed);
  }
  fmt::print("{}\n", describe_rates(range));
}

void make_folder(const fs::path& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) refuse("--out {}: cannot be made ({}); choose another folder", folder.string(), e.message());
}

}  // namespace

Option& declare(RateRangeOptions& r, std::string& out, Subcommand& v) {
  Option& folder =
      v.option("--out", out, "Folder for lr-range.html and lr-range.csv", "DIR").not_stored().differs_between_ranks();
  v.option("--lr-min", r.least, "Learning rate of the first step", "RATE").positive().not_stored();
  v.option("--lr-max", r.most, "Learning rate of the last step", "RATE").positive().not_stored();
  v.option("--steps", r.steps, "Steps, each with a rate that is larger by the same factor", "STEPS")
      .positive()
      .not_stored();
  v.option("--smoothing", r.smoothing,
           "Part of the smoothed loss that comes from the step before (an exponential mean); 0: not smoothed", "PART")
      .between(0, 1)
      .not_stored();
  v.option("--stop-at", r.stop_at, "End where the smoothed loss is so many times the least", "FACTOR")
      .positive()
      .not_stored();
  return folder;
}

ExitCode search_rates(const RateSearch& search, const DeviceSession& session, const TrainerOptions& t) {
  Communicator& world = *session.ranks;
  const RateRangeOptions& rates = search.rates;
  const bool speaks = world.rank() == 0;
  const fs::path page = search.folder / "lr-range.html", table = search.folder / "lr-range.csv";
  on_first_rank(&world, [&] { make_folder(search.folder); });
  if (speaks)
    fmt::print(
        "{}: {} parameters; {}\ntraining data: {}\nup to {} steps of {} samples, learning rates {:.3g} to {:.3g}; {}\n",
        t.network, search.graph.parameter_count(), session.describe(), search.training.describe(), rates.steps,
        t.batch * training_grid(&world, t.replica).extent(ProcessGrid::Axis::data), rates.least, rates.most,
        t.optimizer->to_string());
  Interrupt::install();
  Progress progress("step");
  std::int64_t done = 0;
  Parameters parameters(search.graph, *session.context, t.seed);
  const auto show = [&](const RatePoint& p) {
    ++done;
    if (speaks)
      progress.show(done, rates.steps,
                    fmt::format("  learning rate {:.3g}  loss {:.4g}  smoothed {:.4g}", p.rate, p.loss, p.smoothed));
  };
  const RateRange range = find_rates(search.graph, parameters, search.training, &world, t, rates, show);
  if (range.interrupted) {
    if (speaks) fmt::print("ended by a signal after {} of {} steps; nothing was written\n", done, rates.steps);
    return ExitCode::interrupted;
  }
  on_first_rank(&world, [&] {
    write_atomically(page, render_rates(range, search.title + ": learning rates",
                                        fmt::format("{}; {}", search.training.describe(), t.optimizer->to_string())));
    write_atomically(table, rates_csv(range));
  });
  if (!speaks) return ExitCode::done;
  print_rates(range);
  fmt::print("plot: {}\ntable: {}\n", page.string(), table.string());
  return ExitCode::done;
}

}  // namespace keelson::app
