#include "comm/on_device.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/communicators.hpp"
#include "comm/watch/watched_call.hpp"
#include "engine/base/error.hpp"
#include "tests/mpi/device_array.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {
namespace {

using Kind = CollectiveDesc::Kind;
using Element = CollectiveDesc::Element;
using Reach = FakeAsyncDevice::Reach;

template <class T>
std::vector<T> waves(std::size_t count, int rank, int step) {
  std::vector<T> v(count);
  for (std::size_t i = 0; i < count; ++i)
    v[i] = static_cast<T>(std::sin(static_cast<double>(i + 1) * (rank + 1) + 0.1 * step));
  return v;
}

/// Sums over any number of ranks are exact: the order of summation, which differs between transports, does not show.
template <class T>
std::vector<T> exact_waves(std::size_t count, int rank, int step) {
  auto v = waves<T>(count, rank, step);
  for (T& x : v) x = std::round(x * 1024) / 1024;
  return v;
}

/// What the world's own reduction makes of the same numbers in host memory.
template <class T>
std::vector<T> summed_on_hosts(std::vector<T> values) {
  const auto sum = world().make_allreduce(values.data(), values.size(), "on hosts");
  sum->start();
  sum->wait();
  return values;
}

class OnDeviceTest : public MpiTest, public ::testing::WithParamInterface<const char*> {
 protected:
  bool staged() const { return std::string(GetParam()) == "staged"; }
  FakeAsyncDevice device{staged() ? Reach::device : Reach::libraries};
  std::unique_ptr<Communicator> comm = comm::on_device(world(), device, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Transports, OnDeviceTest, ::testing::Values("staged", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OnDeviceTest, SaysHow) {
  EXPECT_EQ(comm->transport(), size() == 1 ? "" : staged() ? "staged through host memory" : "CUDA-aware MPI");
}

TEST_P(OnDeviceTest, SumsManyBucketsLikeHostsDo) {
  const std::vector<std::size_t> counts{3, 100000, 1, 0, 20000};
  std::vector<DeviceArray<float>> arrays;
  std::vector<std::unique_ptr<Collective>> sums;
  for (std::size_t count : counts) {
    arrays.emplace_back(device, count);
    sums.push_back(comm->make_allreduce(arrays.back().data(), count, "bucket " + std::to_string(sums.size())));
  }
  DeviceArray<double> loss(device, 2);
  const auto loss_sum = comm->make_allreduce(loss.data(), loss.size(), "loss");
  for (int step = 0; step < 3; ++step) {
    loss = exact_waves<double>(loss.size(), rank(), step);
    loss_sum->start();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      arrays[i] = exact_waves<float>(counts[i], rank(), step);
      sums[i]->start();
      // Each rank gets on at its own pace, and all meet in other calls in between.
      for (int n = 0; n < 3 * rank() + step; ++n) comm->progress().advance();
      if (i == 2) {
        std::int64_t one = 1;
        comm->allreduce(&one, 1, Reduction::sum);
        EXPECT_EQ(one, size());
      }
    }
    for (std::size_t i = sums.size(); i-- > 0;) sums[i]->wait();
    loss_sum->wait();
    EXPECT_TRUE(loss_sum->test());
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_EQ(arrays[i].values(), summed_on_hosts(exact_waves<float>(counts[i], rank(), step))) << counts[i];
    EXPECT_EQ(loss.values(), summed_on_hosts(exact_waves<double>(loss.size(), rank(), step)));
  }
}

TEST_P(OnDeviceTest, TakesItsPlaceAmongTheDevicesWork) {
  KEELSON_NEED_RANKS(2);
  DeviceArray<float> array(device, 1000), before(device, 1000), after(device, 1000);
  const auto bytes = array.size() * sizeof(float);
  const auto sum = comm->make_allreduce(array.data(), array.size(), "array");
  before = std::vector<float>(1000, 1.0f);
  device.copy(array.data(), before.data(), bytes);
  sum->start();
  EXPECT_FALSE(device.idle()) << "start() waited for the device";
  device.copy(after.data(), before.data(), bytes);  // nobody waits for it: it may run beside the exchange
  sum->wait();
  EXPECT_FALSE(device.idle()) << "wait() waited for work queued after start()";
  EXPECT_EQ(device.queues_at_work(), staged() ? 1 : 0) << "the host need not wait for the copy back";
  device.copy(after.data(), array.data(), bytes);
  EXPECT_EQ(after.values(), std::vector<float>(1000, static_cast<float>(size())));
}

TEST_P(OnDeviceTest, GathersRows) {
  DeviceArray<std::int32_t> mine(device, 5), all(device, 5 * static_cast<std::size_t>(size()));
  const auto gather = comm->make_collective(
      {Kind::allgather, mine.data(), all.data(), 5 * sizeof(std::int32_t), Element::byte, 0, "rows"});
  for (int step = 0; step < 3; ++step) {
    std::vector<std::int32_t> own(5), expected;
    for (int r = 0; r < size(); ++r) {
      std::iota(own.begin(), own.end(), 100 * r + step);
      expected.insert(expected.end(), own.begin(), own.end());
    }
    std::iota(own.begin(), own.end(), 100 * rank() + step);
    mine = own;
    gather->start();
    gather->wait();
    EXPECT_EQ(all.values(), expected);
    EXPECT_EQ(mine.values(), own);
  }
}

TEST_P(OnDeviceTest, TestingAloneCompletes) {
  DeviceArray<float> array(device, 30000);
  const auto sum = comm->make_allreduce(array.data(), array.size(), "array");
  EXPECT_TRUE(sum->test());  // never started
  array = std::vector<float>(array.size(), 1.0f);
  sum->start();
  while (!sum->test()) {
  }
  // What is done is done: also for work that does not wait for the collective.
  EXPECT_EQ(device.queues_at_work(), 0);
  EXPECT_EQ(array.values(), std::vector<float>(array.size(), static_cast<float>(size())));
}

TEST_P(OnDeviceTest, SplitsIntoGroups) {
  const auto half = comm->split(rank() % 2, rank());
  DeviceArray<float> array(device, 10);
  const auto sum = half->make_allreduce(array.data(), array.size(), "array");
  array = std::vector<float>(10, 1.0f);
  sum->start();
  sum->wait();
  const int ranks = (size() + 1 - rank() % 2) / 2;
  EXPECT_EQ(array.values(), std::vector<float>(10, static_cast<float>(ranks)));
  EXPECT_EQ(comm->split(-1, 0), nullptr);
}

TEST_P(OnDeviceTest, LeavesTheHostsArraysToTheWorld) {
  DeviceArray<float> array(device, 10);
  array = std::vector<float>(10, 1.0f);
  std::vector<double> vote{1.0};
  const auto sum = comm->make_allreduce(array.data(), array.size(), "array");
  const auto votes = comm->on_host().make_allreduce(vote.data(), 1, "vote");
  sum->start();
  votes->start();
  while (!votes->test()) comm->progress().advance();
  EXPECT_EQ(vote[0], size());
  sum->wait();
  EXPECT_EQ(array.values(), std::vector<float>(10, static_cast<float>(size())));
}

TEST_P(OnDeviceTest, SurvivesAnException) {
  DeviceArray<float> array(device, 1000);
  const auto throw_while_under_way = [&] {
    const auto first = comm->make_allreduce(array.data(), 500, "first");
    const auto second = comm->make_allreduce(array.data() + 500, 500, "second");
    second->start();
    first->start();
    throw std::runtime_error("bad luck");
  };
  EXPECT_THROW(throw_while_under_way(), std::runtime_error);
  // All ranks threw before MPI saw anything, so that they can go on together.
  const auto sum = comm->make_allreduce(array.data(), array.size(), "array");
  array = std::vector<float>(array.size(), 1.0f);
  sum->start();
  sum->wait();
  EXPECT_EQ(array.values(), std::vector<float>(array.size(), static_cast<float>(size())));
}

TEST_P(OnDeviceTest, EndsWhatIsUnderWay) {
  DeviceArray<float> array(device, 1000);
  array = std::vector<float>(array.size(), 1.0f);
  comm->make_allreduce(array.data(), array.size(), "array")->start();
  EXPECT_EQ(array.values(), std::vector<float>(array.size(), static_cast<float>(size())));
}

/// What the non-blocking collectives of MPI were given. The functions below stand before MPI's own.
std::vector<const void*> given_without_waiting;

TEST(OnDeviceByMpi, GivesTheDevicesMemoryToBlockingCollectivesAlone) {
  KEELSON_NEED_RANKS(2);
  FakeAsyncDevice device(Reach::libraries);
  const auto comm = comm::on_device(world(), device, "mpi");
  const auto ranks = static_cast<std::size_t>(world().size());
  DeviceArray<float> one(device, 30), all(device, 30 * ranks), sums(device, 30);
  given_without_waiting.clear();
  const auto run = [](const std::unique_ptr<Collective>& c) {
    c->start();
    c->wait();
  };
  run(comm->make_allreduce(one.data(), 30, "allreduce"));
  run(comm->make_collective({Kind::allgather, one.data(), all.data(), 120, Element::byte, 0, "allgather"}));
  run(comm->make_collective(
      {Kind::all_to_all, all.data(), all.data() + 15 * ranks, 60, Element::byte, 0, "all-to-all"}));
  run(comm->make_broadcast(one.data(), 120, 0, "broadcast"));
  run(comm->make_collective({Kind::reduce_scatter, all.data(), sums.data(), 30, Element::f32, 0, "reduce-scatter"}));
  std::vector<float> host(30);
  run(comm->on_host().make_broadcast(host.data(), 120, 0, "on the host"));
  EXPECT_EQ(given_without_waiting, std::vector<const void*>{host.data()});
}

class OnDeviceChoice : public MpiTest {
 protected:
  void TearDown() override {
    unsetenv("KEELSON_COLLECTIVES");
    MpiTest::TearDown();
  }
};

TEST_F(OnDeviceChoice, LeavesHostMemoryToTheWorld) {
  Device& device = context("kokkos").device();
  if (!device.shares_host_memory()) GTEST_SKIP() << "this build computes on " << device.describe();
  const auto comm = comm::on_device(world(), device, "staged");
  EXPECT_EQ(comm->transport(), world().transport());
  std::vector<float> data(10, 1.0f);
  const auto sum = comm->make_allreduce(data.data(), data.size(), "data");
  sum->start();
  comm->progress().advance();
  sum->wait();
  EXPECT_EQ(data, std::vector<float>(10, static_cast<float>(size())));
}

/// On a GPU, also for one rank, so that a machine with one GPU calls NCCL.
TEST_F(OnDeviceChoice, SumsByNcclOnRequest) {
  Device& device = context("kokkos").device();
  if (device.shares_host_memory()) GTEST_SKIP() << "this build computes on " << device.describe();
  std::unique_ptr<Communicator> comm;
  try {
    comm = comm::on_device(world(), device, "nccl");
  } catch (const InputError& refusal) {
    GTEST_SKIP() << refusal.what();
  }
  EXPECT_EQ(comm->transport().rfind("NCCL ", 0), 0) << comm->transport();
  DeviceArray<float> one(device, 1000), all(device, 1000 * static_cast<std::size_t>(size()));
  const auto sum = comm->make_allreduce(one.data(), one.size(), "sum");
  const auto rows =
      comm->make_collective({Kind::allgather, one.data(), all.data(), 4000, Element::byte, 0, "rows of all"});
  for (int step = 0; step < 3; ++step) {
    const auto mine = exact_waves<float>(1000, rank(), step);
    one = mine;
    sum->start();
    rows->start();
    rows->wait();
    sum->wait();
    const auto expected = summed_on_hosts(mine);
    EXPECT_EQ(one.values(), expected);
    auto first = all.values();
    first.resize(expected.size());
    EXPECT_EQ(first, expected);
  }
}

TEST_F(OnDeviceChoice, HeedsTheVariable) {
  FakeAsyncDevice device(Reach::libraries);
  setenv("KEELSON_COLLECTIVES", "mpi", 1);
  EXPECT_EQ(comm::on_device(world(), device, "staged")->transport(), size() == 1 ? "" : "CUDA-aware MPI");
  for (const char* wish : {"", "auto", "staged"}) {
    setenv("KEELSON_COLLECTIVES", wish, 1);
    // If the build has NCCL, the transport also says why it is not used.
    const std::string transport = comm::on_device(world(), device)->transport();
    EXPECT_TRUE(size() == 1 ? transport.empty() : transport.starts_with("staged through host memory"))
        << wish << ": " << transport;
  }
  setenv("KEELSON_COLLECTIVES", "pigeon", 1);
  EXPECT_THROW(comm::on_device(world(), device), InputError);
  unsetenv("KEELSON_COLLECTIVES");
  KEELSON_NEED_RANKS(2);
  setenv("KEELSON_COLLECTIVES", rank() == 0 ? "mpi" : "staged", 1);
  EXPECT_THROW(comm::on_device(world(), device), InputError);
}

/// A world whose reports are kept, under a communicator on a device.
class OnDeviceWatchdog : public MpiTest {
 protected:
  static constexpr double limit = 2, late_by = 4.5;

  void SetUp() override {
    comm::WatchdogOptions watchdog;
    watchdog.seconds = limit;
    watchdog.report = [this](const std::string& text) { reports += text + "\n"; };
    watched = comm::make_world(watchdog);
    comm = comm::on_device(*watched, device, "staged");
    array = std::vector<float>(array.size(), 1.0f);
    comm->barrier();
  }
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
  void expect_report(const std::string& part) const {
    EXPECT_NE(reports.find(part), std::string::npos) << "rank " << rank() << " reported '" << reports << "'";
  }

  std::string reports;
  FakeAsyncDevice device{Reach::device};
  std::unique_ptr<Communicator> watched, comm;
  DeviceArray<float> array{device, 10};
};

TEST_F(OnDeviceWatchdog, NamesTheLateRank) {
  KEELSON_NEED_RANKS(2);
  {
    const auto sum = comm->make_allreduce(array.data(), array.size(), "gradient bucket 3");
    if (rank() == 1) sleep(late_by);
    sum->start();
    sum->wait();
  }
  if (rank() == 0) expect_report("for gradient bucket 3; not waiting for it: rank 1 (");
}

TEST_F(OnDeviceWatchdog, NamesTheRankWhoseDeviceIsLate) {
  KEELSON_NEED_RANKS(2);
  {
    const auto sum = comm->make_allreduce(array.data(), array.size(), "gradient bucket 3");
    if (rank() == 1) device.stall(late_by);
    sum->start();
    sum->wait();
  }
  EXPECT_EQ(array.values(), std::vector<float>(array.size(), static_cast<float>(size())));
  if (rank() == 0) expect_report("for gradient bucket 3; waiting for an earlier call: rank 1 (");
}

TEST_F(OnDeviceWatchdog, LooksAtAFence) {
  if (rank() == 0) device.stall(late_by);
  device.fence();
  comm->barrier();
  if (rank() == 0 && size() > 1) expect_report("s for the device's work");
}

TEST_F(OnDeviceWatchdog, LooksAtACopyToTheHost) {
  if (rank() == 0) device.stall(late_by);
  EXPECT_EQ(array.values(), std::vector<float>(array.size(), 1.0f));
  comm->barrier();
  if (rank() == 0 && size() > 1) expect_report("s for the device's work");
}

TEST_F(OnDeviceWatchdog, LooksAtALibrarysOwnWait) {
  comm::detail::call_watched(*watched, "the library's start", [late = rank() == 0] {
    if (late) sleep(late_by);
  });
  comm->barrier();
  if (rank() == 0 && size() > 1) expect_report("s for the library's start");
  EXPECT_THROW(comm::detail::call_watched(*watched, "", [] { throw Error("NCCL: no"); }), Error);
}

TEST_F(OnDeviceWatchdog, ReportsForWhoeverPolls) {
  KEELSON_NEED_RANKS(2);
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  for (double seconds = 0; rank() != 1 && seconds < late_by; sleep(0.01)) {
    seconds = std::chrono::duration<double>(clock::now() - begin).count();
    comm->watchdog().poll("the loss of step 12", seconds);
  }
  if (rank() == 1) sleep(late_by);
  comm->barrier();
  if (rank() == 0) expect_report("for the loss of step 12; not waiting for it: rank 1 (");
}

/// A world whose reports are kept, with MPI on the device's memory.
TEST_F(OnDeviceWatchdog, NamesTheRankThatABlockingCallWouldWaitFor) {
  KEELSON_NEED_RANKS(2);
  FakeAsyncDevice reachable(Reach::libraries);
  const auto by_mpi = comm::on_device(*watched, reachable, "mpi");
  DeviceArray<float> values(reachable, 10);
  {
    const auto sum = by_mpi->make_allreduce(values.data(), values.size(), "gradient bucket 3");
    if (rank() == 1) sleep(late_by);
    sum->start();
    sum->wait();
  }
  if (rank() == 0) expect_report("for gradient bucket 3; not waiting for it: rank 1 (");
}

}  // namespace

void note_buffer(const void* buffer) { given_without_waiting.push_back(buffer); }

}  // namespace keelson::testing

extern "C" {

int MPI_Iallreduce(const void* src, void* dst, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  keelson::testing::note_buffer(dst);
  return PMPI_Iallreduce(src, dst, count, type, op, comm, request);
}
int MPI_Ireduce(const void* src, void* dst, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  keelson::testing::note_buffer(src);
  return PMPI_Ireduce(src, dst, count, type, op, root, comm, request);
}
int MPI_Ireduce_scatter_block(const void* src, void* dst, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  keelson::testing::note_buffer(src);
  return PMPI_Ireduce_scatter_block(src, dst, count, type, op, comm, request);
}
int MPI_Iallgather(const void* src, int src_count, MPI_Datatype src_type, void* dst, int dst_count,
                   MPI_Datatype dst_type, MPI_Comm comm, MPI_Request* request) {
  keelson::testing::note_buffer(src);
  return PMPI_Iallgather(src, src_count, src_type, dst, dst_count, dst_type, comm, request);
}
int MPI_Ialltoall(const void* src, int src_count, MPI_Datatype src_type, void* dst, int dst_count,
                  MPI_Datatype dst_type, MPI_Comm comm, MPI_Request* request) {
  keelson::testing::note_buffer(src);
  return PMPI_Ialltoall(src, src_count, src_type, dst, dst_count, dst_type, comm, request);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  keelson::testing::note_buffer(data);
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
}
