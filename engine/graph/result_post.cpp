#include "engine/graph/result_post.hpp"

#include <chrono>
#include <thread>

namespace keelson {

ResultPost::ResultPost(Device& device) {
  for (Slot& s : slots_) {
    s.queue = device.make_queue();
    s.loss = device.allocate_host(sizeof(double), "loss on the host");
    s.state = device.allocate_host(sizeof(ops::StepState), "step state on the host");
  }
}

ResultPost::~ResultPost() {
  for (Slot& s : slots_) s.queue->wait();  // it may still write what goes next
}

void ResultPost::send(const Tensor& loss, const Tensor& state) {
  KEELSON_EXPECT(sent_ - taken_ < slots);
  Slot& s = slots_[sent_++ % slots];
  s.queue->follow();
  s.queue->copy_to_host(s.loss.get(), loss.raw(), sizeof(double));
  s.queue->copy_to_host(s.state.get(), state.raw(), sizeof(ops::StepState));
  s.queue->lead();  // the next step writes what is copied here
}

Plan::StepResult ResultPost::take(Communicator* communicator) {
  using Clock = std::chrono::steady_clock;
  KEELSON_EXPECT(taken_ < sent_);
  Slot& s = slots_[taken_++ % slots];
  const auto since = Clock::now();
  while (communicator && !s.queue->idle()) {
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    communicator->progress();
    communicator->look("the loss of a step", seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(seconds > 0.01 ? 200 : 5));
  }
  s.queue->wait();
  return {*static_cast<const double*>(s.loss.get()), static_cast<const ops::StepState*>(s.state.get())->scaling};
}

}  // namespace keelson
