#include "engine/execute/async_readback.hpp"

#include <chrono>
#include <thread>

namespace keelson {

AsyncReadback::AsyncReadback(Device& device, std::int64_t samples) : samples_(static_cast<std::size_t>(samples)) {
  for (Readback& s : readbacks_) {
    s.queue = device.make_queue();
    s.loss = device.allocate_host(sizeof(double), "loss on the host");
    s.loss_scale = device.allocate_host(sizeof(ops::LossScale), "loss scale on the host");
    *static_cast<ops::LossScale*>(s.loss_scale.get()) = {};
    if (samples_ > 0) s.sample_losses = device.allocate_host(samples_ * sizeof(float), "losses of samples on the host");
  }
}

AsyncReadback::~AsyncReadback() {
  for (Readback& s : readbacks_) s.queue->wait();  // a copy may still write the memory that is freed next
}

void AsyncReadback::send(const Tensor& loss, const Tensor& loss_scale, const void* sample_losses) {
  KEELSON_EXPECT(sent_ - taken_ < most);
  Readback& s = readbacks_[sent_++ % most];
  s.queue->wait_for_device();
  s.queue->copy_to_host(s.loss.get(), loss.raw(), sizeof(double));
  if (loss_scale) s.queue->copy_to_host(s.loss_scale.get(), loss_scale.raw(), sizeof(ops::LossScale));
  if (s.sample_losses) s.queue->copy_to_host(s.sample_losses.get(), sample_losses, samples_ * sizeof(float));
  s.queue->device_waits();  // the next step overwrites the values that are copied here
}

Executor::StepResult AsyncReadback::take(Communicator* communicator) {
  using Clock = std::chrono::steady_clock;
  KEELSON_EXPECT(taken_ < sent_);
  Readback& s = readbacks_[taken_++ % most];
  const auto since = Clock::now();
  while (communicator && !s.queue->idle()) {
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    communicator->progress().advance();
    communicator->watchdog().poll("the loss of a step", seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(seconds > 0.01 ? 200 : 5));
  }
  s.queue->wait();
  return {*static_cast<const double*>(s.loss.get()),
          *static_cast<const ops::LossScale*>(s.loss_scale.get()),
          {static_cast<const float*>(s.sample_losses.get()), samples_}};
}

}  // namespace keelson
