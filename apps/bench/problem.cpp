#include "apps/bench/problem.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "apps/common/suggest.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::bench {
namespace {

using ops::EltwiseKind;

const std::map<std::string, EltwiseKind> eltwise_kinds{
    {"identity", EltwiseKind::identity}, {"relu", EltwiseKind::relu},       {"leaky_relu", EltwiseKind::leaky_relu},
    {"tanh", EltwiseKind::tanh},         {"sigmoid", EltwiseKind::sigmoid}, {"gelu", EltwiseKind::gelu},
    {"silu", EltwiseKind::silu},         {"elu", EltwiseKind::elu},         {"softplus", EltwiseKind::softplus},
    {"linear", EltwiseKind::linear},     {"abs", EltwiseKind::abs},         {"exp", EltwiseKind::exp},
    {"log", EltwiseKind::log},           {"power", EltwiseKind::power}};

template <class T>
bool read_number(const std::string& text, T& value) {
  const auto number = parse_number<T>(text);
  if (number) value = *number;
  return number.has_value();
}

/// The key=value words of one line. A function that reads a key also says which value is expected; finish() refuses
/// keys that were not read.
class Fields {
 public:
  Fields(std::string op, std::istream& words) : op_(std::move(op)) {
    for (std::string word; words >> word;) {
      const auto sign = word.find('=');
      if (sign == std::string::npos || sign == 0)
        refuse("{}: found '{}', but expected key=value without spaces, e.g. kernel=3", op_, word);
      const auto key = word.substr(0, sign);
      if (!values_.emplace(key, word.substr(sign + 1)).second) refuse("{}: '{}' is given twice", op_, key);
    }
  }

  bool has(const std::string& key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
    return values_.count(key) > 0;
  }

  [[noreturn]] void refuse_value(const std::string& key, const std::string& expected) const {
    refuse("{}: {}={} cannot be used; expected {}", op_, key, values_.at(key), expected);
  }

  const std::string& text(const std::string& key, const std::string& expected) {
    if (has(key)) return values_.at(key);
    std::vector<std::string> given;
    for (const auto& value : values_) given.push_back(value.first);
    const auto slip = app::nearest(key, given);
    refuse("{}: {}= is missing{}; expected {}", op_, key,
           slip.empty() ? "" : fmt::format(" (did you mean it by '{}='?)", slip), expected);
  }

  std::int64_t positive(const std::string& key, std::int64_t otherwise = 0) {
    constexpr const char* expected = "a whole number, at least 1";
    if (otherwise > 0 && !has(key)) return otherwise;
    std::int64_t n = 0;
    if (!read_number(text(key, expected), n) || n < 1 || n > most_elements) refuse_value(key, expected);
    return n;
  }

  float real(const std::string& key, float otherwise) {
    if (!has(key)) return otherwise;
    float v = 0;
    if (!read_number(values_.at(key), v)) refuse_value(key, "a number, e.g. 0.3");
    return v;
  }

  template <class T>
  T one_of(const std::string& key, const std::map<std::string, T>& choices, const std::string& otherwise) {
    const bool given = has(key);
    if (!given && otherwise.empty()) text(key, names_of(choices));
    const auto found = choices.find(given ? values_.at(key) : otherwise);
    if (found == choices.end()) refuse_value(key, names_of(choices));
    return found->second;
  }

  Shape shape(const std::string& key, int least_rank, int most_rank, const std::string& expected) {
    Shape s;
    std::istringstream parts(text(key, expected));
    double elements = 1;
    for (std::string part; std::getline(parts, part, 'x');) {
      std::int64_t n = 0;
      if (!read_number(part, n) || n < 1 || s.rank() == most_rank) refuse_value(key, expected);
      s.push_back(n);
      elements *= static_cast<double>(n);
    }
    if (s.rank() < least_rank || values_.at(key).ends_with("x")) refuse_value(key, expected);
    if (elements > static_cast<double>(most_elements))
      refuse_value(key, fmt::format("at most {} elements", most_elements));
    return s;
  }

  /// One number for all spatial dimensions, or one for each.
  Shape spatial(const std::string& key, int dims, std::int64_t least, std::int64_t otherwise = -1) {
    if (otherwise >= 0 && !has(key)) return Shape::filled(dims, otherwise);
    const auto expected = fmt::format("one number, at least {}, or {} of them with x between them", least, dims);
    Shape s;
    std::istringstream parts(text(key, expected));
    for (std::string part; std::getline(parts, part, 'x');) {
      std::int64_t n = 0;
      if (!read_number(part, n) || n < least || n > 1 << 20 || s.rank() == dims) refuse_value(key, expected);
      s.push_back(n);
    }
    if ((s.rank() != dims && s.rank() != 1) || values_.at(key).ends_with("x")) refuse_value(key, expected);
    return s.rank() == 1 ? Shape::filled(dims, s[0]) : s;
  }

  void finish() const {
    for (const auto& [key, value] : values_)
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        refuse("{}: no key '{}'{}; the keys are {}", op_, key, app::did_you_mean(key, known_), fmt::join(known_, ", "));
  }

 private:
  static constexpr std::int64_t most_elements = std::int64_t{1} << 40;

  template <class T>
  static std::string names_of(const std::map<std::string, T>& choices) {
    std::vector<std::string> names;
    for (const auto& choice : choices) names.push_back(choice.first);
    return fmt::format("one of {}", fmt::join(names, ", "));
  }

  std::string op_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

constexpr const char* batch_shape = "N x C x 1 to 3 spatial extents, e.g. 1x4x128x128x128";

bool yes(Fields& f, const std::string& key) { return f.one_of<bool>(key, {{"yes", true}, {"no", false}}, "yes"); }

ops::EltwiseParams activation(Fields& f, const std::string& key, const std::string& otherwise) {
  return {f.one_of(key, eltwise_kinds, otherwise), f.real("alpha", 0.01f), f.real("beta", 0)};
}

/// The activation that a convolution or dense layer applies to its result.
ops::EltwiseParams fused_activation(Fields& f) {
  const auto p = activation(f, "activation", "identity");
  if (!derivative_from_dst(p)) f.refuse_value("activation", "a function whose derivative follows from its result");
  return p;
}

TensorDesc any(const Shape& shape) { return {shape, DType::f32, Layout::any()}; }

TensorDesc with_layout(Fields& f, const Shape& shape) {
  const bool last = f.one_of<bool>("layout", {{"channels-last", true}, {"plain", false}}, "channels-last");
  return {shape, DType::f32, last ? Layout::channels_last(shape) : Layout::plain(shape)};
}

/// Reads the parameters that both kinds of convolution have.
template <class Params>
void read_conv(Fields& f, int dims, Params& p) {
  p.kernel = f.spatial("kernel", dims, 1);
  p.stride = f.spatial("stride", dims, 1, 1);
  p.dilation = f.spatial("dilation", dims, 1, 1);
  p.groups = f.positive("groups", 1);
  p.bias = yes(f, "bias");
  p.activation = fused_activation(f);
}

/// The weights of a convolution: (outer, inner, kernel...).
TensorDesc conv_weights(std::int64_t outer, std::int64_t inner, const Shape& kernel) {
  Shape weights{outer, inner};
  for (auto k : kernel) weights.push_back(k);
  return any(weights);
}

ops::ConvDesc conv(Fields& f) {
  ops::ConvDesc d;
  const Shape src = f.shape("src", 3, 5, batch_shape);
  const int dims = src.rank() - 2;
  const auto filters = f.positive("filters");
  auto& p = d.params;
  read_conv(f, dims, p);
  if (f.has("padding") && f.text("padding", "") == "same")
    set_same_padding(p, src);
  else
    p.pad_begin = p.pad_end = f.spatial("padding", dims, 0, 0);
  f.finish();
  d.src = any(src);
  d.dst = any(conv_dst_shape(src, p, filters));
  d.weights = conv_weights(filters, src[1] / p.groups, p.kernel);
  return d;
}

ops::TransposedConvDesc transposed_conv(Fields& f) {
  ops::TransposedConvDesc d;
  const Shape src = f.shape("src", 3, 5, batch_shape);
  const int dims = src.rank() - 2;
  const auto filters = f.positive("filters");
  auto& p = d.params;
  read_conv(f, dims, p);
  if (f.has("padding") && f.text("padding", "") == "same") {
    set_same_padding(p);
  } else {
    p.pad_begin = p.pad_end = f.spatial("padding", dims, 0, 0);
    p.output_padding = f.spatial("output_padding", dims, 0, 0);
  }
  f.finish();
  d.src = any(src);
  d.dst = any(transposed_conv_dst_shape(src, p, filters));
  d.weights = conv_weights(src[1], filters / p.groups, p.kernel);
  return d;
}

ops::DenseDesc dense(Fields& f) {
  ops::DenseDesc d;
  const Shape src = f.shape("src", 2, 2, "N x inputs, e.g. 16x4096");
  const auto outputs = f.positive("outputs");
  d.params = {yes(f, "bias"), fused_activation(f)};
  f.finish();
  d.src = any(src);
  d.weights = any({outputs, src[1]});
  d.dst = any({src[0], outputs});
  return d;
}

ops::PoolDesc pool(Fields& f) {
  ops::PoolDesc d;
  const Shape src = f.shape("src", 3, 5, batch_shape);
  const int dims = src.rank() - 2;
  auto& p = d.params;
  p.kind = f.one_of<ops::PoolKind>("kind", {{"max", ops::PoolKind::max}, {"average", ops::PoolKind::average}}, "max");
  p.kernel = f.spatial("kernel", dims, 1);
  p.stride = f.has("stride") ? f.spatial("stride", dims, 1) : p.kernel;
  p.pad_begin = p.pad_end = f.spatial("padding", dims, 0, 0);
  d.src = with_layout(f, src);
  f.finish();
  d.dst = any(pool_dst_shape(src, p));
  return d;
}

ops::EltwiseDesc eltwise(Fields& f) {
  ops::EltwiseDesc d;
  d.params = activation(f, "kind", "");
  d.src = with_layout(f, f.shape("shape", 1, max_rank, "extents, e.g. 1x32x64x64x64"));
  f.finish();
  return d;
}

ops::ProductDesc product(Fields& f) {
  ops::ProductDesc d;
  d.count = static_cast<int>(std::min<std::int64_t>(f.positive("count", 2), 1 << 10));
  if (d.count < 2) f.refuse_value("count", "a whole number, at least 2");
  d.dst = with_layout(f, f.shape("shape", 1, max_rank, "extents, e.g. 1x32x64x64x64"));
  f.finish();
  return d;
}

ops::GroupNormDesc group_norm(Fields& f) {
  ops::GroupNormDesc d;
  const Shape src = f.shape("src", 2, 5, "N x C, or N x C x spatial extents, e.g. 4x64x32x32x32");
  d.groups = f.positive("groups", 1);
  f.finish();
  if (src[1] % d.groups != 0) f.refuse_value("groups", fmt::format("a divisor of {} channels", src[1]));
  d.src = {src, DType::f32, src.rank() == 2 ? Layout::plain(src) : Layout::channels_last(src)};
  return d;
}

ops::AttentionDesc attention(Fields& f) {
  ops::AttentionDesc d;
  const Shape src = f.shape("src", 2, 2, "samples * steps x features, e.g. 1024x512");
  d.steps = f.positive("steps");
  d.heads = f.positive("heads", 1);
  d.causal = f.one_of<bool>("causal", {{"yes", true}, {"no", false}}, "no");
  f.finish();
  if (src[0] % d.steps != 0) f.refuse_value("steps", fmt::format("a divisor of {} rows", src[0]));
  if (src[1] % d.heads != 0) f.refuse_value("heads", fmt::format("a divisor of {} features", src[1]));
  d.src = TensorDesc::plain(src);
  return d;
}

ops::UpdateDesc update(Fields& f) {
  ops::UpdateDesc d;
  d.params.kind =
      f.one_of<ops::UpdateKind>("kind", {{"sgd", ops::UpdateKind::sgd}, {"adam", ops::UpdateKind::adam}}, "sgd");
  if (d.params.kind == ops::UpdateKind::sgd) d.params.momentum = f.real("momentum", 0.9f);
  d.param = TensorDesc::plain({f.positive("count")});
  f.finish();
  return d;
}

}  // namespace

const char* problem_help() {
  return R"(Problems (words in brackets may be left out; the value shown is the default):
  conv src=SHAPE filters=N kernel=K [stride=1 dilation=1 padding=0 groups=1 bias=yes activation=identity alpha=0.01]
  transposed_conv src=SHAPE filters=N kernel=K [stride=1 dilation=1 padding=0 output_padding=0 groups=1 bias=yes activation=identity alpha=0.01]
  dense src=NxINPUTS outputs=N [bias=yes activation=identity alpha=0.01]
  pool src=SHAPE kernel=K [kind=max stride=KERNEL padding=0 layout=channels-last]
  eltwise kind=KIND shape=SHAPE [alpha=0.01 beta=0 layout=channels-last]
  product shape=SHAPE [count=2 layout=channels-last]
  group_norm src=SHAPE [groups=1]   (of rows: src=NxC; one group is layer normalization)
  attention src=ROWSxFEATURES steps=N [heads=1 causal=no]   (ROWS: samples * steps)
  update count=N [kind=sgd momentum=0.9]
SHAPE is N x C x spatial extents, e.g. 1x4x128x128x128. Kernel, stride, dilation
and padding are one number for all spatial dims or one for each, e.g. 3x3x1;
padding=same keeps ceil(extent / stride), of transposed_conv extent * stride.
KIND of eltwise and activation: relu, leaky_relu, tanh, sigmoid, gelu, silu, elu,
softplus, linear, abs, exp, log, power; of pool: max, average; of update: sgd, adam. Everything is f32.)";
}

Problem parse_problem(const std::string& line) {
  std::istringstream words(line);
  std::string op;
  words >> op;
  const std::vector<std::string> ops{"conv",    "transposed_conv", "dense",     "pool",  "eltwise",
                                     "product", "group_norm",      "attention", "update"};
  if (std::find(ops.begin(), ops.end(), op) == ops.end())
    refuse("no op '{}'{}; a problem begins with one of {}", op, app::did_you_mean(op, ops), fmt::join(ops, ", "));
  Fields fields(op, words);
  if (op == "conv") return {line, conv(fields)};
  if (op == "transposed_conv") return {line, transposed_conv(fields)};
  if (op == "dense") return {line, dense(fields)};
  if (op == "pool") return {line, pool(fields)};
  if (op == "eltwise") return {line, eltwise(fields)};
  if (op == "product") return {line, product(fields)};
  if (op == "group_norm") return {line, group_norm(fields)};
  if (op == "attention") return {line, attention(fields)};
  return {line, update(fields)};
}

std::vector<Problem> read_problems(const std::string& file) {
  std::ifstream in(file);
  if (!in) refuse("cannot read the file of problems '{}' (--file)", file);
  std::vector<Problem> problems;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    const auto begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    try {
      problems.push_back(parse_problem(line.substr(begin, end - begin + 1)));
    } catch (const InputError& error) {
      refuse("{}:{}: {}", file, number, error.what());
    }
  }
  if (problems.empty())
    refuse("'{}' holds no problem; expected lines such as: conv src=1x4x64x64x64 filters=32 kernel=3 padding=same",
           file);
  return problems;
}

}  // namespace keelson::bench
