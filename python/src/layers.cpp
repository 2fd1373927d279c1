#include "engine/layers/layers.hpp"

#include <nanobind/stl/variant.h>

#include <optional>
#include <variant>

#include "casters.hpp"
#include "objects.hpp"

namespace keelson::python {
namespace {

using Name = const std::string&;

/// The name of an activation behind a layer, or None.
using ActivationName = const std::optional<std::string>&;
using ActivationLayer = Var (*)(Var, const std::string&);

/// The activation of that name; null: none. Called before a layer is added, so that a wrong name adds none.
ActivationLayer activation_of(ActivationName activation) {
  if (!activation) return nullptr;
  return choose<ActivationLayer>("activation", *activation,
                                 {{"relu", &relu},
                                  {"tanh", &tanh},
                                  {"sigmoid", &sigmoid},
                                  {"gelu", &gelu},
                                  {"silu", &silu},
                                  {"elu", +[](Var v, const std::string& n) { return elu(v, 1, n); }},
                                  {"softplus", &softplus}});
}

/// x, or a node behind x that applies the activation. With a name of x's node, the new node is "<name>_tanh".
Value activated(const Value& x, ActivationName activation, Name name) {
  const auto layer = activation_of(activation);
  return layer ? Value{x.network, layer(x.var, name.empty() ? "" : name + "_" + *activation)} : x;
}

/// One number for all spatial dimensions, or one for each.
using Extents = std::variant<std::int64_t, Shape>;

/// Padding by name, or by extents: zeros before and after each spatial dimension.
struct Pads {
  Padding kind = Padding::given;
  Shape begin, end;
};

Pads read_pads(nb::handle given, int dims) {
  if (nb::isinstance<nb::str>(given))
    return {
        choose<Padding>("padding", nb::cast<std::string>(given), {{"same", Padding::same}, {"valid", Padding::valid}}),
        {},
        {}};
  Shape both;
  if (std::int64_t one = 0; nb::try_cast(given, one))
    return {Padding::given, Shape::filled(dims, one), Shape::filled(dims, one)};
  if (nb::try_cast(given, both)) return {Padding::given, both, both};
  if (std::vector<Shape> pair; nb::try_cast(given, pair) && pair.size() == 2) return {Padding::given, pair[0], pair[1]};
  refuse(
      "padding is {}. Expected 'same', 'valid', a number, one number per spatial dim, or a pair of such lists (before, "
      "after)",
      nb::repr(given).c_str());
}

int spatial_dims(const Value& x) { return std::max(x.var.shape().shape.rank() - 2, 0); }

/// Sets `size` from one number, or `kernel` from a shape.
void set_kernel(const Extents& given, std::int64_t& size, Shape& kernel) {
  if (const auto* shape = std::get_if<Shape>(&given))
    kernel = *shape;
  else
    size = std::get<std::int64_t>(given);
}

/// The options that both kinds of convolution have.
template <class Options>
Options conv_options(const Value& x, std::int64_t filters, const Extents& size, std::int64_t stride, nb::handle padding,
                     std::int64_t dilation, std::int64_t groups, bool bias, const Init& weights,
                     const Init& bias_init) {
  Options o{.filters = filters, .stride = stride, .dilation = dilation, .groups = groups, .bias = bias};
  const Pads pads = read_pads(padding, spatial_dims(x));
  o.padding = pads.kind;
  o.pad_begin = pads.begin;
  o.pad_end = pads.end;
  o.weights_init = weights;
  o.bias_init = bias_init;
  set_kernel(size, o.size, o.kernel);
  return o;
}

Value conv_of(const Value& x, std::int64_t filters, const Extents& size, const Extents& stride, nb::handle padding,
              std::int64_t dilation, std::int64_t groups, bool bias, ActivationName activation, const Init& weights,
              const Init& bias_init, Name name) {
  auto o = conv_options<ConvOptions>(x, filters, size, 1, padding, dilation, groups, bias, weights, bias_init);
  if (const auto* strides = std::get_if<Shape>(&stride))
    o.strides = *strides;
  else
    o.stride = std::get<std::int64_t>(stride);
  activation_of(activation);
  return activated({x.network, conv(x.var, o, name)}, activation, name);
}

Value transposed_conv_of(const Value& x, std::int64_t filters, const Extents& size, std::int64_t stride,
                         nb::handle padding, std::int64_t output_padding, std::int64_t dilation, std::int64_t groups,
                         bool bias, ActivationName activation, const Init& weights, const Init& bias_init, Name name) {
  auto o = conv_options<TransposedConvOptions>(x, filters, size, stride, padding, dilation, groups, bias, weights,
                                               bias_init);
  o.output_padding = output_padding;
  activation_of(activation);
  return activated({x.network, transposed_conv(x.var, o, name)}, activation, name);
}

PoolOptions pool_options(const Value& x, const Extents& size, std::int64_t stride, nb::handle padding) {
  PoolOptions o{.stride = stride};
  const Pads pads = read_pads(padding, spatial_dims(x));
  if (pads.kind == Padding::same) refuse("padding is 'same'. Expected numbers: elements before and after each dim");
  o.pad_begin = pads.begin;
  o.pad_end = pads.end;
  set_kernel(size, o.size, o.kernel);
  return o;
}

void bind_convolutions(nb::module_& m) {
  const Init glorot = Init::glorot_uniform(), zero = Init::constant(0);
  m.def(
      "conv", &conv_of, nb::arg("x"), nb::arg("filters"), nb::arg("size") = 3, nb::kw_only(), nb::arg("stride") = 1,
      nb::arg("padding") = "same", nb::arg("dilation") = 1, nb::arg("groups") = 1, nb::arg("bias") = true,
      nb::arg("activation") = nb::none(), nb::arg("weights_init") = glorot, nb::arg("bias_init") = zero,
      nb::arg("name") = "",
      "Convolution (cross-correlation) of (N, C, L), (N, C, H, W) or (N, C, D, H, W).\n\n"
      "size: extent of a cubic kernel, or one extent per spatial dim. stride: likewise.\n"
      "padding: 'same' (the extent becomes ceil(extent / stride)), 'valid' (none), a number, or one per spatial dim.\n"
      "activation: 'relu', 'tanh', 'sigmoid', 'gelu', 'silu', 'elu' or 'softplus' behind the convolution. size 1 is a\n"
      "dense layer on the channels of each position.\n"
      "Parameters 'weights' (filters, C / groups, kernel...) and 'bias' (filters).");
  m.def("transposed_conv", &transposed_conv_of, nb::arg("x"), nb::arg("filters"), nb::arg("size") = 3, nb::kw_only(),
        nb::arg("stride") = 1, nb::arg("padding") = "same", nb::arg("output_padding") = 0, nb::arg("dilation") = 1,
        nb::arg("groups") = 1, nb::arg("bias") = true, nb::arg("activation") = nb::none(),
        nb::arg("weights_init") = Init::fan_in_uniform(), nb::arg("bias_init") = zero, nb::arg("name") = "",
        "Transposed convolution (deconvolution). padding: elements cut off the result: 'same' (every extent becomes\n"
        "stride times the source's, as in TensorFlow), 'valid' (nothing), or numbers, as in PyTorch.\n"
        "activation: as of conv().\n"
        "Parameters 'weights' (C, filters / groups, kernel...) and 'bias' (filters).");
  m.def(
      "max_pool",
      [](const Value& x, const Extents& size, std::int64_t stride, nb::handle padding, Name name) {
        return Value{x.network, max_pool(x.var, pool_options(x, size, stride, padding), name)};
      },
      nb::arg("x"), nb::arg("size") = 2, nb::kw_only(), nb::arg("stride") = 0, nb::arg("padding") = 0,
      nb::arg("name") = "", "The largest element of each window. stride 0: windows do not overlap.");
  m.def(
      "average_pool",
      [](const Value& x, const Extents& size, std::int64_t stride, nb::handle padding, bool count_padding, Name name) {
        auto o = pool_options(x, size, stride, padding);
        o.count_padding = count_padding;
        return Value{x.network, average_pool(x.var, o, name)};
      },
      nb::arg("x"), nb::arg("size") = 2, nb::kw_only(), nb::arg("stride") = 0, nb::arg("padding") = 0,
      nb::arg("count_padding") = false, nb::arg("name") = "",
      "The mean of each window. stride 0: windows do not overlap.");
  m.def(
      "global_average_pool",
      [](const Value& x, Name name) { return Value{x.network, global_average_pool(x.var, name)}; }, nb::arg("x"),
      nb::kw_only(), nb::arg("name") = "", "The mean of each channel: (N, C, 1...).");
  m.def(
      "resize",
      [](const Value& x, std::int64_t rows, std::int64_t columns, const std::string& grid, Name name) {
        const ResizeOptions o{.rows = rows,
                              .columns = columns,
                              .grid = choose<ops::ResizeGrid>("grid", grid,
                                                              {{"half_pixel", ops::ResizeGrid::half_pixel},
                                                               {"asymmetric", ops::ResizeGrid::asymmetric},
                                                               {"align_corners", ops::ResizeGrid::align_corners}})};
        return Value{x.network, resize(x.var, o, name)};
      },
      nb::arg("x"), nb::arg("rows"), nb::arg("columns"), nb::kw_only(), nb::arg("grid") = "half_pixel",
      nb::arg("name") = "",
      "Bilinear interpolation of (N, C, H, W) to (N, C, rows, columns). grid: 'half_pixel' as in PyTorch, 'asymmetric' "
      "as\n"
      "TensorFlow 1, or 'align_corners'.");
}

void bind_dense_layers(nb::module_& m) {
  m.def(
      "dense",
      [](const Value& x, std::int64_t features, bool bias, ActivationName activation, const std::string& weights_of,
         const Init& weights, const Init& bias_init, Name name) {
        const DenseOptions o{.features = features,
                             .bias = bias,
                             .weights_of = weights_of,
                             .weights_init = weights,
                             .bias_init = bias_init};
        activation_of(activation);
        return activated({x.network, dense(x.var, o, name)}, activation, name);
      },
      nb::arg("x"), nb::arg("features"), nb::kw_only(), nb::arg("bias") = true, nb::arg("activation") = nb::none(),
      nb::arg("weights_of") = "", nb::arg("weights_init") = Init::glorot_uniform(),
      nb::arg("bias_init") = Init::constant(0), nb::arg("name") = "",
      "x (N, in) times weights^T plus bias: (N, features). weights_of: name of a node whose weights are used.\n"
      "activation: as of conv(), for example dense(x, 300, activation='tanh'). The layer works on each row alone: on "
      "the\n"
      "steps of a sequence, too. On the channels of images use conv() of size 1.\n"
      "Parameters 'weights' (features, in) and 'bias' (features).");
  m.def(
      "embedding",
      [](const Value& x, std::int64_t entries, std::int64_t features, const Init& weights, Name name) {
        return Value{x.network,
                     embedding(x.var, {.entries = entries, .features = features, .weights_init = weights}, name)};
      },
      nb::arg("x"), nb::arg("entries"), nb::arg("features"), nb::kw_only(),
      nb::arg("weights_init") = Init::uniform(0.1f), nb::arg("name") = "",
      "Looks up rows of a table: x (N) or (N, steps) int32 -> (N * steps, features).");
  const auto recurrent = [&m](const char* kind, Var (*layer)(Var, const RecurrentOptions&, const std::string&),
                              const char* text) {
    m.def(
        kind,
        [layer](const Value& x, std::int64_t hidden, int layers, float dropout, bool carries_state, const Init& weights,
                const Init& bias, Name name) {
          const RecurrentOptions o{.hidden = hidden,
                                   .layers = layers,
                                   .dropout = dropout,
                                   .weights_init = weights,
                                   .bias_init = bias,
                                   .carries_state = carries_state};
          return Value{x.network, layer(x.var, o, name)};
        },
        nb::arg("x"), nb::arg("hidden"), nb::kw_only(), nb::arg("layers") = 1, nb::arg("dropout") = 0.0f,
        nb::arg("carries_state") = true, nb::arg("weights_init") = Init::glorot_uniform(),
        nb::arg("bias_init") = Init::constant(0), nb::arg("name") = "", text);
  };
  recurrent(
      "lstm", &lstm,
      "Long short-term memory over x (N * steps, features) -> (N * steps, hidden). carries_state=False: each sample\n"
      "is a sequence of its own.");
  recurrent("gru", &gru,
            "Gated recurrent units over x (N * steps, features) -> (N * steps, hidden). carries_state: as of lstm().");
  m.def(
      "last_step", [](const Value& x, Name name) { return Value{x.network, last_step(x.var, name)}; }, nb::arg("x"),
      nb::kw_only(), nb::arg("name") = "", "The last step of each sample: x (N * steps, features) -> (N, features).");
}

void bind_attention(nb::module_& m) {
  m.def(
      "attention",
      [](const Value& queries, const Value& keys, const Value& values, std::int64_t heads, bool causal, Name name) {
        return Value{queries.network, attention(queries.var, keys.var, values.var, heads, causal, name)};
      },
      nb::arg("queries"), nb::arg("keys"), nb::arg("values"), nb::arg("heads"), nb::kw_only(),
      nb::arg("causal") = false, nb::arg("name") = "",
      "Scaled dot-product attention in each of `heads` parts of the features, for (N * steps, features) values.\n"
      "causal: a step sees no later steps.");
  m.def(
      "multi_head_attention",
      [](const Value& x, std::int64_t heads, bool causal, bool bias, const Init& weights, const Init& bias_init,
         Name name) {
        const MultiHeadAttentionOptions o{
            .heads = heads, .causal = causal, .bias = bias, .weights_init = weights, .bias_init = bias_init};
        return Value{x.network, multi_head_attention(x.var, o, name)};
      },
      nb::arg("x"), nb::arg("heads"), nb::kw_only(), nb::arg("causal") = false, nb::arg("bias") = true,
      nb::arg("weights_init") = Init::glorot_uniform(), nb::arg("bias_init") = Init::constant(0), nb::arg("name") = "",
      "Self-attention over x (N * steps, features): dense layers for queries, keys and values, attention(), and a "
      "dense\n"
      "layer. causal: a step sees no later steps.");
}

void bind_normalization(nb::module_& m) {
  m.def(
      "batch_norm",
      [](const Value& x, float momentum, float epsilon, int ranks, const Init& scale, const Init& shift, Name name) {
        const BatchNormOptions o{
            .momentum = momentum, .epsilon = epsilon, .ranks = ranks, .scale_init = scale, .shift_init = shift};
        return Value{x.network, batch_norm(x.var, o, name)};
      },
      nb::arg("x"), nb::kw_only(), nb::arg("momentum") = 0.1f, nb::arg("epsilon") = 1e-5f, nb::arg("ranks") = 0,
      nb::arg("scale_init") = Init::constant(1), nb::arg("shift_init") = Init::constant(0), nb::arg("name") = "",
      "Batch normalization. ranks: over whose samples training takes its statistics: 0: all ranks, 1: each rank\n"
      "alone, n: groups of n neighbouring ranks.");
  m.def(
      "rms_norm",
      [](const Value& x, float epsilon, Name name) { return Value{x.network, rms_norm(x.var, epsilon, name)}; },
      nb::arg("x"), nb::kw_only(), nb::arg("epsilon") = 1e-5f, nb::arg("name") = "",
      "x / sqrt(mean of x^2 along a row + epsilon) * scale, for x (N, features).");
  m.def(
      "layer_norm",
      [](const Value& x, float epsilon, const Init& scale, const Init& shift, Name name) {
        const GroupNormOptions o{.epsilon = epsilon, .scale_init = scale, .shift_init = shift};
        return Value{x.network, layer_norm(x.var, o, name)};
      },
      nb::arg("x"), nb::kw_only(), nb::arg("epsilon") = 1e-5f, nb::arg("scale_init") = Init::constant(1),
      nb::arg("shift_init") = Init::constant(0), nb::arg("name") = "",
      "Layer normalization: each row of (N, features), or each sample of (N, C, spatial...), gets mean 0 and variance "
      "1,\n"
      "times scale, plus shift. Parameters 'scale' and 'shift', one value per feature or channel.");
  m.def(
      "group_norm",
      [](const Value& x, std::int64_t groups, float epsilon, const Init& scale, const Init& shift, Name name) {
        const GroupNormOptions o{.epsilon = epsilon, .scale_init = scale, .shift_init = shift};
        return Value{x.network, group_norm(x.var, groups, o, name)};
      },
      nb::arg("x"), nb::arg("groups"), nb::kw_only(), nb::arg("epsilon") = 1e-5f,
      nb::arg("scale_init") = Init::constant(1), nb::arg("shift_init") = Init::constant(0), nb::arg("name") = "",
      "Group normalization, as PyTorch's GroupNorm: layer_norm() of each of `groups` groups of channels.");
  m.def(
      "dropout", [](const Value& x, float rate, Name name) { return Value{x.network, dropout(x.var, rate, name)}; },
      nb::arg("x"), nb::arg("rate"), nb::kw_only(), nb::arg("name") = "",
      "Sets elements to 0 with this probability in training; in evaluation the result is x.");
}

void bind_activations(nb::module_& m) {
  const auto plain = [&m](const char* kind, Var (*layer)(Var, const std::string&), const char* text) {
    m.def(
        kind, [layer](const Value& x, Name name) { return Value{x.network, layer(x.var, name)}; }, nb::arg("x"),
        nb::kw_only(), nb::arg("name") = "", text);
  };
  plain("relu", &relu, "max(x, 0)");
  plain("tanh", &tanh, "Hyperbolic tangent.");
  plain("sigmoid", &sigmoid, "1 / (1 + exp(-x))");
  plain("gelu", &gelu, "x / 2 (1 + erf(x / sqrt 2))");
  plain("silu", &silu, "x sigmoid(x), also called swish.");
  plain("softplus", &softplus, "log(1 + exp(x)), a smooth relu.");
  plain("abs", &abs, "|x|; the derivative at 0 is 0.");
  plain("exp", &exp, "The exponential function; infinity above 88.");
  plain("log", &log, "The natural logarithm; -infinity for 0, NaN below.");
  m.def(
      "leaky_relu",
      [](const Value& x, float slope, Name name) { return Value{x.network, leaky_relu(x.var, slope, name)}; },
      nb::arg("x"), nb::arg("slope"), nb::kw_only(), nb::arg("name") = "", "x where x > 0, else slope x.");
  m.def(
      "elu", [](const Value& x, float alpha, Name name) { return Value{x.network, elu(x.var, alpha, name)}; },
      nb::arg("x"), nb::arg("alpha") = 1.0f, nb::kw_only(), nb::arg("name") = "",
      "x where x > 0, else alpha (exp(x) - 1).");
  m.def(
      "scale",
      [](const Value& x, float factor, float offset, Name name) {
        return Value{x.network, scale(x.var, factor, offset, name)};
      },
      nb::arg("x"), nb::arg("factor"), nb::arg("offset") = 0.0f, nb::kw_only(), nb::arg("name") = "",
      "factor x + offset");
  m.def(
      "power", [](const Value& x, float exponent, Name name) { return Value{x.network, power(x.var, exponent, name)}; },
      nb::arg("x"), nb::arg("exponent"), nb::kw_only(), nb::arg("name") = "",
      "x ** exponent; NaN for x < 0 unless the exponent is a whole number.");
  m.def(
      "softmax", [](const Value& x, int axis, Name name) { return Value{x.network, softmax(x.var, axis, name)}; },
      nb::arg("x"), nb::arg("axis") = 1, nb::kw_only(), nb::arg("name") = "", "exp(x) / sum of exp(x) along `axis`.");
}

/// Throws InputError for an empty list.
std::vector<Var> vars_of(const std::vector<Value>& xs, const char* layer) {
  if (xs.empty()) refuse("{} was given no value. Expected at least one", layer);
  std::vector<Var> vars;
  for (const auto& x : xs) vars.push_back(x.var);
  return vars;
}

void bind_shapes(nb::module_& m) {
  m.def(
      "flatten",
      [](const Value& x, const std::string& order, std::int64_t features, Name name) {
        const auto o = choose<ElementOrder>(
            "order", order, {{"logical", ElementOrder::logical}, {"channels_last", ElementOrder::channels_last}});
        return Value{x.network, flatten(x.var, o, features, name)};
      },
      nb::arg("x"), nb::kw_only(), nb::arg("order") = "logical", nb::arg("features") = 0, nb::arg("name") = "",
      "A sample's elements as rows of `features`; 0: one row. order: 'logical' as in PyTorch, or\n"
      "'channels_last' as in TensorFlow.");
  m.def(
      "reshape",
      [](const Value& x, const Shape& sample, Name name) { return Value{x.network, reshape(x.var, sample, name)}; },
      nb::arg("x"), nb::arg("sample"), nb::kw_only(), nb::arg("name") = "",
      "The same elements in logical order, with another shape of a sample.");
  m.def(
      "add",
      [](const std::vector<Value>& xs, Name name) {
        const auto vars = vars_of(xs, "add");
        return Value{xs[0].network, add(vars, name)};
      },
      nb::arg("xs"), nb::kw_only(), nb::arg("name") = "", "The sum of values of the same shape.");
  m.def(
      "multiply",
      [](const std::vector<Value>& xs, Name name) {
        const auto vars = vars_of(xs, "multiply");
        return Value{xs[0].network, multiply(vars, name)};
      },
      nb::arg("xs"), nb::kw_only(), nb::arg("name") = "",
      "The product of values of the same shape, element by element: multiply([a, b]), or a * b.");
  m.def(
      "concat",
      [](const std::vector<Value>& xs, int axis, Name name) {
        const auto vars = vars_of(xs, "concat");
        return Value{xs[0].network, concat(vars, axis, name)};
      },
      nb::arg("xs"), nb::arg("axis") = 1, nb::kw_only(), nb::arg("name") = "", "Concatenates values along `axis`.");
}

}  // namespace

void bind_layers(nb::module_& m) {
  bind_convolutions(m);
  bind_dense_layers(m);
  bind_attention(m);
  bind_normalization(m);
  bind_activations(m);
  bind_shapes(m);
}

}  // namespace keelson::python
