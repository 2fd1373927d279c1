#include "backends/onednn/weighted.hpp"

namespace keelson::backends::onednn {
namespace {

struct Kinds {
  using Forward = dnnl::inner_product_forward;
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;
};

class Dense final : public Weighted<ops::DenseDesc, Kinds> {
 public:
  Dense(const SessionPtr& session, const ops::DenseDesc& d) : Weighted(session, d, ops::dense_flops(d), 1) {
    build(
        [&](const Operands& o) {
          return Kinds::Forward::primitive_desc(session->engine, forward_kind(), o.src, o.weights, bias_, o.dst,
                                                attributes(d.params.activation));
        },
        [&](const Operands& o, const auto& forward) {
          return Kinds::BackwardData::primitive_desc(session->engine, o.src, o.weights, o.dst, forward, attributes(),
                                                     true);
        },
        [&](const Operands& o, const auto& forward) {
          return Kinds::BackwardWeights::primitive_desc(session->engine, o.src, o.weights, bias_, o.dst, forward,
                                                        attributes(), true);
        });
  }
};

}  // namespace

std::unique_ptr<ops::Dense> make_dense(const SessionPtr& session, const ops::DenseDesc& d) {
  if (d.src.shape.rank() != 2) decline("src has rank {}, expected (N, in)", d.src.shape.rank());
  return std::make_unique<Dense>(session, d);
}

}  // namespace keelson::backends::onednn
