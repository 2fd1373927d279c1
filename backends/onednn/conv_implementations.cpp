#include "backends/onednn/conv_implementations.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "engine/base/align.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;
using Memory = dnnl::memory::desc;

/// The most bytes of reordered operands that a candidate may have in scratch memory, which a plan's calls share. The
/// implementation's own scratch memory does not count: it depends on the number of threads, and all ranks must have the
/// same candidates.
constexpr std::size_t most_reordered_bytes = std::size_t{64} << 20;

constexpr int most_direct = 1, most_reordered = 1;  // for a verb: each takes time at the first start

/// An operand in the layout of the caller, and in the layout of an implementation.
struct Part {
  Role role;
  int argument;
  bool result;
  TensorDesc given;
  Memory given_md, wanted_md;

  TensorDesc wanted() const {
    return {given.shape, to_dtype(wanted_md.get_data_type()), to_layout(wanted_md, given.shape)};
  }
  bool is_reordered() const { return !(wanted().layout == given.layout); }
  /// Source and destination of the operand's reorder.
  const Memory& from() const { return result ? wanted_md : given_md; }
  const Memory& to() const { return result ? given_md : wanted_md; }
};

/// One of oneDNN's implementations of a verb.
struct Implementation {
  Verb verb;
  std::string name;                                                ///< name of the candidate
  std::function<Call(const LibraryPtr&, double flops)> make_call;  ///< without operands
  std::vector<Part> parts;                                         ///< in the order of Call::run
};

/// One verb of a convolution by an implementation; the others fail. Scratch memory has the reordered operands, then the
/// scratch memory of the calls, of which one runs at a time.
class ReorderedConv final : public ops::Conv {
 public:
  ReorderedConv(const LibraryPtr& library, const Implementation& made, double flops)
      : name_(made.name), verb_(made.verb), call_(made.make_call(library, flops)) {
    std::size_t rest = call_.scratch_bytes();
    for (const Part& p : made.parts) {
      const TensorDesc wanted = p.wanted();
      call_.bind(p.role, p.argument, p.wanted_md, wanted);
      operands_.push_back({p, wanted, before_rest_, {}});
      if (!p.is_reordered()) continue;
      const dnnl::reorder::primitive_desc pd(library->engine, p.from(), library->engine, p.to(), attributes());
      Call& reorder = operands_.back().reorder = Call::make<dnnl::reorder>(library, pd, 0);
      reorder.bind(Role::src, DNNL_ARG_FROM, p.from(), p.result ? wanted : p.given)
          .bind(Role::dst, DNNL_ARG_TO, p.to(), p.result ? p.given : wanted);
      before_rest_ += align64(wanted.bytes());
      rest = std::max(rest, reorder.scratch_bytes());
    }
    rest_ = TensorDesc::plain({static_cast<std::int64_t>(rest)}, DType::u8);
    tensors_.resize(operands_.size());
  }

  Layout layout(Verb, Role role) const override {
    for (const Operand& o : operands_)
      if (o.part.role == role) return o.part.given.layout;
    fail("{} has no operand {}", name_, to_string(role));
  }
  std::string name(Verb) const override { return name_; }
  std::size_t scratch_bytes(Verb) const override { return before_rest_ + rest_.bytes(); }
  ops::Cost cost(Verb) const override {
    ops::Cost c{call_.cost().flops, 0};
    for (const Operand& o : operands_) c.bytes += static_cast<double>(o.part.given.bytes());
    return c;
  }

  void forward(const Forward<ops::Tensors>& args) override {
    run(Verb::forward, {&args.src, &args.weights, &args.dst, &args.bias}, args.scratch);
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    run(Verb::backward_data, {&args.diff_dst, &args.weights, &args.diff_src, nullptr}, args.scratch);
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    run(Verb::backward_weights, {&args.src, &args.diff_dst, &args.diff_weights, &args.diff_bias}, args.scratch);
  }

 private:
  static constexpr std::size_t most_operands = 4;
  struct Operand {
    Part part;
    TensorDesc wanted;
    std::size_t offset;  ///< in scratch memory
    Call reorder;        ///< empty: the operand is not reordered
  };

  void run(Verb verb, const std::array<const Tensor*, most_operands>& given, const Tensor& scratch) {
    KEELSON_EXPECT(verb == verb_);
    if (const auto needed = scratch_bytes(verb); needed > 0 && (!scratch || scratch.bytes() < needed))
      fail("oneDNN {}: needs {} bytes of scratch, got {}", name_, needed, scratch ? scratch.bytes() : 0);
    auto* const at = static_cast<std::byte*>(scratch.raw());
    const Tensor rest = rest_.bytes() > 0 ? Tensor(rest_, at + before_rest_) : Tensor();
    std::array<const Tensor*, most_operands> taken = given;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      Operand& o = operands_[i];
      if (!o.reorder) continue;
      tensors_[i] = Tensor(o.wanted, at + o.offset);
      taken[i] = &tensors_[i];
      if (!o.part.result) o.reorder.run({given[i], taken[i]}, &rest);
    }
    call_.run(taken.data(), operands_.size(), &rest);
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (Operand& o = operands_[i]; o.reorder && o.part.result) o.reorder.run({taken[i], given[i]}, &rest);
  }

  std::string name_;
  Verb verb_;
  Call call_;
  std::vector<Operand> operands_;
  std::size_t before_rest_ = 0;
  TensorDesc rest_;
  std::vector<Tensor> tensors_;  // in scratch memory; a member, so that a call allocates nothing
};

/// Searches oneDNN's implementations of each verb.
class Search {
 public:
  Search(const LibraryPtr& library, const ops::ConvDesc& d, const ops::Conv& first)
      : library_(library), d_(d), first_(first), descriptors_(library, d), src_(last(d.src)), dst_(last(d.dst)) {}

  std::vector<Implementation> find() {
    const TensorDesc weights = d_.weights.with(first_.layout(Verb::forward, Role::weights));
    const auto forward = [&](const Operands& o) { return descriptors_.forward(o, true); };
    look<ConvKinds::Forward>(Verb::forward, {src_, weights, dst_}, forward, [&](const auto& pd) {
      return std::vector<Part>{part(Role::src, DNNL_ARG_SRC, false, src_, pd.src_desc()),
                               part(Role::weights, DNNL_ARG_WEIGHTS, false, weights, pd.weights_desc()),
                               part(Role::dst, DNNL_ARG_DST, true, dst_, pd.dst_desc()),
                               bias(d_.params.bias, Role::bias, DNNL_ARG_BIAS, false)};
    });
    if (!d_.training) return std::move(found_);
    // The gradients need a forward descriptor as a hint.
    const auto hint =
        descriptors_.forward({to_desc(src_), any(to_desc(weights, d_.params.groups)), to_desc(dst_)}, true);
    if (!hint) return std::move(found_);
    if (d_.diff_src) find_backward_data(hint);
    if (d_.diff_weights) find_backward_weights(hint);
    return std::move(found_);
  }

 private:
  /// The operands of a verb: src and dst are channels-last; each operand has its dtype.
  struct Given {
    TensorDesc src, weights, dst;
  };

  static TensorDesc last(const TensorDesc& t) { return t.with(Layout::channels_last(t.shape)); }
  static TensorDesc typed(TensorDesc t, DType type) {
    t.dtype = type;
    return t;
  }
  static Memory any(const Memory& md) { return {md.get_dims(), md.get_data_type(), dnnl::memory::format_tag::any}; }

  Part part(Role role, int argument, bool result, const TensorDesc& given, const Memory& wanted) const {
    const bool weights = role == Role::weights || role == Role::diff_weights;
    return {role, argument, result, given, to_desc(given, weights ? d_.params.groups : 1), wanted};
  }
  /// Role::none if the bias is missing.
  Part bias(bool there, Role role, int argument, bool result) const {
    const auto t = ops::Conv::bias_desc(d_);
    return {there ? role : Role::none, argument, result, t, to_desc(t), to_desc(t)};
  }

  void find_backward_data(const ConvKinds::Forward::primitive_desc& hint) {
    const TensorDesc diff_src = typed(src_, d_.dst.dtype), diff_dst = typed(dst_, d_.src.dtype),
                     weights = d_.weights.with(first_.layout(Verb::backward_data, Role::weights));
    const auto make = [&](const Operands& o) { return descriptors_.backward_data(o, hint); };
    look<ConvKinds::BackwardData>(Verb::backward_data, {diff_src, weights, diff_dst}, make, [&](const auto& pd) {
      return std::vector<Part>{part(Role::diff_dst, DNNL_ARG_DIFF_DST, false, diff_dst, pd.diff_dst_desc()),
                               part(Role::weights, DNNL_ARG_WEIGHTS, false, weights, pd.weights_desc()),
                               part(Role::diff_src, DNNL_ARG_DIFF_SRC, true, diff_src, pd.diff_src_desc())};
    });
  }

  void find_backward_weights(const ConvKinds::Forward::primitive_desc& hint) {
    const TensorDesc diff_dst = typed(dst_, d_.src.dtype),
                     diff_weights =
                         typed(d_.weights.with(first_.layout(Verb::backward_weights, Role::diff_weights)), DType::f32);
    const auto make = [&](const Operands& o) { return descriptors_.backward_weights(o, hint); };
    look<ConvKinds::BackwardWeights>(Verb::backward_weights, {src_, diff_weights, diff_dst}, make, [&](const auto& pd) {
      return std::vector<Part>{
          part(Role::src, DNNL_ARG_SRC, false, src_, pd.src_desc()),
          part(Role::diff_dst, DNNL_ARG_DIFF_DST, false, diff_dst, pd.diff_dst_desc()),
          part(Role::diff_weights, DNNL_ARG_DIFF_WEIGHTS, true, diff_weights, pd.diff_weights_desc()),
          bias(d_.writes_diff_bias(), Role::diff_bias, DNNL_ARG_DIFF_BIAS, true)};
    });
  }

  /// Tries the layouts with the fewest reorders first: all given; then weights in any layout; then all in any layout.
  template <class P, class Make, class Parts>
  void look(Verb verb, const Given& g, const Make& make, const Parts& parts) {
    const Operands given{to_desc(g.src), to_desc(g.weights, d_.params.groups), to_desc(g.dst)};
    const Operands free_weights{given.src, any(given.weights), given.dst},
        free{any(given.src), free_weights.weights, any(given.dst)};
    int direct = 0, reordered = 0, least_rank = std::max(implementation_rank(first_.name(verb)), 1);
    for (const Operands& o : {given, free_weights, free}) {
      auto pd = make(o);
      if (!pd) continue;
      do {
        if (descriptors_.is_wrong(verb, pd.impl_info_str())) continue;
        const auto operands = without_none(parts(pd));
        const bool reorders_values = std::any_of(operands.begin(), operands.end(), [](const Part& p) {
          return p.role != Role::weights && p.role != Role::diff_weights && p.is_reordered();
        });
        int& count = reorders_values ? reordered : direct;
        if (count == (reorders_values ? most_reordered : most_direct)) continue;
        const std::string name = fmt::format("{}{}", pd.impl_info_str(), reorders_values ? ", reordered" : "");
        if (implementation_rank(name) < least_rank) continue;
        least_rank = implementation_rank(name);
        if (!is_new(verb, name)) continue;
        if (reordered_bytes(operands) > most_reordered_bytes || !has_reorders(operands)) continue;
        ++count;
        const typename P::primitive_desc kept(pd.get());  // a copy: next_impl() changes all that share the object
        const auto make_call = [kept](const LibraryPtr& l, double flops) { return Call::make<P>(l, kept, flops); };
        found_.push_back({verb, name, make_call, operands});
      } while ((direct < most_direct || reordered < most_reordered) && pd.next_impl());
    }
  }

  static std::vector<Part> without_none(std::vector<Part> parts) {
    std::erase_if(parts, [](const Part& p) { return p.role == Role::none; });
    return parts;
  }

  bool is_new(Verb verb, const std::string& name) const {
    return name != first_.name(verb) && std::none_of(found_.begin(), found_.end(), [&](const Implementation& i) {
             return i.verb == verb && i.name == name;
           });
  }

  bool has_reorders(const std::vector<Part>& parts) const {
    return std::all_of(parts.begin(), parts.end(), [&](const Part& p) {
      return !p.is_reordered() ||
             dnnl::reorder::primitive_desc(library_->engine, p.from(), library_->engine, p.to(), attributes(), true);
    });
  }
  static std::size_t reordered_bytes(const std::vector<Part>& parts) {
    std::size_t bytes = 0;
    for (const Part& p : parts)
      if (p.is_reordered()) bytes += align64(p.wanted_md.get_size());
    return bytes;
  }

  const LibraryPtr& library_;
  const ops::ConvDesc& d_;
  const ops::Conv& first_;
  ConvDescriptors descriptors_;
  TensorDesc src_, dst_;
  std::vector<Implementation> found_;
};

}  // namespace

ConvDescriptors::ConvDescriptors(const LibraryPtr& library, const ops::ConvDesc& d)
    : library_(library),
      activation_(d.params.activation),
      training_(d.training),
      is_shallow_(d.src.shape.rank() == 5 && d.params.dilation[0] * (d.params.kernel[0] - 1) >= d.src.shape[2]),
      skips_(std::ranges::any_of(d.params.stride, [](std::int64_t s) { return s > 1; })),
      has_few_channels_(d.src.shape[1] < 16),
      stride_(to_dims(d.params.stride)),
      gaps_(to_dims(d.params.dilation)),  // oneDNN counts the gaps between taps
      begin_(to_dims(d.params.pad_begin)),
      end_(to_dims(d.params.pad_end)) {
  for (auto& g : gaps_) --g;
  if (d.params.bias) bias_ = to_desc(ops::Conv::bias_desc(d));
  if (d.writes_diff_bias()) diff_bias_ = to_desc(ops::Conv::bias_desc(d));
}

// All algorithms are direct. Winograd's would lose accuracy.
ConvKinds::Forward::primitive_desc ConvDescriptors::forward(const Operands& o, bool may_be_empty) const {
  const auto kind = training_ ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return {library_->engine,
          kind,
          dnnl::algorithm::convolution_direct,
          o.src,
          o.weights,
          bias_,
          o.dst,
          stride_,
          gaps_,
          begin_,
          end_,
          attributes(activation_),
          may_be_empty};
}

ConvKinds::BackwardData::primitive_desc ConvDescriptors::backward_data(
    const Operands& o, const ConvKinds::Forward::primitive_desc& forward) const {
  return {library_->engine,
          dnnl::algorithm::convolution_direct,
          o.src,
          o.weights,
          o.dst,
          stride_,
          gaps_,
          begin_,
          end_,
          forward,
          attributes(),
          true};
}

ConvKinds::BackwardWeights::primitive_desc ConvDescriptors::backward_weights(
    const Operands& o, const ConvKinds::Forward::primitive_desc& forward) const {
  ConvKinds::BackwardWeights::primitive_desc pd(library_->engine, dnnl::algorithm::convolution_direct, o.src, o.weights,
                                                diff_bias_, o.dst, stride_, gaps_, begin_, end_, forward, attributes(),
                                                true);
  while (pd && is_wrong(ops::Verb::backward_weights, pd.impl_info_str()))
    if (!pd.next_impl()) return {};
  return pd;
}

bool ConvDescriptors::is_wrong(ops::Verb verb, std::string_view implementation) const {
  if (verb != ops::Verb::backward_weights) return false;
  const auto is = [&](std::string_view name) { return implementation.find(name) != implementation.npos; };
  return (is_shallow_ && is("jit_bf16")) || (skips_ && is("jit_1x1:avx2")) ||
         (skips_ && has_few_channels_ && (is("jit_1x1") || is("jit_bf16_1x1")));
}

ops::CandidateList<ops::Conv> further_implementations(const LibraryPtr& library,
                                                      const ops::CandidateRequest<ops::ConvDesc>& request) {
  if (!request.first) return std::string("no backend has made the convolution");
  const ops::ConvDesc& d = request.desc;
  const ops::Conv& first = *request.first;
  if (!d.src.layout.is_channels_last(d.src.shape) || !d.dst.layout.is_channels_last(d.dst.shape))
    return std::string("src or dst is not channels-last");
  using All = std::vector<Implementation>;
  const All all = library->chosen<ops::ConvDesc, All>().get(d, [&] { return Search(library, d, first).find(); });
  std::vector<ops::Candidate<ops::Conv>> candidates;
  for (const Implementation& i : all)
    if (i.verb == request.verb)
      candidates.push_back({i.name, [library, i, flops = ops::conv_flops(d)] {
                              return std::make_shared<ReorderedConv>(library, i, flops);
                            }});
  if (candidates.empty()) return std::string("oneDNN has no other implementation that is as good by kind");
  return candidates;
}

}  // namespace keelson::onednn
