#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/base/align.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/matmul.hpp"

/// Matrix products as parts of other primitives.
namespace keelson::detail {

/// A primitive of a kind for each description, made once.
template <class Desc>
class MadeOnce {
 public:
  explicit MadeOnce(Context& context) : context_(context) {}
  std::shared_ptr<typename Desc::Op> operator()(const Desc& d) {
    auto& made = made_[ops::description_of(d)];
    if (!made) made = context_.make(d);
    return made;
  }

 private:
  Context& context_;
  std::map<std::string, std::shared_ptr<typename Desc::Op>> made_;
};

/// A product, with the memory that it needs.
struct Product {
  std::shared_ptr<ops::MatMul> op;
  TensorDesc src, weights, dst;

  std::size_t scratch() const { return align64(op->packed_bytes()) + align64(op->scratch_bytes(ops::Verb::forward)); }
  void run(const float* a, const float* b, float* c, std::byte* scratch) const {
    const Tensor left(src, const_cast<float*>(a)), right(weights, const_cast<float*>(b));
    void* const packed = op->packed_bytes() > 0 ? scratch : nullptr;
    op->pack(right, packed);
    op->forward(left, right, packed, {dst, c}, scratch + align64(op->packed_bytes()));
  }
};

inline Product make_product(MadeOnce<ops::MatMulDesc>& make, const TensorDesc& src, const TensorDesc& weights,
                            const TensorDesc& dst) {
  return {make({src, weights, dst}), src, weights, dst};
}

}  // namespace keelson::detail
