#include <gtest/gtest.h>

#include <numeric>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/ops/combine.hpp"
#include "engine/plan/node_builder.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"

/// Communication that a layer asks for, in forward and backward, over any axis of the process grid.
namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;
using Kind = CollectiveDesc::Kind;

class PlanCommunication : public MpiTest {};

/// One collective on a sample's values, f32. `factor`: how many times as many values come out.
class Exchange : public Layer {
 public:
  explicit Exchange(CommunicationDesc desc, std::int64_t multiply = 1, std::int64_t divide = 1)
      : desc_(std::move(desc)), multiply_(multiply), divide_(divide) {}
  std::string kind() const override { return "exchange"; }
  ValueShape infer(std::span<const ValueShape> srcs) const override {
    ValueShape s = srcs[0];
    s.shape[1] = s.shape[1] * multiply_ / divide_;
    return s;
  }
  BackwardFn plan(ForwardBuilder& p) const override {
    const Layout layout = Layout::plain(p.src(0).shape);
    const BufferId src = p.src_in(0, layout), dst = p.new_dst(Layout::plain(p.dst_shape()));
    append(p, desc_, src, dst);
    return [back = desc_](BackwardBuilder& b) mutable {
      const Layout plain = Layout::plain(b.desc(b.diff_dst()).shape);
      back.peer = -back.peer;  // gradients go back where values came from
      const BufferId diff_dst = b.diff_dst_in(plain);
      append(b, back, diff_dst, b.new_diff_src(0, plain));
    };
  }
  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("it needs other ranks"); }

 private:
  static void append(NodeBuilder& p, CommunicationDesc d, BufferId src, BufferId dst) {
    if (d.kind == Kind::send) {  // and receive from the other side
      CommunicationDesc receive = d;
      receive.kind = Kind::receive;
      receive.peer = -d.peer;
      d.src = src, receive.dst = dst;
      Call sent = p.start(d), received = p.start(receive);
      p.wait(std::move(received));
      return p.wait(std::move(sent));
    }
    const bool in_place = d.kind == Kind::allreduce || d.kind == Kind::broadcast;
    if (in_place) {
      auto copy = p.make(ops::ReorderDesc{p.desc(src), p.desc(dst)});
      p.forward(std::shared_ptr<ops::Reorder>(std::move(copy)), {.src = src, .dst = dst}, "copy");
    }
    d.src = in_place ? no_buffer : src;
    d.dst = dst;
    p.wait(p.start(d));
  }
  CommunicationDesc desc_;
  std::int64_t multiply_, divide_;
};

/// What comes out where rank r puts in r * 100 + 0, 1, 2, ...
std::vector<float> exchanged(const ProcessGrid& grid, const Exchange& layer, std::int64_t values) {
  Graph g;
  g.set_output("out", g.add(std::make_shared<Exchange>(layer), {g.input("x", {values})}, "exchange"));
  Context& host = context(network_contexts().back());
  Parameters parameters(g, host, 1);
  Executor executor(g, parameters, {.batch = 1, .training = false, .grid = &grid});
  const Tensor x = executor.input("x");
  std::iota(x.data<float>(), x.data<float>() + values, 100.0f * static_cast<float>(world().rank()));
  for (int step = 0; step < 2; ++step) executor.forward({});
  const Tensor out = executor.output("out");
  return {out.data<float>(), out.data<float>() + out.elements()};
}

std::vector<float> from_rank(int rank, std::vector<float> values) {
  for (float& v : values) v += 100.0f * static_cast<float>(rank);
  return values;
}

TEST_F(PlanCommunication, EveryKindOverTheAxisData) {
  const ProcessGrid grid(world());
  const int n = size();
  const auto sum_of_ranks = 50.0f * static_cast<float>(n * (n - 1));
  const auto of = [](Kind kind, int peer = 0) {
    return CommunicationDesc{.kind = kind, .axes = Axis::data, .peer = peer, .label = "test"};
  };
  const auto count = static_cast<float>(n);
  EXPECT_EQ(exchanged(grid, Exchange(of(Kind::allreduce)), 2),
            (std::vector<float>{sum_of_ranks, sum_of_ranks + count}));
  EXPECT_EQ(exchanged(grid, Exchange(of(Kind::broadcast, n - 1)), 2), from_rank(n - 1, {0, 1}));
  std::vector<float> all, transposed;
  for (int r = 0; r < n; ++r) {
    const auto part = from_rank(r, {0, 1});
    all.insert(all.end(), part.begin(), part.end());
    transposed.push_back(from_rank(r, {static_cast<float>(rank())})[0]);
  }
  EXPECT_EQ(exchanged(grid, Exchange(of(Kind::allgather), n), 2), all);
  EXPECT_EQ(exchanged(grid, Exchange(of(Kind::all_to_all)), n), transposed);
  EXPECT_EQ(exchanged(grid, Exchange(of(Kind::reduce_scatter), 1, n), n),
            (std::vector<float>{sum_of_ranks + count * static_cast<float>(rank())}));
}

TEST_F(PlanCommunication, NeighborsAlongTheAxisSpace) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world(), {.space = 2});
  CommunicationDesc shift{.kind = Kind::send, .axes = Axis::space, .peer = 1, .periodic = true, .label = "halo"};
  const int other = grid.coordinate(Axis::space) == 0 ? rank() + 1 : rank() - 1;
  EXPECT_EQ(exchanged(grid, Exchange(shift), 3), from_rank(other, {0, 1, 2}));
}

/// Predictions moved to the next rank meet that rank's targets: as if the targets had moved the other way.
TEST_F(PlanCommunication, GradientsTravelBack) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const auto gradient = [&](bool moved) {
    Graph g;
    Var h = dense(g.input("x", {3}), 2, "dense");
    const CommunicationDesc desc{.kind = Kind::send, .axes = Axis::data, .peer = 1, .periodic = true, .label = "ring"};
    if (moved) h = g.add(std::make_shared<Exchange>(desc), {h}, "ring");
    mse(h, g.input("y", {2}));
    Parameters parameters(g, context(network_contexts().back()), 1);
    Executor executor(g, parameters, {.batch = 1, .grid = &grid});
    for (int i = 0; i < 3; ++i) executor.input("x").data<float>()[i] = static_cast<float>(rank() + i);
    const int target = moved ? rank() : (rank() + 1) % size();
    for (int i = 0; i < 2; ++i) executor.input("y").data<float>()[i] = static_cast<float>(3 * target - i);
    ops::StepParams params;
    params.inverse_samples = 1.0f / static_cast<float>(size());
    executor.forward(params);
    executor.backward();
    auto result = executor.gradient("dense/weights");
    result.push_back(static_cast<float>(executor.loss()));
    return result;
  };
  const auto got = gradient(true), want = gradient(false);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5f * std::abs(want[i]));
}

TEST_F(PlanCommunication, SaysWhatDoesNotFit) {
  const ProcessGrid grid(world());
  const auto refusal = [&](const Exchange& layer, std::int64_t values) -> std::string {
    try {
      exchanged(grid, layer, values);
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  const auto wrong = refusal(Exchange(CommunicationDesc{.kind = Kind::allgather, .label = "edges"}, size() + 1), 2);
  EXPECT_NE(wrong.find("exchange: allgather of 'edges'"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("src has 8 bytes"), std::string::npos) << wrong;
  const CommunicationDesc ring{.kind = Kind::send, .axes = Axis::stage, .peer = 1, .periodic = true, .label = "ring"};
  const auto alone = refusal(Exchange(ring), 2);
  EXPECT_NE(alone.find("a ring of one rank"), std::string::npos) << alone;
}

}  // namespace
}  // namespace keelson::testing
