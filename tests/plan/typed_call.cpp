#include "engine/plan/typed_call.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/ops/batch_norm.hpp"
#include "engine/ops/combine.hpp"
#include "engine/ops/dropout.hpp"
#include "engine/ops/pool.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

using ops::Softmax;

// An operand that has to be there cannot be left out.
template <class Args>
constexpr bool complete_without_dst = requires { Args{.src = BufferId{0}}; };
template <class Args>
constexpr bool complete = requires { Args{.src = BufferId{0}, .dst = BufferId{1}}; };
static_assert(complete<Softmax::Forward<Buffers>> && !complete_without_dst<Softmax::Forward<Buffers>>);
static_assert(complete<ops::Pool::Forward<Buffers>>, "a workspace may be absent");

class TypedCall : public ::testing::Test {
 protected:
  BufferId add(const TensorDesc& desc) {
    Buffer b;
    b.desc = desc;
    return program.add(std::move(b));
  }
  BufferId add(const Shape& shape, DType type = DType::f32) { return add(TensorDesc::plain(shape, type)); }

  template <class Args>
  std::string refusal(Args append) {
    try {
      append();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  std::string softmax_refusal(BufferId src, BufferId dst) {
    return refusal([&] {
      append_call<Softmax, Softmax::Forward>(program, {Phase::forward, "probabilities", "softmax"}, softmax,
                                             {.src = src, .dst = dst});
    });
  }

  Program program;
  Context& host = context("kokkos");
  const TensorDesc matrix = TensorDesc::plain({2, 3});
  std::shared_ptr<Softmax> softmax = host.make(ops::SoftmaxDesc{matrix, 1});
};

TEST_F(TypedCall, FollowsTheDeclaration) {
  const BufferId src = add(matrix), dst = add(matrix);
  ASSERT_EQ(softmax_refusal(src, dst), "");
  const Call& call = program.calls().at(0);
  ASSERT_EQ(call.operands.size(), 2u);
  EXPECT_TRUE(call.operands[0].reads() && !call.operands[0].writes());
  EXPECT_TRUE(!call.operands[1].reads() && call.operands[1].writes());
  EXPECT_EQ(call.operands[1].in_place_of, 0);
  EXPECT_EQ(call.computation()->verb, ops::Verb::forward);
}

TEST_F(TypedCall, RefusesWhatDoesNotFitAndSaysWhereAndWhat) {
  const BufferId src = add(matrix);
  const std::string place = "probabilities: forward of softmax (";
  EXPECT_NE(softmax_refusal(src, no_buffer).find(", operand dst: is missing"), std::string::npos);
  const std::string shape = softmax_refusal(src, add({3, 2}));
  EXPECT_TRUE(shape.starts_with(place)) << shape;
  EXPECT_NE(shape.find(", operand dst: is 3x2 f32 plain, expected 2x3 f32 plain"), std::string::npos) << shape;
  EXPECT_NE(softmax_refusal(src, add({2, 3}, DType::f64)).find("is 2x3 f64 plain"), std::string::npos);
  const Shape turned{1, 2};
  EXPECT_NE(softmax_refusal(add({{2, 3}, DType::f32, Layout::strided({2, 3}, turned)}), src).find("operand src"),
            std::string::npos);
  EXPECT_TRUE(program.calls().empty());
}

TEST_F(TypedCall, RefusesSharedMemoryWithoutLeave) {
  const BufferId src = add(matrix);
  EXPECT_EQ(softmax_refusal(src, src), "") << "softmax may work in place";
  std::shared_ptr<ops::Reorder> reorder = host.make(ops::ReorderDesc{matrix, matrix});
  const auto said = refusal([&] {
    append_call<ops::Reorder, ops::Reorder::Forward>(program, {Phase::forward, "x", "reorder"}, reorder,
                                                     {.src = src, .dst = program.view(src, matrix)});
  });
  EXPECT_NE(said.find("operand dst: shares memory with src"), std::string::npos) << said;
}

TEST_F(TypedCall, RefusesTwoOperandsInEachOthersPlace) {
  const ops::BatchNormStatisticsDesc desc{3};
  std::shared_ptr<ops::BatchNormStatistics> statistics = host.make(desc);
  const BufferId sums = add(desc.sums_desc()), mean = program.add("bn/mean", desc.channel_desc()),
                 variance = program.add("bn/variance", desc.channel_desc());
  const auto said = [&](BufferId as_mean, BufferId as_variance) {
    return refusal([&] {
      append_call<ops::BatchNormStatistics, ops::BatchNormStatistics::Forward>(
          program, {Phase::forward, "bn", "statistics"}, statistics,
          {.sums = sums, .mean = as_mean, .variance = as_variance});
    });
  };
  EXPECT_EQ(said(mean, variance), "");
  EXPECT_NE(said(variance, mean).find("operand mean: is the buffer 'bn/variance', and operand variance is 'bn/mean'"),
            std::string::npos)
      << said(variance, mean);
}

// A field that is named as a role has this role.
template <class K>
struct Swapped {
  ops::In<K, ops::Role::src, &ops::SoftmaxDesc::src> diff_dst;
  ops::In<K, ops::Role::diff_dst, &ops::SoftmaxDesc::src> src;
};
static_assert(!ops::detail::names_fit_roles<Swapped<ops::Declared>>());
static_assert(ops::detail::names_fit_roles<Softmax::BackwardData<ops::Declared>>());

TEST_F(TypedCall, RefusesListsOfAnotherLengthAndSmallWorkspaces) {
  const BufferId a = add(matrix), b = add(matrix), dst = add(matrix);
  std::shared_ptr<ops::Sum> sum = host.make(ops::SumDesc::alike(matrix, 2));
  const auto three = refusal([&] {
    append_call<ops::Sum, ops::Sum::Forward>(program, {Phase::forward, "s", "add"}, sum,
                                             {.srcs = {a, b, a}, .dst = dst});
  });
  EXPECT_NE(three.find("operand src: 3 were given, expected 2"), std::string::npos) << three;

  const Shape image{1, 2, 4, 4}, half{1, 2, 2, 2};
  const ops::PoolParams window{ops::PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}};
  std::shared_ptr<ops::Pool> pool =
      host.make(ops::PoolDesc{window, TensorDesc::plain(image), TensorDesc::plain(half), true});
  const auto small = refusal([&] {
    append_call<ops::Pool, ops::Pool::Forward>(program, {Phase::forward, "p", "max_pool"}, pool,
                                               {.src = add(image), .dst = add(half), .workspace = add({1}, DType::u8)});
  });
  EXPECT_NE(small.find("operand workspace: has 1 bytes, expected 8"), std::string::npos) << small;
}

TEST_F(TypedCall, AddsScratchMemory) {
  struct Scratchy : ops::Reorder {
    Layout layout(ops::Verb, ops::Role) const override { return Layout::plain({2, 3}); }
    std::string name(ops::Verb) const override { return "scratchy"; }
    std::size_t scratch_bytes(ops::Verb) const override { return 128; }
    void forward(const Forward<ops::Tensors>& args) override { EXPECT_EQ(args.scratch.bytes(), 128u); }
  };
  auto op = std::make_shared<Scratchy>();
  op->set_description({matrix, matrix});
  append_call<ops::Reorder, ops::Reorder::Forward>(
      program, {Phase::forward, "x", "reorder"}, std::shared_ptr<ops::Reorder>(op),
      {.src = program.add("input", matrix, Storage::owned), .dst = add(matrix)});
  ASSERT_EQ(program.calls()[0].operands.size(), 3u);
  program.place();
  std::vector<std::byte> arena(program.arena_bytes());
  std::vector<Tensor> tensors;
  for (const Operand& o : program.calls()[0].operands)
    tensors.emplace_back(program.buffer(o.id).desc, arena.data() + program.buffer(program.root(o.id)).offset);
  program.calls()[0].computation()->bind(tensors.data())();
}

}  // namespace
}  // namespace keelson::testing
