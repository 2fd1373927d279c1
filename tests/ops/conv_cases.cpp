#include "tests/ops/conv_cases.hpp"

namespace keelson::testing {

namespace {

using ops::EltwiseKind;

/// A case as a sentence: Conv("name", "about", src, filters, kernel).stride(...).pad(...).
struct Conv : ConvCase {
  Conv(std::string n, std::string a, const Shape& s, std::int64_t f, const Shape& kernel) {
    name = std::move(n);
    about = std::move(a);
    src = s;
    filters = f;
    params.kernel = kernel;
    params.stride = params.dilation = Shape::filled(kernel.rank(), 1);
    params.pad_begin = params.pad_end = Shape::filled(kernel.rank(), 0);
  }
  Conv& stride(const Shape& s) { return params.stride = s, *this; }
  Conv& dilation(const Shape& s) { return params.dilation = s, *this; }
  Conv& pad(const Shape& begin, const Shape& end) { return params.pad_begin = begin, params.pad_end = end, *this; }
  Conv& same() { return ops::set_same_padding(params, src), *this; }
  Conv& groups(std::int64_t g) { return params.groups = g, *this; }
  Conv& no_bias() { return params.bias = false, *this; }
  Conv& then(EltwiseKind k, float alpha = 0, float beta = 0) { return params.activation = {k, alpha, beta}, *this; }
};

}  // namespace

Shape ConvCase::weights() const {
  Shape w{filters, src[1] / params.groups};
  for (auto k : params.kernel) w.push_back(k);
  return w;
}

std::vector<ConvCase> conv_cases() {
  return {
      Conv("one_element", "everything is 1", {1, 1, 1, 1}, 1, {1, 1}),
      Conv("valid_2d", "4 channels, no padding", {1, 4, 8, 8}, 8, {3, 3}),
      Conv("same_odd_2d", "odd extents and channels", {2, 3, 7, 9}, 5, {3, 3}).same(),
      Conv("same_even_kernel_2d", "an even kernel pads more at the end", {1, 3, 7, 6}, 6, {4, 2}).same(),
      Conv("stride_2d", "the last column is skipped", {2, 4, 9, 8}, 7, {3, 3}).stride({2, 2}).pad({1, 0}, {1, 0}),
      Conv("stride_past_kernel_2d", "elements that no window reads", {2, 5, 7, 8}, 6, {1, 2}).stride({3, 4}),
      Conv("dilated_2d", "unequal dilation", {1, 3, 11, 13}, 4, {3, 3}).dilation({2, 3}),
      Conv("dilated_same_2d", "dilation, stride and padding", {2, 8, 9, 10}, 16, {3, 3})
          .dilation({2, 2})
          .stride({2, 1})
          .same(),
      Conv("asymmetric_2d", "four different paddings", {2, 3, 5, 6}, 4, {3, 2}).stride({2, 1}).pad({0, 2}, {1, 0}),
      Conv("window_on_padding_2d", "outputs that see padding only", {1, 3, 4, 5}, 5, {2, 2}).pad({2, 0}, {0, 3}),
      Conv("groups_2d", "3 groups of 2 -> 3 channels", {2, 6, 5, 6}, 9, {3, 3}).groups(3).same(),
      Conv("groups_of_16_2d", "blocks fit the groups", {1, 32, 5, 4}, 32, {3, 3}).groups(2).same(),
      Conv("depthwise_2d", "one channel a group", {2, 9, 6, 5}, 9, {3, 3}).groups(9).same(),
      Conv("depthwise_multiplier_2d", "two filters a channel", {1, 4, 6, 7}, 8, {3, 3}).groups(4).stride({2, 2}).same(),
      Conv("depthwise_tail_2d", "channels behind the last whole vector, stride, a short line", {2, 37, 7, 4}, 37,
           {3, 5})
          .groups(37)
          .stride({2, 3})
          .same()
          .then(EltwiseKind::relu),
      Conv("depthwise_long_lines_2d", "several tiles of a line and groups of channels", {1, 80, 5, 53}, 80, {3, 3})
          .groups(80)
          .same()
          .no_bias(),
      Conv("depthwise_five_taps_2d", "taps beside those that are summed together, stride", {2, 70, 9, 30}, 70, {5, 5})
          .groups(70)
          .stride({2, 2})
          .same(),
      Conv("depthwise_dilated_2d", "dilation, more on one side than on the other", {2, 18, 9, 17}, 18, {3, 3})
          .groups(18)
          .dilation({2, 3})
          .pad({2, 5}, {1, 3})
          .no_bias(),
      Conv("pointwise_2d", "1x1, channels no multiples of 16", {3, 17, 5, 3}, 19, {1, 1}).then(EltwiseKind::relu),
      Conv("pointwise_stride_2d", "1x1 that skips rows and columns, as in residual blocks", {2, 16, 9, 12}, 32, {1, 1})
          .stride({2, 2})
          .no_bias(),
      Conv("pointwise_stride_few_2d", "the same with few channels", {2, 8, 12, 18}, 16, {1, 1})
          .stride({2, 2})
          .no_bias(),
      Conv("pointwise_stride_4_2d", "the same with 4 channels", {1, 4, 8, 12}, 8, {1, 1}).stride({2, 2}).no_bias(),
      Conv("blocks_2d", "channels multiples of 16", {2, 16, 8, 8}, 32, {3, 3})
          .same()
          .then(EltwiseKind::leaky_relu, 0.01f),
      Conv("uneven_blocks_2d", "one channel more than blocks hold", {1, 33, 6, 7}, 17, {3, 3}).same(),
      Conv("few_channels_2d", "a window of 27 values, many filters", {2, 3, 18, 22}, 40, {3, 3}).stride({2, 2}).same(),
      Conv("wide_2d", "many channels, more positions than one block", {2, 64, 13, 14}, 80, {3, 3})
          .same()
          .then(EltwiseKind::relu),
      Conv("wide_groups_2d", "many channels in each group", {1, 128, 5, 4}, 160, {3, 3}).groups(2).same(),
      Conv("wide_dilated_2d", "most taps read padding only", {1, 64, 5, 6}, 64, {3, 3})
          .dilation({6, 4})
          .same()
          .no_bias(),
      Conv("long_line_2d", "a line in several parts, the last one shorter", {1, 2, 3, 601}, 3, {3, 3})
          .stride({1, 2})
          .dilation({1, 2})
          .same(),
      Conv("long_wide_line_2d", "the same with wide channels and a stride that does not divide the line",
           {1, 18, 2, 410}, 20, {1, 3})
          .stride({1, 3})
          .dilation({1, 2})
          .same(),
      Conv("whole_input_2d", "the kernel is the input", {2, 6, 4, 5}, 10, {4, 5}).then(EltwiseKind::tanh),
      Conv("sigmoid_2d", "another activation", {1, 4, 6, 6}, 4, {3, 3}).then(EltwiseKind::sigmoid),
      Conv("linear_2d", "alpha x + beta, no bias", {1, 4, 6, 6}, 5, {3, 3})
          .no_bias()
          .then(EltwiseKind::linear, -0.5f, 0.25f),
      Conv("cosmoflow_first_3d", "4 channels, same, LeakyReLU", {1, 4, 8, 8, 8}, 16, {3, 3, 3})
          .same()
          .then(EltwiseKind::leaky_relu, 0.3f),
      Conv("cosmoflow_second_3d", "blocks", {2, 16, 4, 6, 5}, 32, {3, 3, 3}).same().then(EltwiseKind::leaky_relu, 0.3f),
      Conv("one_channel_3d", "the paper network's first layer", {1, 1, 7, 6, 5}, 16, {3, 3, 3})
          .then(EltwiseKind::leaky_relu, 0.01f),
      Conv("stride_3d", "even kernel, stride 2", {2, 5, 7, 6, 9}, 6, {4, 4, 4}).stride({2, 2, 2}),
      Conv("small_kernel_3d", "2^3 kernel on wide channels", {1, 48, 3, 3, 4}, 64, {2, 2, 2}),
      Conv("asymmetric_3d", "nothing is equal to anything", {2, 3, 5, 4, 6}, 4, {2, 3, 1})
          .stride({1, 2, 2})
          .pad({1, 0, 2}, {0, 2, 1}),
      Conv("dilated_3d", "no bias", {1, 3, 6, 7, 5}, 4, {2, 3, 2})
          .dilation({3, 2, 1})
          .pad({1, 1, 0}, {1, 2, 0})
          .no_bias(),
      Conv("wide_stride_3d", "tiles of channels that overlap, stride and dilation", {2, 26, 5, 6, 7}, 37, {3, 3, 3})
          .stride({2, 1, 2})
          .dilation({1, 2, 1})
          .same(),
      Conv("groups_3d", "2 groups", {1, 4, 4, 5, 3}, 6, {3, 3, 3}).groups(2).same(),
      Conv("depthwise_3d", "one channel a group, stride", {1, 5, 5, 6, 4}, 5, {3, 3, 3})
          .groups(5)
          .stride({1, 2, 1})
          .same(),
      Conv("large_3d", "operands larger than what a library may allocate for a call", {1, 16, 11, 12, 13}, 16,
           {3, 3, 3})
          .same(),
      Conv("stride_1d", "one spatial dim", {2, 3, 11}, 4, {5}).stride({2}).pad({2}, {1}),
  };
}

ConvCase conv_case(const std::string& name) {
  for (const auto& c : conv_cases())
    if (c.name == name) return c;
  fail("no convolution case is called {}", name);
}

}  // namespace keelson::testing
