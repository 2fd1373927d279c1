#include <gtest/gtest.h>

#include <algorithm>

#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "tests/nets/support.hpp"

namespace keelson::testing {
namespace {

using nets::DeepLabDecoder;

std::string deeplab_refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const InputError& e) {
    return e.what();
  }
  return "nothing is refused";
}

void has_part(const std::string& text, std::string_view part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

Shape prediction_shape(const Graph& g) { return g.nodes()[g.outputs()[0].second].shape.shape; }

// ---- DeepCAM

TEST(DeepCam, HasThePublishedNumbersOfParameters) {
  const Graph g = nets::deepcam();
  EXPECT_EQ(g.parameter_count(), 56454720);
  const auto all = g.parameters();
  const auto is_statistic = [](const ParameterSpec& p) { return p.kind == ParameterKind::statistic; };
  EXPECT_EQ(std::ranges::count_if(all, is_statistic), 2 * 76);
  EXPECT_EQ(static_cast<std::int64_t>(all.size()) - 2 * 76, 301);
  std::int64_t statistics = 0;
  for (const auto& p : all)
    if (is_statistic(p)) statistics += p.shape.elements();
  EXPECT_EQ(statistics, 97760);
  EXPECT_EQ(nets::deepcam({.rows = 96, .columns = 144, .output_stride = 8}).parameter_count(), 56454720);
}

TEST(DeepCam, TakesSizesThatFitAndRefusesTheOthers) {
  EXPECT_EQ(prediction_shape(nets::deepcam({.rows = 32, .columns = 48})), (Shape{1, 3, 32, 48}));
  EXPECT_EQ(prediction_shape(nets::deepcam({.rows = 40, .columns = 24, .output_stride = 8})), (Shape{1, 3, 40, 24}));
  has_part(deeplab_refusal([] { nets::deepcam({.rows = 40, .columns = 50}); }), "try 32 x 48");
  has_part(deeplab_refusal([] { nets::deepcam({.output_stride = 4}); }), "expected 16 or 8");
  has_part(deeplab_refusal([] { nets::deepcam({.middle_blocks = -1}); }), "-1 blocks in the middle");
  has_part(deeplab_refusal([] { nets::deepcam({.width_multiplier = 0}); }), "a width multiplier of 0");
}

// A chain of 76 batch norms amplifies the rounding of fp32.
TEST(DeepCam, GivesThePublishedNumbers) {
  expect_climate_vector(nets::deepcam({.rows = 96, .columns = 144}), WeightScale::elements_per_first_index,
                        {.tensors = 146,
                         .loss = 6.9542168522,
                         .first = {-.8815888575, -2.4986879134, 5.6736621606},
                         .middle = {3.2244722590, -2.5731547188, -3.7799357129},
                         .mean = {-.0464809228, -.1473159217, .2219764724},
                         .deviation = {4.2218712, 4.6193753, 4.0692900}},
                        1e-3);
}

/// What the oracles of both networks are made of.
struct DeepLabTape {
  oracle::Tape& t;

  int conv(int x, const std::string& name, std::int64_t kernel, std::int64_t stride = 1,
           std::int64_t dilation = 1) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    return t.conv(x, name,
                  {{kernel, kernel}, {stride, stride}, {dilation, dilation}, {pad, pad}, {pad, pad}, 1, true, {}});
  }
  int depthwise(int x, const std::string& name, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    return t.conv(x, name,
                  {{kernel, kernel},
                   {stride, stride},
                   {dilation, dilation},
                   {pad, pad},
                   {pad, pad},
                   t.value(x).shape[1],
                   true,
                   {}});
  }
  int relu(int x) const { return t.eltwise(x, {ops::EltwiseKind::relu}); }
  int mean(int x) const {
    const Shape plane{t.value(x).shape[2], t.value(x).shape[3]};
    return t.pool(x, {ops::PoolKind::average, plane, plane, {0, 0}, {0, 0}, false});
  }
  int resize_like(int x, int like) const {
    return t.resize(x, t.value(like).shape[2], t.value(like).shape[3], ops::ResizeGrid::asymmetric);
  }
};

struct DeepCamTape : DeepLabTape {
  const nets::DeepCamOptions& o;

  int norm(int x, const std::string& name) const { return t.batch_norm(x, name + "_norm", 1e-5); }
  int unit(int x, const std::string& name, std::int64_t kernel, std::int64_t stride = 1,
           std::int64_t dilation = 1) const {
    return relu(norm(conv(x, name, kernel, stride, dilation), name));
  }
  int separable(int x, const std::string& name, std::int64_t stride, std::int64_t dilation) const {
    return conv(depthwise(x, name + "_depthwise", 3, stride, dilation), name + "_pointwise", 1);
  }
  int block(int x, const std::string& name, std::int64_t stride, std::int64_t dilation, bool linear_end) const {
    const int skip = linear_end ? norm(conv(x, name + "_skip", 1, stride), name + "_skip") : x;
    const auto s = [&](int v, const std::string& n) { return norm(separable(v, n, 1, dilation), n); };
    int v = s(relu(s(x, name + "_conv1")), name + "_conv2");
    v = linear_end ? separable(v, name + "_conv3", stride, 1) : s(relu(v), name + "_conv3");
    return t.add(v, skip);
  }
  int deconv(int x, const std::string& name, std::int64_t stride = 2) const {
    return t.transposed_conv(x, name,
                             {{3, 3}, {stride, stride}, {1, 1}, {1, 1}, {1, 1}, {stride - 1, stride - 1}, 1, true, {}});
  }

  double loss(const Array& x, const Array& y, const ops::StepParams& now) const {
    const bool dense = o.output_stride == 8;
    const std::int64_t middle = dense ? 2 : 1;
    int v = unit(unit(t.input(x), "stem1", 3, 2), "stem2", 3);
    const int low = relu(block(v, "block1", 2, 1, true));
    v = relu(block(low, "block2", 2, 1, true));
    v = relu(block(v, "block3", dense ? 1 : 2, 1, true));
    for (int i = 0; i < o.middle_blocks; ++i) v = relu(block(v, fmt::format("block{}", 4 + i), 1, middle, false));
    v = block(v, fmt::format("block{}", 4 + o.middle_blocks), 1, middle, true);
    for (const char* name : {"exit1", "exit2", "exit3"}) v = relu(norm(separable(v, name, 1, 2 * middle), name));
    std::vector<int> all{unit(v, "aspp1", 1)};
    for (int i = 1; i <= 3; ++i) all.push_back(unit(v, fmt::format("aspp{}", i + 1), 3, 1, 6 * i * middle));
    const int affine = relu(depthwise(conv(mean(v), "aspp_mean", 1), "aspp_mean_affine", 1, 1, 1));
    all.push_back(resize_like(affine, v));
    v = unit(t.concat(all, 1), "aspp", 1);
    const int details = unit(low, "low_level", 1);
    v = relu(norm(deconv(v, "decoder_deconv1", dense ? 1 : 2), "decoder_deconv1"));
    v = relu(norm(deconv(v, "decoder_deconv2"), "decoder_deconv2"));
    v = unit(unit(t.concat({v, details}, 1), "decoder_conv1", 3), "decoder_conv2", 3);
    v = relu(norm(deconv(conv(v, "decoder_conv3", 1), "decoder_deconv3"), "decoder_deconv3"));
    return t.pixel_loss(deconv(v, "decoder_deconv4"), y, o.loss, now);
  }
};

// Batch norms of few values amplify rounding, hence more samples.
constexpr std::int64_t samples = 6;

void expect_deepcam_step(const nets::DeepCamOptions& o) {
  const Array x = oracle::random_uniform({samples, o.channels, o.rows, o.columns}, "x", 0, 1);
  const Array y = oracle::random_integers({samples, o.rows, o.columns}, "y", 0, 2);
  expect_step(nets::deepcam(o), x, y,
              [&](oracle::Tape& t, const ops::StepParams& now) { return DeepCamTape{{t}, o}.loss(x, y, now); });
}

TEST(DeepCam, AStepAgreesWithTheOracle) {
  expect_deepcam_step({.rows = 64, .columns = 96, .channels = 4, .middle_blocks = 1, .width_multiplier = 1.0f / 32});
}

TEST(DeepCam, AStepWithOutputStride8AgreesWithTheOracle) {
  expect_deepcam_step({.rows = 48,
                       .columns = 32,
                       .channels = 4,
                       .output_stride = 8,
                       .middle_blocks = 1,
                       .width_multiplier = 1.0f / 32});
}

// ---- SC18

TEST(DeepLabSc18, HasThePublishedNumbersOfParameters) {
  EXPECT_EQ(nets::deeplab_sc18().parameter_count(), 43669251);
  EXPECT_EQ(nets::deeplab_sc18({.batch_norm = true}).parameter_count(), 43718883 - 4096);  // of the unused norm
  EXPECT_EQ(nets::deeplab_sc18({.units = {3, 4, 23, 3}}).parameter_count(), 62626563);
}

TEST(DeepLabSc18, TakesSizesThatFitAndRefusesTheOthers) {
  for (const auto decoder : {DeepLabDecoder::deconv1x, DeepLabDecoder::deconv, DeepLabDecoder::bilinear})
    EXPECT_EQ(prediction_shape(nets::deeplab_sc18({.rows = 40, .columns = 48, .decoder = decoder})),
              (Shape{1, 3, 40, 48}));
  has_part(deeplab_refusal([] { nets::deeplab_sc18({.rows = 44, .columns = 50}); }), "try 40 x 48");
  has_part(deeplab_refusal([] { nets::deeplab_sc18({.units = {3, 4, 6}}); }), "found 3 blocks");
  has_part(deeplab_refusal([] { nets::deeplab_sc18({.width_multiplier = -1}); }), "a width multiplier of -1");
}

// 70 convolutions in fp32, without a batch norm.
TEST(DeepLabSc18, GivesThePublishedNumbers) {
  expect_climate_vector(nets::deeplab_sc18({.rows = 96, .columns = 144, .loss = nets::sc18_loss()}),
                        WeightScale::fan_in,
                        {.tensors = 70,
                         .loss = .3439291882,
                         .first = {-.3622191131, .3669508489, .1543588780},
                         .middle = {.0464038661, .0216901721, -.1454774713},
                         .mean = {-.0639804527, .0869932638, -.1036892427},
                         .deviation = {.1164906, .1469655, .1546509}},
                        1e-5);
}

struct Sc18Tape : DeepLabTape {
  const nets::DeepLabSc18Options& o;

  int norm(int x, const std::string& name) const {
    return o.batch_norm ? t.batch_norm(x, name + "_norm", 1e-5) : t.eltwise(x, {ops::EltwiseKind::linear, 0.5f});
  }
  int unit(int x, const std::string& name, std::int64_t kernel, std::int64_t stride = 1,
           std::int64_t dilation = 1) const {
    return relu(norm(conv(x, name, kernel, stride, dilation), name));
  }
  int deconv(int x, const std::string& name) const {
    return t.transposed_conv(x, name, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, true, {}});
  }

  double loss(const Array& samples, const Array& y, const ops::StepParams& now) const {
    const int input = t.input(samples);
    int v = t.pool(conv(input, "stem", 7, 2), {ops::PoolKind::max, {3, 3}, {2, 2}, {0, 0}, {1, 1}, false}), low = -1;
    for (int b = 0; b < 4; ++b)
      for (int i = 1; i <= o.units[b]; ++i) {
        const auto name = fmt::format("block{}_unit{}", b + 1, i);
        const bool strided = b == 0 && i == o.units[b];
        int p = norm(v, name);
        if (o.batch_norm) p = relu(p);
        int shortcut = v;
        if (i == 1)
          shortcut = conv(p, name + "_shortcut", 1);
        else if (strided)
          shortcut = t.pool(v, {ops::PoolKind::max, {1, 1}, {2, 2}, {0, 0}, {0, 0}, false});
        const int reduced = unit(p, name + "_conv1", 1);
        if (strided) low = reduced;
        const std::int64_t dilation = b == 2 ? 2 : b == 3 ? 4 : 1;
        v = t.add(shortcut, conv(unit(reduced, name + "_conv2", 3, strided ? 2 : 1, dilation), name + "_conv3", 1));
      }
    std::vector<int> all{unit(v, "aspp1", 1)};
    for (int i = 1; i <= 3; ++i) all.push_back(unit(v, fmt::format("aspp{}", i + 1), 3, 1, 12 * i));
    all.push_back(resize_like(unit(mean(v), "aspp_mean", 1), v));
    v = unit(t.concat(all, 1), "aspp", 1);
    low = unit(low, "low_level", 1);
    const bool bilinear = o.decoder == DeepLabDecoder::bilinear;
    v = bilinear ? resize_like(v, low) : deconv(v, "decoder_deconv1");
    v = unit(unit(t.concat({v, low}, 1), "decoder_conv1", 3), "decoder_conv2", 3);
    if (!bilinear) v = deconv(deconv(v, "decoder_deconv2"), "decoder_deconv3");
    if (o.decoder == DeepLabDecoder::deconv1x) {
      const int skip = conv(conv(input, "skip1", 3), "skip2", 3);
      v = conv(conv(t.concat({v, skip}, 1), "full1", 3), "full2", 3);
    }
    v = conv(v, "logits", 1);
    if (bilinear) v = resize_like(v, input);
    return t.pixel_loss(v, y, o.loss, now);
  }
};

void expect_sc18_step(DeepLabDecoder decoder, bool norm) {
  const nets::DeepLabSc18Options o{.rows = 32,
                                   .columns = 48,
                                   .channels = 4,
                                   .decoder = decoder,
                                   .units = {2, 1, 2, 1},
                                   .batch_norm = norm,
                                   .width_multiplier = 1.0f / 16};
  const Array x = oracle::random_uniform({samples, o.channels, o.rows, o.columns}, "x", 0, 1);
  const Array y = oracle::random_integers({samples, o.rows, o.columns}, "y", 0, 2);
  expect_step(nets::deeplab_sc18(o), x, y,
              [&](oracle::Tape& t, const ops::StepParams& now) { return Sc18Tape{{t}, o}.loss(x, y, now); });
}

TEST(DeepLabSc18, AStepAgreesWithTheOracle) { expect_sc18_step(DeepLabDecoder::deconv1x, false); }

TEST(DeepLabSc18, AStepWithBatchNormAgreesWithTheOracle) { expect_sc18_step(DeepLabDecoder::deconv, true); }

TEST(DeepLabSc18, AStepWithInterpolationAgreesWithTheOracle) { expect_sc18_step(DeepLabDecoder::bilinear, false); }

}  // namespace
}  // namespace keelson::testing
