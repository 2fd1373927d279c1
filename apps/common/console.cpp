#include "apps/common/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/counted.hpp"

namespace keelson::app {

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

bool is_terminal(std::FILE* out) { return ::isatty(fileno(out)) != 0 && ::isatty(STDERR_FILENO) != 0; }

Console::Console(std::FILE* out, const TrainerOptions& options, std::int64_t steps_per_epoch,
                 const TargetMetrics* targets, std::string prefix)
    : out_(out),
      prefix_(std::move(prefix)),
      terminal_(prefix_.empty() && is_terminal(out)),
      epochs_(options.epochs),
      max_steps_(options.max_steps),
      steps_per_epoch_(steps_per_epoch),
      metric_(options.evaluation.metrics.empty() ? nullptr : options.evaluation.metrics[0]),
      targets_(targets),
      per_second_(options.unit.name + "s/s") {}

void Console::on_start(const RunState& s, const std::filesystem::path& resumed_from) {
  if (!resumed_from.empty())
    say(fmt::format("continuing from {} (epoch {}, step {})", resumed_from.string(), s.epoch, s.step));
}

std::string Console::line(const RunState& s, const StepRecord& r) const {
  const std::int64_t of_epoch = s.epoch_samples > 0 ? steps_of_epoch(s) : steps_per_epoch_;
  auto steps = (epochs_ - s.epoch - 1) * steps_per_epoch_ + of_epoch - s.step_in_epoch;
  if (max_steps_ >= 0) steps = std::min(steps, max_steps_ - s.step);
  const double eta =
      static_cast<double>(steps) * step_seconds_ + static_cast<double>(epochs_ - s.epoch) * validation_seconds_;
  return fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}  lr {:.3g}  {} {}  {} to go", s.epoch + 1, epochs_,
                     s.step_in_epoch, of_epoch, r.loss, r.learning_rate, rate_text(rate_), per_second_,
                     clock_text(eta));
}

void Console::on_step(const RunState& s, const StepRecord& r) {
  const double blend = rate_ == 0 ? 1 : 0.05, seconds = r.seconds.total();
  rate_ += blend * (r.rate - rate_);
  step_seconds_ += blend * (seconds - step_seconds_);
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(15000))) return;
  last_ = now;
  if (terminal_)
    overwrite(line(s, r));
  else
    say(line(s, r));
}

void Console::on_validation_start(const RunState& s) {
  if (terminal_) overwrite(fmt::format("epoch {}/{}  validating", s.epoch + 1, epochs_));
}

void Console::on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) {
  validation_seconds_ = r.validation_seconds;
  auto text = fmt::format("epoch {}/{}  train loss {:.4f}", r.epoch, epochs_, r.train_loss);
  if (const auto of_loss = metric_ ? metric_->of_loss(r.train_loss) : std::nullopt)
    text += fmt::format("  train {} {}", metric_->name(), metric_->text(*of_loss));
  if (validation) text += judged(r);
  text += fmt::format("  {} {}", rate_text(r.rate), per_second_);
  if (std::isfinite(r.noise.samples())) text += fmt::format("  noise scale {:.3g}", r.noise.samples());
  if (s.skipped_steps > 0)
    text += fmt::format("  ({} skipped so far, whose gradients overflowed)", counted(s.skipped_steps, "step"));
  say(text);
}

std::string Console::judged(const EpochRecord& r) const {
  auto text = fmt::format("  validation loss {:.4f}", r.validation_loss);
  if (!metric_) return text;
  const auto metric = fmt::format("{} {}", metric_->name(), metric_->text(r.metric));
  if (metric_->of_loss(r.validation_loss)) return fmt::format("{}  validation {}", text, metric);
  text += "  " + metric;
  const auto baseline = targets_ ? targets_->baseline->values() : std::vector<double>();
  for (std::size_t t = 0; t < baseline.size(); ++t)
    text += fmt::format("{} {} {:.2f}", t == 0 ? "  (relative to the mean's:" : ",",
                        targets_->metric->targets()[t].name, r.metric_values[t] / baseline[t]);
  return baseline.empty() ? text : text + ")";
}

void Console::on_checkpoint(const RunState&, const std::filesystem::path& path, bool best) {
  if (terminal_) overwrite(fmt::format("checkpoint {}{}", path.string(), best ? " (best so far)" : ""));
}

void Console::on_set_aside(const RunState& s, const std::filesystem::path& folder) {
  say(fmt::format("checkpoints that do not lead to step {} were moved to {}; --resume no longer finds them by itself",
                  s.step, folder.string()));
}

void Console::on_network_change(const RunState&, const Graph&, const std::string& text) {
  if (!text.empty()) say(text);
}

void Console::on_ranks_lost(const RunState& s, const Recovery& r) {
  steps_per_epoch_ = (s.train_samples + s.global_batch - 1) / s.global_batch;
  say(r.to_string());
}

void Console::on_stop(const RunState& s, StopReason reason) {
  say(fmt::format("{} after epoch {}, step {} ({})", to_string(reason), s.epoch, s.step, clock_text(s.seconds)));
}

void Console::write(const std::string& text) {
  std::fputs(text.c_str(),
             out_);  // fmt::print would throw: a log on a full disk must not end the training
  std::fflush(out_);
}

void Console::overwrite(const std::string& text) {
  write(fmt::format("\r{:<{}}", text, width_));
  width_ = text.size();
}

void Console::say(const std::string& text) {
  write(terminal_ ? fmt::format("\r{:<{}}\n", text, width_) : prefix_ + text + "\n");
  width_ = 0;
}

}  // namespace keelson::app
