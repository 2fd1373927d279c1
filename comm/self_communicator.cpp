#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"

namespace keelson::comm {
namespace {

/// The sum over one rank is there from the start.
class SelfCollective final : public Collective {
 public:
  void start() override {}
  bool test() override { return true; }
  void wait() override {}
};

class SelfAllgather final : public Collective {
 public:
  SelfAllgather(const void* mine, void* all, std::size_t bytes) : mine_(mine), all_(all), bytes_(bytes) {}
  void start() override { std::memmove(all_, mine_, bytes_); }
  bool test() override { return true; }
  void wait() override {}

 private:
  const void* mine_;
  void* all_;
  std::size_t bytes_;
};

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  int node() const override { return 0; }
  int nodes() const override { return 1; }
  std::string host() const override { return host_name(); }
  std::unique_ptr<Communicator> split(int color, int) override {
    return color < 0 ? nullptr : std::make_unique<SelfCommunicator>();
  }

  void barrier() override {}
  void broadcast(void*, std::size_t, int root) override { KEELSON_EXPECT(root == 0); }
  void allreduce(double*, std::size_t, Reduction) override {}
  void allreduce(std::int64_t*, std::size_t, Reduction) override {}
  void allreduce(float*, std::size_t, Reduction) override {}
  std::vector<std::string> allgather(const std::string& text) override { return {text}; }
  std::vector<float> gather(const std::vector<float>& mine, int root) override {
    KEELSON_EXPECT(root == 0);
    return mine;
  }
  std::unique_ptr<Collective> make_allreduce(float*, std::size_t, const std::string&) override {
    return std::make_unique<SelfCollective>();
  }
  std::unique_ptr<Collective> make_allreduce(double*, std::size_t, const std::string&) override {
    return std::make_unique<SelfCollective>();
  }
  std::unique_ptr<Collective> make_allgather(const void* mine, void* all, std::size_t bytes,
                                             const std::string&) override {
    return std::make_unique<SelfAllgather>(mine, all, bytes);
  }
  void progress() override {}

  void abort(int exit_code) override {
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self() { return std::make_unique<SelfCommunicator>(); }

}  // namespace keelson::comm
