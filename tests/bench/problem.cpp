#include "apps/bench/problem.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace keelson::bench {
namespace {

template <class Desc>
Desc parse(const std::string& line) {
  return std::get<Desc>(parse_problem(line).desc);
}

std::string refusal(const std::string& line) {
  try {
    parse_problem(line);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Problem, ConvolutionWithDefaults) {
  const auto d = parse<ops::ConvDesc>("conv src=2x4x8x8x8 filters=6 kernel=3");
  EXPECT_EQ(to_string(d.src.shape), "2x4x8x8x8");
  EXPECT_EQ(to_string(d.weights.shape), "6x4x3x3x3");
  EXPECT_EQ(to_string(d.dst.shape), "2x6x6x6x6");
  EXPECT_TRUE(d.src.layout.is_any());
  EXPECT_TRUE(d.params.bias);
  EXPECT_EQ(d.params.activation.kind, ops::EltwiseKind::identity);
  EXPECT_EQ(to_string(d.params.stride), "1x1x1");
}

TEST(Problem, ConvolutionWithEverything) {
  const auto d = parse<ops::ConvDesc>(
      "conv  filters=6 kernel=3x5 src=2x4x9x16 padding=same stride=2x1 dilation=1x2 groups=2 bias=no "
      "activation=leaky_relu alpha=0.3");
  EXPECT_EQ(to_string(d.weights.shape), "6x2x3x5");
  EXPECT_EQ(to_string(d.dst.shape), "2x6x5x16");
  EXPECT_EQ(to_string(d.params.pad_begin), "1x4");
  EXPECT_FALSE(d.params.bias);
  EXPECT_EQ(d.params.activation, (ops::EltwiseParams{ops::EltwiseKind::leaky_relu, 0.3f}));
}

TEST(Problem, TransposedConvolutionInBothConventions) {
  const auto same = parse<ops::TransposedConvDesc>(
      "transposed_conv src=1x8x5x7 filters=6 kernel=3 stride=2 padding=same groups=2 activation=relu");
  EXPECT_EQ(to_string(same.weights.shape), "8x3x3x3");
  EXPECT_EQ(to_string(same.dst.shape), "1x6x10x14");
  EXPECT_EQ(to_string(same.params.pad_end), "1x1");
  EXPECT_EQ(same.params.activation.kind, ops::EltwiseKind::relu);
  const auto pytorch = parse<ops::TransposedConvDesc>(
      "transposed_conv src=1x8x5x7 filters=6 kernel=3 stride=2 padding=1 output_padding=1 bias=no");
  EXPECT_EQ(to_string(pytorch.dst.shape), "1x6x10x14");
  EXPECT_EQ(to_string(pytorch.params.pad_begin), "1x1");
  EXPECT_FALSE(pytorch.params.bias);
  EXPECT_NE(refusal("transposed_conv src=1x8x5x7 filters=6 kernel=3 stride=2 output_padding=2").find("expected 0 to 1"),
            std::string::npos);
}

TEST(Problem, TheOtherOps) {
  const auto dense = parse<ops::DenseDesc>("dense src=16x100 outputs=7");
  EXPECT_EQ(to_string(dense.weights.shape), "7x100");
  EXPECT_EQ(to_string(dense.dst.shape), "16x7");

  const auto pool = parse<ops::PoolDesc>("pool src=1x8x16x16 kernel=2 kind=average");
  EXPECT_EQ(pool.params.kind, ops::PoolKind::average);
  EXPECT_EQ(to_string(pool.dst.shape), "1x8x8x8");
  EXPECT_TRUE(pool.src.layout.is_channels_last(pool.src.shape));
  EXPECT_EQ(to_string(parse<ops::PoolDesc>("pool src=1x8x9x9 kernel=3 stride=1 padding=1").dst.shape), "1x8x9x9");

  const auto eltwise = parse<ops::EltwiseDesc>("eltwise kind=tanh shape=5x6x7 layout=plain");
  EXPECT_EQ(eltwise.params.kind, ops::EltwiseKind::tanh);
  EXPECT_TRUE(eltwise.src.layout.is_plain(eltwise.src.shape));

  const auto product = parse<ops::ProductDesc>("product shape=5x6 count=3");
  EXPECT_EQ(product.count, 3);
  EXPECT_EQ(to_string(product.dst.shape), "5x6");

  const auto norm = parse<ops::GroupNormDesc>("group_norm src=2x12x5x4 groups=3");
  EXPECT_EQ(norm.groups, 3);
  EXPECT_TRUE(norm.src.layout.is_channels_last(norm.src.shape));
  EXPECT_TRUE(parse<ops::GroupNormDesc>("group_norm src=7x9").src.layout.is_plain({7, 9}));

  const auto attention = parse<ops::AttentionDesc>("attention src=20x12 steps=5 heads=3 causal=yes");
  EXPECT_EQ(to_string(attention.src.shape), "20x12");
  EXPECT_EQ(attention.steps, 5);
  EXPECT_EQ(attention.heads, 3);
  EXPECT_TRUE(attention.causal);

  EXPECT_EQ(parse<ops::UpdateDesc>("update count=1000").params.momentum, 0.9f);
  EXPECT_EQ(parse<ops::UpdateDesc>("update kind=adam count=1000").params.kind, ops::UpdateKind::adam);
}

TEST(Problem, RefusesWithWhatWasFoundAndExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no op ''"},
      {"cnv src=1x4x8", "did you mean conv"},
      {"conv kernel=3 filters=2", "src= is missing"},
      {"conv src=1x4x8 filters=2", "kernel= is missing; expected"},
      {"conv src=1x4x8 filter=2 kernel=3", "filters= is missing (did you mean it by 'filter='?)"},
      {"conv src=1x4x8 filters=2 kernel=3 paddin=1", "no key 'paddin'; did you mean padding"},
      {"conv src=1x4x8 filters=2 kernel=9", "the kernel reaches over 9 elements"},
      {"conv src=1x4x8 filters=2 kernel=3x3", "kernel=3x3 cannot be used; expected one number"},
      {"conv src=1x4x8 filters=2 kernel=", "kernel= cannot be used"},
      {"conv src=1x4x8x filters=2 kernel=3", "src=1x4x8x cannot be used; expected N x C x"},
      {"conv src=4x8 filters=2 kernel=3", "src=4x8 cannot be used"},
      {"conv src=1x4x8 filters=3 kernel=3 groups=2", "groups"},
      {"conv src=1x4x8 filters=2 kernel 3", "found 'kernel', but expected key=value"},
      {"conv src=1x4x8 src=1x4x8 filters=2 kernel=3", "'src' is given twice"},
      {"dense src=2x3 outputs=0", "outputs=0 cannot be used; expected a whole number, at least 1"},
      {"dense src=2x3 outputs=2.5", "outputs=2.5"},
      {"dense src=2x3 outputs=2 bias=maybe", "one of no, yes"},
      {"dense src=2x3 outputs=2 activation=gelu", "derivative"},
      {"dense src=2000000x3000000 outputs=2", "at most"},
      {"pool src=1x4x8 kernel=2 kind=min", "one of average, max"},
      {"eltwise shape=3", "kind= is missing; expected one of abs, elu, exp, gelu"},
      {"eltwise kind=relu shape=3 alpha=much", "alpha=much cannot be used; expected a number"},
      {"product shape=3x4 count=1", "count=1 cannot be used; expected a whole number, at least 2"},
      {"group_norm src=2x12 groups=5", "groups=5 cannot be used; expected a divisor of 12 channels"},
      {"attention src=20x12 steps=6", "steps=6 cannot be used; expected a divisor of 20 rows"},
      {"attention src=20x12 steps=5 heads=5", "heads=5 cannot be used; expected a divisor of 12 features"},
      {"update kind=sgd", "count= is missing"},
  };
  for (const auto& [line, expected] : cases)
    EXPECT_NE(refusal(line).find(expected), std::string::npos) << line << " -> " << refusal(line);
}

class ProblemFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = ::testing::TempDir() + "keelson-problems-" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
};

TEST_F(ProblemFile, SkipsCommentsAndEmptyLines) {
  const auto problems = read_problems(write("# two\n\n  dense src=2x3 outputs=4   # the last\r\nupdate count=5\n"));
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].text, "dense src=2x3 outputs=4");
  EXPECT_EQ(problems[1].text, "update count=5");
}

TEST_F(ProblemFile, NamesTheLine) {
  try {
    read_problems(write("update count=5\n\nupdate count=none\n"));
    FAIL() << "it was accepted";
  } catch (const InputError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with(path_ + ":3: update: count=none")) << e.what();
  }
  EXPECT_THROW(read_problems(write("# nothing\n")), InputError);
  EXPECT_THROW(read_problems(path_ + ".absent"), InputError);
}

}  // namespace
}  // namespace keelson::bench
