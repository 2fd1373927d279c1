#include <algorithm>

#include "apps/common/progress.hpp"
#include "apps/common/report/rate_page.hpp"
#include "apps/common/training.hpp"
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

}  // namespace

ExitCode TrainingRun::search_rates(const TrainingTask& task, const DeviceSession& session, TrainerOptions t) const {
  const bool speaks = launch_.world.rank() == 0;
  const fs::path page = folder_.path / "lr-range.html", table = folder_.path / "lr-range.csv";
  on_first_rank(&launch_.world, [&] {
    std::error_code e;
    fs::create_directories(folder_.path, e);
    if (e) refuse("--out {}: cannot be made ({}); choose another folder", folder_.path.string(), e.message());
  });
  if (speaks)
    fmt::print(
        "{}: {} parameters; {}\ntraining data: {}\nup to {} steps of {} samples, learning rates {:.3g} to {:.3g}; {}\n",
        t.network, task.graph.parameter_count(), session.describe(), task.training.describe(), options_.rates.steps,
        t.batch * training_grid(session.ranks.get(), t.replica).extent(ProcessGrid::Axis::data), options_.rates.least,
        options_.rates.most, t.optimizer->to_string());
  Interrupt::install();
  Progress progress("step");
  std::int64_t done = 0;
  Parameters parameters(task.graph, *session.context, t.seed);
  const RateRange range = find_rates(
      task.graph, parameters, task.training, session.ranks.get(), t, options_.rates, [&](const RatePoint& p) {
        ++done;
        if (speaks)
          progress.show(
              done, options_.rates.steps,
              fmt::format("  learning rate {:.3g}  loss {:.4g}  smoothed {:.4g}", p.rate, p.loss, p.smoothed));
      });
  if (range.interrupted) {
    if (speaks) fmt::print("ended by a signal after {} of {} steps; nothing was written\n", done, options_.rates.steps);
    return ExitCode::interrupted;
  }
  on_first_rank(&launch_.world, [&] {
    write_atomically(page, render_rates(range, task.title + ": learning rates",
                                        fmt::format("{}; {}", task.training.describe(), t.optimizer->to_string())));
    write_atomically(table, rates_csv(range));
  });
  if (!speaks) return ExitCode::done;
  print_rates(range);
  fmt::print("plot: {}\ntable: {}\n", page.string(), table.string());
  return ExitCode::done;
}

}  // namespace keelson::app
