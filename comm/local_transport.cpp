#include "comm/detail/transport.hpp"

namespace keelson::comm::detail {
namespace {

/// Of one rank: the sum is there from the start, and what is gathered is one copy.
class LocalCollective final : public Collective {
 public:
  LocalCollective(Device& device, const void* mine, void* all, std::size_t bytes)
      : device_(device), mine_(mine), all_(all), bytes_(bytes) {}
  void start() override {
    if (bytes_ > 0) device_.copy(all_, mine_, bytes_);
  }
  bool test() override { return true; }
  void wait() override {}

 private:
  Device& device_;
  const void* mine_;
  void* all_;
  std::size_t bytes_;
};

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(Device& device) : device_(device) {}
  std::string describe() const override { return ""; }
  std::unique_ptr<Collective> make_allreduce(float*, std::size_t, const std::string&) override { return nothing(); }
  std::unique_ptr<Collective> make_allreduce(double*, std::size_t, const std::string&) override { return nothing(); }
  std::unique_ptr<Collective> make_allgather(const void* mine, void* all, std::size_t bytes,
                                             const std::string&) override {
    return std::make_unique<LocalCollective>(device_, mine, all, bytes);
  }
  void progress() override {}
  void poll(std::string_view, double) override {}

 private:
  std::unique_ptr<Collective> nothing() {
    return std::make_unique<LocalCollective>(device_, nullptr, nullptr, std::size_t{0});
  }
  Device& device_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(Device& device) { return std::make_unique<LocalTransport>(device); }

}  // namespace keelson::comm::detail
