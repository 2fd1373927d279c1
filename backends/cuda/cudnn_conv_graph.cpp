#include "backends/cuda/cudnn_conv_graph.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Adds a dim before one spatial dim, since cuDNN needs two or more.
Shape at_least_2d(const Shape& spatial, std::int64_t missing) {
  Shape s;
  if (spatial.rank() == 1) s.push_back(missing);
  for (auto e : spatial) s.push_back(e);
  return s;
}

Shape dims_of(const Shape& shape) {
  Shape spatial;
  for (int i = 2; i < shape.rank(); ++i) spatial.push_back(shape[i]);
  Shape dims{shape[0], shape[1]};
  for (auto e : at_least_2d(spatial, 1)) dims.push_back(e);
  return dims;
}

/// Computed here, since Layout normalises the strides of extents 1, by which cuDNN recognises channels-last tensors.
Shape channels_last_strides(const Shape& dims) {
  Shape strides = Shape::filled(dims.rank(), 1);
  std::int64_t step = dims[1];
  for (int i = dims.rank() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= dims[i];
  }
  strides[0] = step;
  return strides;
}

std::span<const std::int64_t> span(const Shape& s) { return {s.begin(), s.end()}; }

class ConvGraphBuilder {
 public:
  Descriptor tensor(std::int64_t uid, DType type, const Shape& shape, bool is_virtual = false) {
    const Shape dims = dims_of(shape), strides = channels_last_strides(dims);
    return graph_.tensor(uid, type, span(dims), span(strides), 16, is_virtual);
  }

  /// y = op(x, b) or op(x).
  void pointwise(cudnnPointwiseMode_t mode, const EltwiseParams& p, const Descriptor& x, const Descriptor* b,
                 const Descriptor& y) {
    Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    const auto nan = CUDNN_PROPAGATE_NAN;
    function.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    if (p.kind == EltwiseKind::leaky_relu)
      function.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, static_cast<double>(p.alpha));
    function.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    operation.finalize();
    graph_.add(std::move(operation));
  }

  void convolution(const ConvParams& p, Verb verb, const Descriptor& src, const Descriptor& weights,
                   const Descriptor& dst);

  Descriptor finish(const CudnnTarget& target) const { return graph_.finish(target); }

 private:
  OperationGraph graph_;
};

Descriptor convolution_of(const ConvParams& p) {
  Descriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Shape stride = at_least_2d(p.stride, 1), dilation = at_least_2d(p.dilation, 1),
              begin = at_least_2d(p.pad_begin, 0), end = at_least_2d(p.pad_end, 0);
  const auto mode = CUDNN_CROSS_CORRELATION;
  c.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  c.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  c.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{stride.rank()});
  c.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, span(stride));
  c.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, span(dilation));
  c.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, span(begin));
  c.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, span(end));
  c.finalize();
  return c;
}

struct VerbAttributes {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t conv, src, weights, dst, alpha, beta;
};

VerbAttributes attributes_of(Verb verb) {
  switch (verb) {
    case Verb::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Verb::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Verb::backward_weights:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

void ConvGraphBuilder::convolution(const ConvParams& p, Verb verb, const Descriptor& src, const Descriptor& weights,
                                   const Descriptor& dst) {
  const auto a = attributes_of(verb);
  const float one = 1, zero = 0;
  Descriptor operation(a.operation);
  operation.set(a.conv, convolution_of(p));
  operation.set(a.src, src);
  operation.set(a.weights, weights);
  operation.set(a.dst, dst);
  operation.set(a.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.set(a.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
  graph_.add(std::move(operation));
}

cudnnPointwiseMode_t mode_of(EltwiseKind kind) {
  switch (kind) {
    case EltwiseKind::relu:
    case EltwiseKind::leaky_relu:
      return CUDNN_POINTWISE_RELU_FWD;
    case EltwiseKind::tanh:
      return CUDNN_POINTWISE_TANH_FWD;
    case EltwiseKind::sigmoid:
      return CUDNN_POINTWISE_SIGMOID_FWD;
    case EltwiseKind::gelu:
      return CUDNN_POINTWISE_GELU_FWD;
    case EltwiseKind::silu:
      return CUDNN_POINTWISE_SWISH_FWD;
    case EltwiseKind::elu:
      return CUDNN_POINTWISE_ELU_FWD;
    default:  // not_fusible()
      break;
  }
  return CUDNN_POINTWISE_IDENTITY;
}

}  // namespace

ConvTypes conv_types(const ConvDesc& d, Verb verb) {
  if (verb == Verb::forward) return {d.src.dtype, d.weights.dtype, d.dst.dtype};
  if (verb == Verb::backward_data) return {d.dst.dtype, d.weights.dtype, d.src.dtype};
  return {d.src.dtype, DType::f32, d.src.dtype};
}

std::string not_fusible(const EltwiseParams& activation) {
  if (activation.kind == EltwiseKind::linear) return "alpha x + beta is two operations of a graph";
  if (activation.kind != EltwiseKind::identity && !ops::is_activation(activation.kind))
    return fmt::format("{} is computed alone", to_string(activation));
  if (activation.kind == EltwiseKind::elu && activation.alpha != 1) return "the graph's ELU is the one with alpha 1";
  if (activation.kind == EltwiseKind::softplus) return "softplus is computed alone";
  // cuDNN's kernels compute max(x, alpha x) and keep a NaN.
  if (activation.kind == EltwiseKind::leaky_relu && !(activation.alpha >= 0 && activation.alpha <= 1))
    return "cuDNN's leaky ReLU is one for slopes from 0 to 1 only";
  return "";
}

Descriptor conv_graph(const ConvDesc& d, Verb verb, Epilogue epilogue, const ConvTypes& types,
                      const CudnnTarget& target) {
  const bool fuse = verb == Verb::forward && epilogue == Epilogue::bias_activation;
  const bool bias = fuse && d.params.bias, act = fuse && d.params.activation.kind != EltwiseKind::identity;
  // The numbers of virtual tensors follow those of the others.
  constexpr std::int64_t product_id = 10, sum_id = 11;
  ConvGraphBuilder b;
  const auto src = b.tensor(conv_src, types.src, d.src.shape);
  const auto weights = b.tensor(conv_weights, types.weights, d.weights.shape);
  const auto dst = b.tensor(conv_dst, types.dst, d.dst.shape);
  const auto product = b.tensor(product_id, DType::f32, d.dst.shape, true);
  const auto sum = b.tensor(sum_id, DType::f32, d.dst.shape, true);
  b.convolution(d.params, verb, src, weights, bias || act ? product : dst);
  if (bias) {
    Shape one = Shape::filled(d.dst.shape.rank(), 1);
    one[1] = d.dst.shape[1];
    const auto values = b.tensor(conv_bias, DType::f32, one);
    b.pointwise(CUDNN_POINTWISE_ADD, {}, product, &values, act ? sum : dst);
  }
  if (act) b.pointwise(mode_of(d.params.activation.kind), d.params.activation, bias ? sum : product, nullptr, dst);
  return b.finish(target);
}

}  // namespace keelson::cuda
