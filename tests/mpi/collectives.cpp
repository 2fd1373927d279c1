#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicators.hpp"
#include "comm/mpi/support.hpp"
#include "comm/on_device.hpp"
#include "engine/base/error.hpp"
#include "tests/mpi/device_array.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {
namespace {

using Kind = CollectiveDesc::Kind;
using Element = CollectiveDesc::Element;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

/// Every kind of communication, on the host's memory and on a device's, staged and by MPI itself.
class CollectivesTest : public MpiTest, public ::testing::WithParamInterface<const char*> {
 protected:
  using Reach = FakeAsyncDevice::Reach;
  CollectivesTest() {
    const std::string way = GetParam();
    if (way == "host") return;
    device = std::make_unique<FakeAsyncDevice>(way == "staged" ? Reach::device : Reach::libraries);
    on_device = comm::on_device(world(), *device, way);
    comm = on_device.get();
  }
  DeviceArray<std::int32_t> ints(std::size_t count) { return {device.get(), count}; }
  DeviceArray<float> floats(std::size_t count) { return {device.get(), count}; }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  int next() const { return (rank() + 1) % size(); }
  int last() const { return (rank() + size() - 1) % size(); }

  std::unique_ptr<FakeAsyncDevice> device;  ///< null: the host's memory
  std::unique_ptr<Communicator> on_device;
  Communicator* comm = &world();
};

INSTANTIATE_TEST_SUITE_P(Memories, CollectivesTest, ::testing::Values("host", "staged", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

/// `count` values that nobody else has.
Ints of(int from, int to, int step, std::size_t count) {
  Ints v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = ((from * 8 + to) * 8 + step) * 100000 + static_cast<std::int32_t>(i);
  return v;
}

void append(Ints& to, const Ints& from) { to.insert(to.end(), from.begin(), from.end()); }

void run(Collective& collective) {
  collective.start();
  collective.wait();
  EXPECT_TRUE(collective.test());
}

const std::vector<std::size_t> counts{0, 1, 7, 10001};
constexpr std::size_t int_bytes = sizeof(std::int32_t);

TEST_P(CollectivesTest, ReduceScatters) {
  for (const std::size_t count : counts) {
    auto src = floats(count * ranks()), dst = floats(count);
    const auto sum =
        comm->make_collective({Kind::reduce_scatter, src.data(), dst.data(), count, Element::f32, 0, "sums"});
    for (int step = 0; step < 3; ++step) {
      Floats mine(src.size()), expected(count);
      for (std::size_t i = 0; i < mine.size(); ++i)
        mine[i] = static_cast<float>(i % 97) + static_cast<float>(step + rank());
      for (std::size_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(rank()) * count + i;
        expected[i] = static_cast<float>(size()) * (static_cast<float>(at % 97) + static_cast<float>(step)) +
                      static_cast<float>(size()) * static_cast<float>(size() - 1) / 2;
      }
      src = mine;
      run(*sum);
      EXPECT_EQ(dst.values(), expected) << count;
      EXPECT_EQ(src.values(), mine) << "the source changed";
    }
  }
}

TEST_P(CollectivesTest, Allgathers) {
  for (const std::size_t count : counts) {
    auto src = ints(count), dst = ints(count * ranks());
    const auto gather =
        comm->make_collective({Kind::allgather, src.data(), dst.data(), count * int_bytes, Element::byte, 0, "parts"});
    for (int step = 0; step < 3; ++step) {
      Ints expected;
      for (int r = 0; r < size(); ++r) append(expected, of(r, 0, step, count));
      src = of(rank(), 0, step, count);
      run(*gather);
      EXPECT_EQ(dst.values(), expected) << count;
    }
  }
}

TEST_P(CollectivesTest, ExchangesPartsInPlace) {
  if (GetParam() == std::string("mpi")) {
    KEELSON_NEED_RANKS(2);
    auto data = floats(ranks());
    EXPECT_THROW(comm->make_collective({.kind = Kind::reduce_scatter,
                                        .src = data.data(),
                                        .dst = data.data() + rank(),
                                        .count = 1,
                                        .element = Element::f32,
                                        .label = "parts",
                                        .consumes_src = true}),
                 InputError);
    return;
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{300'001}}) {
    auto data = floats(count * ranks());
    float* const mine = data.data() + static_cast<std::size_t>(rank()) * count;
    const auto sum = comm->make_collective({.kind = Kind::reduce_scatter,
                                            .src = data.data(),
                                            .dst = mine,
                                            .count = count,
                                            .element = Element::f32,
                                            .label = "sums",
                                            .consumes_src = true});
    const auto gather = comm->make_collective({.kind = Kind::allgather,
                                               .src = mine,
                                               .dst = data.data(),
                                               .count = count * sizeof(float),
                                               .label = "all sums"});
    for (int step = 0; step < 2; ++step) {
      Floats terms(data.size()), expected(data.size());
      for (std::size_t i = 0; i < terms.size(); ++i) {
        terms[i] = static_cast<float>(i % 97) + static_cast<float>(step + rank());
        expected[i] = static_cast<float>(size()) * (static_cast<float>(i % 97) + static_cast<float>(step)) +
                      static_cast<float>(size()) * static_cast<float>(size() - 1) / 2;
      }
      data = terms;
      run(*sum);
      run(*gather);
      EXPECT_EQ(data.values(), expected) << count;
    }
  }
}

TEST_P(CollectivesTest, SendsAllToAll) {
  for (const std::size_t count : counts) {
    auto src = ints(count * ranks()), dst = ints(count * ranks());
    const auto exchange = comm->make_collective(
        {Kind::all_to_all, src.data(), dst.data(), count * int_bytes, Element::byte, 0, "transposed"});
    for (int step = 0; step < 3; ++step) {
      Ints mine, expected;
      for (int r = 0; r < size(); ++r) {
        append(mine, of(rank(), r, step, count));
        append(expected, of(r, rank(), step, count));
      }
      src = mine;
      run(*exchange);
      EXPECT_EQ(dst.values(), expected) << count;
      EXPECT_EQ(src.values(), mine) << "the source changed";
    }
  }
}

TEST_P(CollectivesTest, BroadcastsFromEveryRoot) {
  for (const std::size_t count : counts)
    for (int root = 0; root < size(); ++root) {
      auto data = ints(count);
      const auto broadcast = comm->make_broadcast(data.data(), count * int_bytes, root, "weights");
      for (int step = 0; step < 3; ++step) {
        data = rank() == root ? of(root, 0, step, count) : Ints(count, -1);
        run(*broadcast);
        EXPECT_EQ(data.values(), of(root, 0, step, count)) << count << " from " << root;
      }
    }
}

TEST_P(CollectivesTest, SendsRoundARing) {
  for (const std::size_t count : counts) {
    auto src = ints(count), dst = ints(count);
    const auto send = comm->make_send(src.data(), count * int_bytes, next(), "edge");
    const auto receive = comm->make_receive(dst.data(), count * int_bytes, last(), "halo");
    for (int step = 0; step < 4; ++step) {
      src = of(rank(), next(), step, count);
      // All send first, then all receive first, then every second rank so.
      const bool send_first = step == 0 || (step >= 2 && (rank() + step) % 2 == 0);
      (send_first ? send : receive)->start();
      comm->progress().advance();
      (send_first ? receive : send)->start();
      (step == 3 ? send : receive)->wait();
      (step == 3 ? receive : send)->wait();
      EXPECT_EQ(dst.values(), of(last(), rank(), step, count)) << count;
    }
  }
}

TEST_P(CollectivesTest, ExchangesEdgesOfALine) {
  constexpr std::size_t count = 1001;
  const int below = rank() - 1, above = rank() + 1 < size() ? rank() + 1 : -1;
  auto low = ints(count), high = ints(count), from_below = ints(count), from_above = ints(count);
  std::vector<std::unique_ptr<Collective>> halo;
  halo.push_back(comm->make_send(low.data(), count * int_bytes, below, "low edge"));
  halo.push_back(comm->make_send(high.data(), count * int_bytes, above, "high edge"));
  halo.push_back(comm->make_receive(from_below.data(), count * int_bytes, below, "low halo"));
  halo.push_back(comm->make_receive(from_above.data(), count * int_bytes, above, "high halo"));
  for (int step = 0; step < 3; ++step) {
    low = of(rank(), 0, step, count);
    high = of(rank(), 1, step, count);
    from_below = Ints(count, -1);
    from_above = Ints(count, -1);
    for (const auto& part : halo) part->start();
    for (const auto& part : halo) part->wait();
    for (const auto& part : halo) EXPECT_TRUE(part->test());
    EXPECT_EQ(from_below.values(), below < 0 ? Ints(count, -1) : of(below, 1, step, count));
    EXPECT_EQ(from_above.values(), above < 0 ? Ints(count, -1) : of(above, 0, step, count));
  }
}

/// Two messages of other lengths between the same ranks find their receives by the order of their making, also when one
/// rank has made its own anew.
TEST_P(CollectivesTest, MatchesMessagesInTheOrderOfTheirMaking) {
  auto a = ints(5), b = ints(70000), into_a = ints(5), into_b = ints(70000);
  std::unique_ptr<Collective> send_a, send_b, receive_a, receive_b;
  const auto make = [&] {
    send_a.reset(), send_b.reset(), receive_a.reset(), receive_b.reset();
    send_a = comm->make_send(a.data(), a.size() * int_bytes, next(), "a");
    receive_a = comm->make_receive(into_a.data(), a.size() * int_bytes, last(), "a");
    send_b = comm->make_send(b.data(), b.size() * int_bytes, next(), "b");
    receive_b = comm->make_receive(into_b.data(), b.size() * int_bytes, last(), "b");
  };
  make();
  for (int step = 0; step < 3; ++step) {
    if (rank() % 2 == 1) make();
    a = of(rank(), 0, step, a.size());
    b = of(rank(), 1, step, b.size());
    for (auto* each : {&send_a, &send_b, &receive_a, &receive_b}) (*each)->start();
    receive_b->wait();
    receive_a->wait();
    send_a->wait();
    send_b->wait();
    EXPECT_EQ(into_a.values(), of(last(), 0, step, a.size()));
    EXPECT_EQ(into_b.values(), of(last(), 1, step, b.size()));
  }
}

/// A wait for one message needs only that one: the peer of an older one may be waiting for what comes after.
TEST_P(CollectivesTest, WaitsForOneMessageOnly) {
  KEELSON_NEED_RANKS(2);
  auto answer = ints(3000), question = ints(3000), more = ints(3000);
  if (rank() > 1) return;
  const auto make = [&](bool sends, DeviceArray<std::int32_t>& array, const char* label) {
    return sends ? comm->make_send(array.data(), array.size() * int_bytes, 1 - rank(), label)
                 : comm->make_receive(array.data(), array.size() * int_bytes, 1 - rank(), label);
  };
  const auto answers = make(rank() == 1, answer, "answer");
  const auto questions = make(rank() == 0, question, "question");
  const auto others = make(rank() == 0, more, "more");
  if (rank() == 0) {
    question = of(0, 1, 0, 3000);
    more = of(0, 1, 1, 3000);
    answers->start();
    questions->start();
    questions->wait();
    others->start();
    others->wait();
    answers->wait();
  } else {
    answer = of(1, 0, 0, 3000);
    run(*questions);
    run(*others);
    run(*answers);
  }
  EXPECT_EQ(answer.values(), of(1, 0, 0, 3000));
  EXPECT_EQ(question.values(), of(0, 1, 0, 3000));
  EXPECT_EQ(more.values(), of(0, 1, 1, 3000));
}

TEST_P(CollectivesTest, OverlapsAllKinds) {
  constexpr std::size_t count = 5003;
  auto gradient = floats(count), shards = floats(count * ranks()), shard = floats(count), edge = floats(count),
       halo = floats(count), weights = floats(count);
  std::vector<std::unique_ptr<Collective>> all;
  all.push_back(
      comm->make_collective({Kind::reduce_scatter, shards.data(), shard.data(), count, Element::f32, 0, "shards"}));
  all.push_back(comm->make_send(edge.data(), count * sizeof(float), next(), "edge"));
  all.push_back(comm->make_receive(halo.data(), count * sizeof(float), last(), "halo"));
  all.push_back(comm->make_allreduce(gradient.data(), count, "gradient"));
  all.push_back(comm->make_broadcast(weights.data(), count * sizeof(float), size() - 1, "weights"));
  for (int step = 0; step < 3; ++step) {
    const auto value = static_cast<float>(step + 1);
    gradient = Floats(count, value);
    shards = Floats(count * ranks(), 2 * value);
    edge = Floats(count, value + static_cast<float>(rank()));
    weights = Floats(count, rank() == size() - 1 ? value : -1);
    for (const auto& each : all) {
      each->start();
      comm->progress().advance();
    }
    double one = 1;
    comm->allreduce(&one, 1, Reduction::sum);  // another call comes between
    EXPECT_EQ(one, size());
    for (std::size_t i = all.size(); i-- > 0;) all[i]->wait();
    EXPECT_EQ(gradient.values(), Floats(count, value * static_cast<float>(size())));
    EXPECT_EQ(shard.values(), Floats(count, 2 * value * static_cast<float>(size())));
    EXPECT_EQ(halo.values(), Floats(count, value + static_cast<float>(last())));
    EXPECT_EQ(weights.values(), Floats(count, value));
  }
}

TEST_P(CollectivesTest, TestingAloneCompletes) {
  auto edge = ints(30000), halo = ints(30000);
  const auto send = comm->make_send(edge.data(), edge.size() * int_bytes, next(), "edge");
  const auto receive = comm->make_receive(halo.data(), halo.size() * int_bytes, last(), "halo");
  EXPECT_TRUE(send->test());  // never started
  EXPECT_TRUE(receive->test());
  edge = of(rank(), 0, 0, 30000);
  send->start();
  receive->start();
  while (!receive->test()) {
  }
  while (!send->test()) {
  }
  EXPECT_EQ(halo.values(), of(last(), 0, 0, 30000));
}

TEST_P(CollectivesTest, RefusesRanksThatAreNone) {
  auto data = ints(1);
  EXPECT_THROW(comm->make_send(data.data(), 4, size(), "edge"), Error);
  EXPECT_THROW(comm->make_broadcast(data.data(), 4, -1, "weights"), Error);
  EXPECT_THROW(comm->make_collective({.src = data.data(), .dst = data.data(), .count = 4, .label = "bytes"}), Error)
      << "bytes have no sum";
  run(*comm->make_receive(data.data(), 4, -1, "halo"));
}

/// What is longer than an int counts goes in pieces: here in short ones.
class PiecesTest : public CollectivesTest {
 protected:
  PiecesTest() { comm::detail::piece = 1000; }
  ~PiecesTest() override { comm::detail::piece = longest_; }

 private:
  std::size_t longest_ = comm::detail::piece;
};

INSTANTIATE_TEST_SUITE_P(Memories, PiecesTest, ::testing::Values("host", "staged", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PiecesTest, ArriveWhereTheyBelong) {
  constexpr std::size_t count = 1100;  // 4400 bytes: five pieces, and two of floats
  auto sums = floats(count), shards = floats(count * ranks()), shard = floats(count);
  auto mine = ints(count), all = ints(count * ranks()), out = ints(count * ranks()), in = ints(count * ranks()),
       weights = ints(count), edge = ints(count), halo = ints(count);
  const std::size_t bytes = count * int_bytes;
  std::vector<std::unique_ptr<Collective>> every;
  every.push_back(comm->make_allreduce(sums.data(), count, "sums"));
  every.push_back(
      comm->make_collective({Kind::reduce_scatter, shards.data(), shard.data(), count, Element::f32, 0, "shards"}));
  every.push_back(comm->make_collective({Kind::allgather, mine.data(), all.data(), bytes, Element::byte, 0, "parts"}));
  every.push_back(
      comm->make_collective({Kind::all_to_all, out.data(), in.data(), bytes, Element::byte, 0, "transposed"}));
  every.push_back(comm->make_broadcast(weights.data(), bytes, 0, "weights"));
  every.push_back(comm->make_send(edge.data(), bytes, next(), "edge"));
  every.push_back(comm->make_receive(halo.data(), bytes, last(), "halo"));

  Floats numbers(count * ranks());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  Ints sent, gathered, expected;
  for (int r = 0; r < size(); ++r) {
    append(sent, of(rank(), r, 0, count));
    append(gathered, of(r, 0, 1, count));
    append(expected, of(r, rank(), 0, count));
  }
  shards = numbers;
  sums = Floats(numbers.begin(), numbers.begin() + count);
  mine = of(rank(), 0, 1, count);
  out = sent;
  weights = rank() == 0 ? of(0, 0, 2, count) : Ints(count, -1);
  edge = of(rank(), next(), 3, count);
  for (const auto& each : every) each->start();
  for (const auto& each : every) each->wait();

  Floats summed = numbers;
  for (float& s : summed) s *= static_cast<float>(size());
  EXPECT_EQ(sums.values(), Floats(summed.begin(), summed.begin() + count));
  const auto first = summed.begin() + static_cast<std::ptrdiff_t>(count) * rank();
  EXPECT_EQ(shard.values(), Floats(first, first + count));
  EXPECT_EQ(all.values(), gathered);
  EXPECT_EQ(in.values(), expected);
  EXPECT_EQ(weights.values(), of(0, 0, 2, count));
  EXPECT_EQ(halo.values(), of(last(), rank(), 3, count));
}

}  // namespace
}  // namespace keelson::testing
