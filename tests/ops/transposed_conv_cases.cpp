#include "tests/ops/transposed_conv_cases.hpp"

namespace keelson::testing {

namespace {

using ops::EltwiseKind;

/// A case as a sentence: Transposed("name", "about", src, channels, kernel).stride(...).pad(...).
struct Transposed : TransposedConvCase {
  Transposed(std::string n, std::string a, const Shape& s, std::int64_t c, const Shape& kernel) {
    name = std::move(n);
    about = std::move(a);
    src = s;
    channels = c;
    params.kernel = kernel;
    params.stride = params.dilation = Shape::filled(kernel.rank(), 1);
    params.pad_begin = params.pad_end = params.output_padding = Shape::filled(kernel.rank(), 0);
  }
  Transposed& stride(const Shape& s) { return params.stride = s, *this; }
  Transposed& dilation(const Shape& s) { return params.dilation = s, *this; }
  Transposed& pad(const Shape& begin, const Shape& end) {
    return params.pad_begin = begin, params.pad_end = end, *this;
  }
  Transposed& output_padding(const Shape& s) { return params.output_padding = s, *this; }
  Transposed& same() { return ops::set_same_padding(params), *this; }
  Transposed& groups(std::int64_t g) { return params.groups = g, *this; }
  Transposed& no_bias() { return params.bias = false, *this; }
  Transposed& then(EltwiseKind k, float alpha = 0, float beta = 0) {
    return params.activation = {k, alpha, beta}, *this;
  }
};

}  // namespace

Shape TransposedConvCase::weights() const {
  Shape w{src[1], channels / params.groups};
  for (auto k : params.kernel) w.push_back(k);
  return w;
}

std::vector<TransposedConvCase> transposed_conv_cases() {
  return {
      Transposed("one_element", "everything is 1", {1, 1, 1, 1}, 1, {1, 1}),
      Transposed("valid_2d", "stride 1, nothing cut off", {1, 4, 6, 5}, 8, {3, 3}),
      Transposed("same_1_2d", "stride 1, odd extents and channels", {2, 3, 7, 9}, 5, {3, 3}).same(),
      Transposed("pytorch_2d", "DeepCAM: padding 1, output padding 1, no bias", {2, 8, 5, 7}, 16, {3, 3})
          .stride({2, 2})
          .pad({1, 1}, {1, 1})
          .output_padding({1, 1})
          .no_bias(),
      Transposed("same_2d", "SC18: the last row and column are cut off", {2, 8, 5, 7}, 16, {3, 3})
          .stride({2, 2})
          .same(),
      Transposed("blocks_2d", "channels multiples of 16", {1, 32, 6, 8}, 16, {3, 3})
          .stride({2, 2})
          .same()
          .then(EltwiseKind::relu),
      Transposed("classes_2d", "3 channels of many", {1, 32, 6, 5}, 3, {3, 3})
          .stride({2, 2})
          .pad({1, 1}, {1, 1})
          .output_padding({1, 1})
          .no_bias(),
      Transposed("uneven_blocks_2d", "one channel more than blocks hold", {1, 17, 5, 6}, 33, {3, 3})
          .stride({2, 2})
          .same()
          .then(EltwiseKind::leaky_relu, 0.1f),
      Transposed("stride_3_2d", "stride 3, a kernel of 5 x 4", {2, 5, 4, 3}, 6, {5, 4}).stride({3, 3}).same(),
      Transposed("asymmetric_2d", "nothing is equal to anything", {2, 3, 5, 6}, 4, {3, 5})
          .stride({3, 2})
          .pad({0, 3}, {2, 1})
          .output_padding({2, 0}),
      Transposed("stride_past_kernel_2d", "elements that no weight reaches", {2, 5, 4, 3}, 6, {1, 2})
          .stride({2, 3})
          .same(),
      Transposed("dilated_2d", "unequal dilation", {1, 3, 5, 4}, 4, {3, 2})
          .dilation({2, 3})
          .stride({2, 1})
          .pad({1, 0}, {2, 1}),
      Transposed("groups_2d", "2 groups of 3 -> 2 channels", {2, 6, 4, 5}, 4, {3, 3}).stride({2, 2}).groups(2).same(),
      Transposed("pointwise_2d", "1x1, channels no multiples of 16", {3, 17, 5, 3}, 19, {1, 1}).then(EltwiseKind::tanh),
      Transposed("linear_2d", "alpha x + beta, no bias", {1, 4, 4, 4}, 5, {2, 2})
          .stride({2, 2})
          .no_bias()
          .then(EltwiseKind::linear, -0.5f, 0.25f),
      Transposed("pytorch_3d", "padding 1, output padding 1", {1, 4, 3, 4, 5}, 6, {3, 3, 3})
          .stride({2, 2, 2})
          .pad({1, 1, 1}, {1, 1, 1})
          .output_padding({1, 1, 1}),
      Transposed("same_3d", "stride 2", {2, 16, 3, 2, 4}, 16, {3, 3, 3})
          .stride({2, 2, 2})
          .same()
          .then(EltwiseKind::leaky_relu, 0.3f),
      Transposed("halves_3d", "kernel 2, stride 2, as in a U-Net", {1, 32, 3, 4, 2}, 16, {2, 2, 2}).stride({2, 2, 2}),
      Transposed("asymmetric_3d", "strides 1, 2 and 3", {2, 3, 3, 4, 2}, 4, {2, 3, 4})
          .stride({1, 2, 3})
          .pad({1, 0, 2}, {0, 2, 1})
          .output_padding({0, 1, 2}),
      Transposed("stride_1d", "one spatial dim", {2, 3, 6}, 4, {5}).stride({2}).pad({2}, {1}),
  };
}

}  // namespace keelson::testing
