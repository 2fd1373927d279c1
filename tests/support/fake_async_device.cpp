#include "tests/support/fake_async_device.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::testing {

namespace {

/// An empty array may be a null pointer, which must not be passed to memcpy.
void move_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

struct LaneEvent : Event {
  std::shared_ptr<Lane> lane;
  std::uint64_t count = 0;  ///< of all work added so far
  const FakeCapture* capture = nullptr;
  std::size_t piece = FakeCapture::none;  ///< of the capture
};

void Lane::add(std::function<void()> work) {
  if (capture_)
    capture_->add(*this, std::move(work));
  else
    pending_.push_back(std::move(work));
}

std::shared_ptr<Event> Lane::record() {
  auto event = std::make_shared<LaneEvent>();
  event->lane = shared_from_this();
  event->count = added();
  event->capture = capture_;
  if (capture_) event->piece = capture_->end_of(*this);
  return event;
}

void Lane::wait_for(const Event& event) {
  const auto& before = static_cast<const LaneEvent&>(event);
  if (before.capture && !capture_) const_cast<FakeCapture*>(before.capture)->join(*this);
  if (before.capture != capture_) fail("a lane whose work is captured waits for work outside of the capture");
  if (capture_)
    capture_->add(*this, [] {}, before.piece);
  else
    add([lane = before.lane, count = before.count] { lane->run_to(count); });
}

void Lane::run_to(std::uint64_t count) {
  while (done_ < count) {
    const auto work = std::move(pending_.front());
    pending_.pop_front();
    ++done_;
    work();
  }
}

class FakeInstance : public ExecutionInstance {
 public:
  explicit FakeInstance(FakeAsyncDevice& device) : device_(device) { device.instances_.push_back(lane_); }
  ~FakeInstance() override { lane_->run(); }
  int concurrency() const override { return 1; }
  std::shared_ptr<Event> record() override { return lane_->record(); }
  void wait_for(const Event& event) override { lane_->wait_for(event); }
  Lane& lane() { return *lane_; }

 private:
  Previous enter() override { return {std::exchange(device_.current_, this)}; }
  void leave(const Previous& previous) override { device_.current_ = previous.instance; }

  FakeAsyncDevice& device_;
  std::shared_ptr<Lane> lane_ = std::make_shared<Lane>();
};

FakeAsyncDevice::FakeAsyncDevice(Reach reach, std::string bus_id)
    : reach_(reach), bus_id_(std::move(bus_id)), main_(std::make_shared<FakeInstance>(*this)) {}

ExecutionInstance& FakeAsyncDevice::current_instance() { return current_ ? *current_ : *main_; }
Lane& FakeAsyncDevice::lane() const { return static_cast<FakeInstance&>(current_ ? *current_ : *main_).lane(); }
std::shared_ptr<ExecutionInstance> FakeAsyncDevice::make_instance(const InstanceOptions&) {
  return std::make_shared<FakeInstance>(*this);
}

bool FakeAsyncDevice::idle() const {
  return std::all_of(instances_.begin(), instances_.end(), [](const std::weak_ptr<Lane>& w) {
    const auto lane = w.lock();
    return !lane || lane->idle();
  });
}

class FakeQueue : public Queue {
 public:
  FakeQueue(FakeAsyncDevice& device, std::shared_ptr<Lane> lane, int pace)
      : device_(device), lane_(std::move(lane)), pace_(pace) {}
  ~FakeQueue() override { EXPECT_TRUE(lane_->idle()) << "a queue is destroyed with work left"; }

  void wait_for_device() override {
    const auto main = device_.lane().shared_from_this();
    lane_->add([main, count = main->added()] { main->run_to(count); });
  }
  void device_waits() override {
    device_.lane().add([lane = lane_, count = lane_->added()] { lane->run_to(count); });
  }
  void copy_from_host(void* dst, const void* src, std::size_t bytes) override {
    lane_->add([to = device_.inside(dst), src, bytes] { move_bytes(to, src, bytes); });
  }
  void copy_to_host(void* dst, const void* src, std::size_t bytes) override {
    lane_->add([dst, from = device_.inside(src), bytes] { move_bytes(dst, from, bytes); });
  }
  bool idle() override {
    if (device_.stalls()) return lane_->idle();
    if (++asked_ % pace_ == 0) lane_->run_to(std::min(lane_->done() + 1, lane_->added()));
    return lane_->idle();
  }
  void wait() override { lane_->run(); }
  void* native() override { return nullptr; }

 private:
  FakeAsyncDevice& device_;
  std::shared_ptr<Lane> lane_;
  int pace_, asked_ = 0;
};

std::unique_ptr<Queue> FakeAsyncDevice::make_queue() {
  const auto lane = std::make_shared<Lane>();
  lanes_.push_back(lane);
  return std::make_unique<FakeQueue>(*this, lane, static_cast<int>(lanes_.size() * 5 % 7 + 1));
}

std::shared_ptr<void> FakeAsyncDevice::allocate(std::size_t bytes, const std::string& label) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const int file = memfd_create(label.c_str(), 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) fail("no memory for {}", label);
  const auto map = [&](int access) { return mmap(nullptr, size, access, MAP_SHARED, file, 0); };
  void* outside = map(reach_ == Reach::libraries ? PROT_READ | PROT_WRITE : PROT_NONE);
  void* inside = map(PROT_READ | PROT_WRITE);
  ::close(file);
  if (outside == MAP_FAILED || inside == MAP_FAILED) fail("no memory for {}", label);
  areas_.push_back({static_cast<char*>(outside), static_cast<char*>(inside), size});
  const std::shared_ptr<void> owner(outside, [this, inside, size](void* p) {
    for (const auto& instance : instances_)
      if (const auto lane = instance.lock()) lane->run();
    std::erase_if(areas_, [&](const Area& a) { return a.outside == p; });
    munmap(p, size);
    munmap(inside, size);
  });
  zero(outside, size);  // in the order of the work, so that a queue that does not wait may run before it
  return owner;
}

std::shared_ptr<void> FakeAsyncDevice::allocate_host(std::size_t bytes, const std::string& label) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for {}", label);
  return {memory, [size](void* p) { munmap(p, size); }};
}

char* FakeAsyncDevice::inside(const void* device) const {
  const auto* p = static_cast<const char*>(device);
  for (const Area& a : areas_)
    if (p >= a.outside && p < a.outside + a.bytes) return a.inside + (p - a.outside);
  fail("an address that is not of this device's memory");
}

void FakeAsyncDevice::copy_from_host(void* dst, const void* src, std::size_t bytes) {
  const auto* from = static_cast<const char*>(src);
  lane().add(
      [to = inside(dst), data = std::vector<char>(from, from + bytes)] { move_bytes(to, data.data(), data.size()); });
}

void FakeAsyncDevice::fence() {
  wait_until([this] { return !stalls(); });
  lane().run();
}

void FakeAsyncDevice::copy_to_host(void* dst, const void* src, std::size_t bytes) {
  fence();
  move_bytes(dst, inside(src), bytes);
}

void FakeAsyncDevice::copy(void* dst, const void* src, std::size_t bytes) {
  lane().add([to = inside(dst), from = inside(src), bytes] { move_bytes(to, from, bytes); });
}

void FakeAsyncDevice::zero(void* dst, std::size_t bytes) {
  lane().add([to = inside(dst), bytes] { std::memset(to, 0, bytes); });
}

FakeCapture::~FakeCapture() { leave(); }

void FakeCapture::leave() {
  for (const auto& lane : lanes_)
    if (lane->capture_ == this) lane->capture_ = nullptr;
}

void FakeCapture::end() {
  leave();
  require_joined();
}

void FakeCapture::join(Lane& lane) {
  lanes_.push_back(lane.shared_from_this());
  lane.capture_ = this;
}

std::size_t FakeCapture::number_of(const Lane& lane) const {
  return static_cast<std::size_t>(
      std::ranges::find(lanes_, &lane, [](const auto& l) { return static_cast<const Lane*>(l.get()); }) -
      lanes_.begin());
}

std::size_t FakeCapture::end_of(const Lane& lane) const {
  const std::size_t number = number_of(lane);
  for (std::size_t i = pieces_.size(); i-- > 0;)
    if (pieces_[i].lane == number) return i;
  return none;
}

void FakeCapture::add(const Lane& lane, std::function<void()> work, std::size_t after) {
  pieces_.push_back({number_of(lane), std::move(work), after});
}

void FakeCapture::require_joined() const {
  for (std::size_t number = 1; number < lanes_.size(); ++number) {
    const std::size_t end = end_of(*lanes_[number]);
    if (end != none && std::ranges::none_of(pieces_, [&](const Piece& p) { return p.lane == 0 && p.after == end; }))
      fail("the capture ends, and its first lane does not wait for the work of another one");
  }
}

void FakeCapture::run(std::size_t preferred) const {
  std::vector<bool> done(pieces_.size());
  std::vector<std::size_t> next(lanes_.size());  // piece to look at, by lane
  const auto ready = [&](std::size_t lane) {
    std::size_t& i = next[lane];
    while (i < pieces_.size() && (pieces_[i].lane != lane || done[i])) ++i;
    return i < pieces_.size() && (pieces_[i].after == none || done[pieces_[i].after]);
  };
  for (std::size_t count = 0; count < pieces_.size(); ++count) {
    std::size_t lane = preferred % lanes_.size();
    while (!ready(lane)) lane = (lane + 1) % lanes_.size();
    pieces_[next[lane]].work();
    done[next[lane]] = true;
  }
}

class FakeCapturedGraph : public CapturedGraph {
 public:
  FakeCapturedGraph(FakeAsyncDevice& device, std::shared_ptr<const FakeCapture> work)
      : device_(device), work_(std::move(work)) {}
  void launch() override {
    device_.queue([work = work_, preferred = launches_++] { work->run(preferred); });
    ++device_.replays_;
  }

 private:
  FakeAsyncDevice& device_;
  std::shared_ptr<const FakeCapture> work_;
  std::size_t launches_ = 0;
};

std::unique_ptr<CapturedGraph> FakeAsyncDevice::capture(const std::function<void()>& work) {
  const auto capture = std::make_shared<FakeCapture>(lane());
  work();
  capture->end();
  return std::make_unique<FakeCapturedGraph>(*this, capture);
}

void FakeAsyncDevice::stall(double seconds) {
  stalls_until_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                         std::chrono::duration<double>(seconds));
}

int FakeAsyncDevice::queues_at_work() const {
  return static_cast<int>(std::count_if(lanes_.begin(), lanes_.end(), [](const std::weak_ptr<Lane>& w) {
    const auto lane = w.lock();
    return lane && !lane->idle();
  }));
}

}  // namespace keelson::testing
