#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/graph/topology.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "insitu/model.hpp"

namespace keelson::insitu {
namespace {

constexpr std::int64_t most_steps = 1000;  ///< most training steps in one call

}  // namespace

std::int64_t Model::draw(std::int64_t below) {
  const philox::Key key{step_.seed, static_cast<std::uint32_t>(2 * ranks_.host.rank() + 1), 0};
  return static_cast<std::int64_t>(philox::below(key, drawn_++, static_cast<std::uint64_t>(below)));
}

void Model::keep(std::int64_t tile) {
  const std::int64_t slot = reservoir_->offer();
  if (slot < 0) return;
  auto& device = ranks_.context.device();
  TiledField tiled{nullptr,      nullptr,     static_cast<const std::int64_t*>(origins_.get()), tile, 1,
                   tiling_.tile, tiling_.halo};
  const auto field = [&](HostField& f) {
    tiled.field = &f;
    tiled.data = reach(f, device, false);
    return tiled;
  };
  auto* x = static_cast<std::byte*>(tiles_x_.get()) + static_cast<std::size_t>(slot) * x_bytes_;
  const auto* base = static_cast<const std::byte*>(train_x_.raw());
  for (std::size_t c = 0; c < inputs_.size(); ++c) {
    BatchChannel to = channel_of(train_x_, static_cast<int>(c));
    to.data = x + (static_cast<const std::byte*>(to.data) - base);
    pack(field(*inputs_[c]), to, network_.scales[c]);
  }
  BatchChannel y{.data = static_cast<std::byte*>(tiles_y_.get()) + static_cast<std::size_t>(slot) * y_bytes_,
                 .strides = {}};
  y.strides = {tiling_.extent(1) * tiling_.extent(2), tiling_.extent(2), 1};
  if (loss_.of_classes())
    pack_classes(field(*target_), y);
  else
    pack(field(*target_), y, {});
}

void Model::take_sample() {
  auto& device = ranks_.context.device();
  for (HostField* f : inputs_) reach(*f, device, true);
  reach(*target_, device, true);
  const std::int64_t count = tiling_.count();
  if (sample_ == 0 || sample_ >= count) {
    for (std::int64_t tile = 0; tile < count; ++tile) keep(tile);
    return;
  }
  if (order_.empty())
    for (std::int64_t tile = 0; tile < count; ++tile) order_.push_back(tile);
  for (std::int64_t i = 0; i < sample_; ++i) {
    std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(i + draw(count - i))]);
    keep(order_[static_cast<std::size_t>(i)]);
  }
}

/// The number of steps for which every rank has time: the least over all ranks. It is 0 if a rank has no full batch of
/// tiles, and -1 if a rank has a problem.
std::int64_t Model::training_steps(double new_seconds, double sampling_seconds, bool problem) {
  std::int64_t steps = steps_;
  if (problem) {
    steps = -1;
  } else if (steps == 0) {
    credit_ += share_ * new_seconds;
    // Unused time is kept for a step that takes longer. The limit prevents many steps at once after a pause.
    credit_ = std::min(credit_, 2 * std::max(share_ * new_seconds, seconds_per_step_));
    const double left = credit_ - sampling_seconds;
    steps = seconds_per_step_ > 0 ? static_cast<std::int64_t>(std::floor(left / seconds_per_step_)) : 1;
    steps = std::clamp<std::int64_t>(steps, 0, most_steps);
  }
  if (steps > 0 && reservoir_->size() < train_batch_) steps = 0;
  ranks_.host.allreduce(&steps, 1, Reduction::min);
  return steps;
}

double Model::training_step() {
  auto& device = ranks_.context.device();
  auto* x = static_cast<std::byte*>(train_x_.raw());
  auto* y = static_cast<std::byte*>(train_y_.raw());
  for (std::int64_t i = 0; i < train_batch_; ++i) {
    const auto slot = static_cast<std::size_t>(draw(reservoir_->size())), to = static_cast<std::size_t>(i);
    device.copy(x + to * x_bytes_, static_cast<std::byte*>(tiles_x_.get()) + slot * x_bytes_, x_bytes_);
    device.copy(y + to * y_bytes_, static_cast<std::byte*>(tiles_y_.get()) + slot * y_bytes_, y_bytes_);
  }
  trainer_->forward(step_);
  trainer_->backward();
  trainer_->update();
  ++step_.step;
  return trainer_->loss();
}

void Model::train(double simulation_seconds, Times& times) {
  if (!trains())
    refuse("model '{}' has no target, so it cannot be trained. Expected the name of a field in `target`", name_);
  const Timed timed(times.train);
  std::string problem;
  double sampling = 0, seconds = 0;
  {
    const Timed measured(sampling);
    try {
      take_sample();
      ranks_.context.device().fence();
    } catch (const std::exception& e) {
      problem = e.what();
    }
  }
  const std::int64_t steps = training_steps(simulation_seconds - simulated_, sampling, !problem.empty());
  simulated_ = simulation_seconds;
  if (steps < 0)
    refuse("{}", problem.empty() ? "model '" + name_ + "': another rank could not read its fields" : problem);
  const bool first = seconds_per_step_ == 0;
  credit_ -= sampling;
  if (steps == 0) return;
  {
    const Timed measured(seconds);
    for (std::int64_t i = 0; i < steps; ++i) {
      times.loss = training_step();
      ++times.train_steps;
      if (!std::isfinite(times.loss)) break;
    }
    ranks_.context.device().fence();
  }
  // The loss is the same on all ranks, so all ranks fail here.
  if (!std::isfinite(times.loss))
    fail("model '{}': the loss of training step {} is {}, and its weights are lost. {}", name_, step_.step, times.loss,
         "Try a smaller learning_rate, batch_norm as the first layer, or look for such values in the fields");
  const double each = seconds / static_cast<double>(steps);
  // In the first step libraries compile kernels. So its time is only a first estimate, and is not subtracted from the
  // credit.
  if (first)
    seconds_per_step_ = each;
  else {
    seconds_per_step_ = 0.5 * (seconds_per_step_ + each);
    credit_ -= seconds;
  }
}

void Model::save(const std::string& path) {
  on_first_rank(&ranks_.host, [&] {
    RunState state;
    state.network = network_.name;
    state.config = network_.config;
    state.seed = step_.seed;
    state.step = static_cast<std::int64_t>(step_.step);
    state.samples = state.step * train_batch_ * ranks_.host.size();
    state.global_batch = train_batch_ * ranks_.host.size();
    state.world_size = ranks_.host.size();
    if (trains()) state.optimizer = adam_.to_string();
    state.topology = Topology(network_.graph).to_text();
    write_checkpoint(path, copy_run(state, *parameters_, trains() ? moment_names(adam_) : std::vector<std::string>{}));
  });
}

}  // namespace keelson::insitu
