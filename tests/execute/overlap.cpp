#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/execute/executor.hpp"
#include "engine/execute/instance_schedule.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/overlap_weight_gradients.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/support/networks.hpp"

/// Weight gradients on a second execution instance, beside data gradients.
namespace keelson::testing {
namespace {

struct Verbs : ops::Primitive {
  Layout layout(ops::Verb, ops::Role) const override { return Layout::any(); }
  std::string name(ops::Verb) const override { return "verbs"; }
};

/// Two layers' backward pass, each with a weight gradient in another layout than the parameter's.
struct TwoLayers {
  Program program;
  BufferId diff2 = add(640), diff1 = add(640), diff0 = add(640), scratch2 = add(64), scratch1 = add(64);
  BufferId blocked2 = add(128), blocked1 = add(128);
  BufferId weights2 = add(128, Storage::gradients), weights1 = add(128, Storage::gradients, 128);

  TwoLayers() {
    using ops::Verb;
    call(Verb::backward_data, {{diff2, ops::Role::diff_src, ops::Access::write}});
    layer(diff2, diff1, scratch2, blocked2, weights2);
    layer(diff1, diff0, scratch1, blocked1, weights1);
    overlap_weight_gradients(program);
    program.place();
  }
  std::vector<bool> overlaps() const {
    std::vector<bool> marks;
    for (const Call& c : program.calls()) marks.push_back(c.overlaps);
    return marks;
  }

 private:
  BufferId add(std::int64_t bytes, Storage storage = Storage::arena, std::size_t offset = 0) {
    const BufferId id = program.add("", TensorDesc::plain({bytes}, DType::u8), storage);
    program.buffer(id).offset = offset;
    return id;
  }
  void call(ops::Verb verb, std::vector<Operand> operands) {
    program.calls().push_back(
        {Phase::backward, "node", "op", std::move(operands), Computation{std::make_shared<Verbs>(), verb, {}}});
  }
  void layer(BufferId diff_dst, BufferId diff_src, BufferId scratch, BufferId blocked, BufferId weights) {
    using ops::Access;
    using ops::Role;
    call(ops::Verb::backward_weights, {{diff_dst, Role::diff_dst, Access::read},
                                       {scratch, Role::scratch, Access::scratch},
                                       {blocked, Role::diff_weights, Access::write}});
    call(ops::Verb::backward_data,
         {{diff_dst, Role::diff_dst, Access::read}, {diff_src, Role::diff_src, Access::write}});
    call(ops::Verb::forward, {{blocked, Role::src, Access::read}, {weights, Role::dst, Access::write}});
  }
};

/// What depends on weight gradients alone overlaps, too. Data gradients, from which others follow, do not.
TEST(Overlap, MarksWeightGradientsAndWhatFollowsFromThem) {
  EXPECT_EQ(TwoLayers().overlaps(), (std::vector<bool>{false, true, false, true, true, false, true}));
}

bool share_memory(const Program& p, BufferId a, BufferId b) {
  const Buffer &x = p.buffer(p.root(a)), &y = p.buffer(p.root(b));
  return x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

/// A data gradient that runs at the same time as a weight gradient must not lie where that one reads or writes.
TEST(Overlap, NoCallTakesTheMemoryOfACallAtTheSameTime) {
  const TwoLayers t;
  EXPECT_FALSE(share_memory(t.program, t.scratch2, t.diff1));
  EXPECT_FALSE(share_memory(t.program, t.diff1, t.diff0));
  EXPECT_FALSE(share_memory(t.program, t.scratch1, t.diff0));
  EXPECT_TRUE(share_memory(t.program, t.diff2, t.diff0)) << "the first weight gradient has ended then";
}

/// The last call takes the memory of the first gradient, which the first weight gradient has read.
TEST(Overlap, WaitsForWhatItReadsAndForMemory) {
  const TwoLayers t;
  const InstanceSchedule schedule(t.program, 0, t.program.calls().size());
  ASSERT_TRUE(schedule.has_two());
  const int waits_for[] = {-1, 0, -1, -1, 2, 1, -1};
  const bool is_awaited[] = {true, true, true, false, false, false, false};
  for (std::size_t i = 0; i < t.program.calls().size(); ++i) {
    EXPECT_EQ(schedule[i].overlaps, t.program.calls()[i].overlaps) << i;
    EXPECT_EQ(schedule[i].waits_for, waits_for[i]) << i;
    EXPECT_EQ(schedule[i].is_awaited, is_awaited[i]) << i;
  }
  EXPECT_FALSE(InstanceSchedule(t.program, 3, 5).has_two()) << "one instance has all calls";
}

/// Long enough for warm-ups, captures and measurements.
TrainedSteps train_network(Context& context, const Graph& graph, Precision precision, const Optimizer& optimizer) {
  Parameters parameters(graph, context, 1);
  Executor executor(graph, parameters, {.batch = 2, .precision = precision, .optimizer = &optimizer});
  return train_steps(context, executor, parameters, 14);
}

class OverlapTest : public ::testing::TestWithParam<const char*> {
 protected:
  Graph graph() const { return GetParam() == std::string("volumes") ? volumes() : words(); }
};

/// Whatever the order in which the two instances get on, and while it is measured which way is faster.
TEST_P(OverlapTest, ComputesTheSameBits) {
  Sgd sgd;
  sgd.momentum = 0.9f;
  const Adam adam;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const Optimizer* optimizer : {static_cast<const Optimizer*>(&sgd), static_cast<const Optimizer*>(&adam)}) {
      const auto outcome = [&](const char* overlap, int instances) {
        const EnvironmentVariable mode("KEELSON_OVERLAP", overlap);
        const auto context = make_fake_async_context();
        auto results = train_network(*context, graph(), precision, *optimizer);
        EXPECT_EQ(fake_async_device(*context).instances_made(), instances) << overlap;
        return results;
      };
      const auto expected = outcome("off", 1);
      EXPECT_EQ(outcome("on", 2), expected);
      EXPECT_EQ(outcome("measure", 2), expected);
    }
}
INSTANTIATE_TEST_SUITE_P(FakeAsync, OverlapTest, ::testing::Values("volumes", "words"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Overlap, DevicesThatCannotDoSoKeepOneInstance) {
  const EnvironmentVariable mode("KEELSON_OVERLAP", "on");
  const auto context = make_fake_async_context();
  fake_async_device(*context).set_can_overlap(false);
  train_network(*context, volumes(), Precision::fp32, Sgd());
  EXPECT_EQ(fake_async_device(*context).instances_made(), 1);
}

TEST(Overlap, FollowsTheVariables) {
  const auto mode = [](const char* overlap, const char* tune) {
    const EnvironmentVariable a("KEELSON_OVERLAP", overlap), b("KEELSON_TUNE", tune);
    return overlap_mode();
  };
  EXPECT_EQ(mode("", "on"), OverlapMode::measure);
  EXPECT_EQ(mode("", "off"), OverlapMode::off) << "nothing is measured";
  EXPECT_EQ(mode("on", "off"), OverlapMode::on);
  EXPECT_EQ(mode("off", "on"), OverlapMode::off);
  EXPECT_EQ(mode("measure", "off"), OverlapMode::measure);
  EXPECT_THROW(mode("yes", "on"), InputError);
}

/// Work of the second instance for which the first one does not wait would go on behind the step.
TEST(Overlap, ACaptureWhoseWorkIsNotAwaitedFails) {
  FakeAsyncDevice device(FakeAsyncDevice::Reach::device);
  const auto second = device.make_instance({});
  ExecutionInstance& first = device.current_instance();
  const auto capture = [&](bool waits) {
    return device.capture([&] {
      second->wait_for(first);
      {
        const InstanceScope scope(*second);
        device.queue([] {});
      }
      if (waits) first.wait_for(*second);
    });
  };
  EXPECT_NE(capture(true), nullptr);
  EXPECT_THROW(capture(false), Error);
}

}  // namespace
}  // namespace keelson::testing
