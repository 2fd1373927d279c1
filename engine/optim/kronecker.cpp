#include "engine/optim/kronecker.hpp"

#include <algorithm>

#include "engine/optim/detail/products.hpp"

namespace keelson {

using detail::MadeOnce;
using detail::make_product;
using detail::Product;

namespace {

using ops::Role;
using ops::Verb;

constexpr auto forward_verb = Verb::forward;

Tensor at(const TensorDesc& d, const Tensor& array, std::int64_t element) { return {d, array.data<float>() + element}; }

void run(ops::Reorder& op, const Tensor& src, const Tensor& dst, std::byte* scratch) {
  const auto bytes = static_cast<std::int64_t>(op.scratch_bytes(forward_verb));
  op.forward({src, dst, bytes > 0 ? Tensor(TensorDesc::plain({bytes}, DType::u8), scratch) : Tensor()});
}

void add(ops::Cost& sum, const ops::Cost& more, double times = 1) {
  sum.flops += times * more.flops;
  sum.bytes += times * more.bytes;
}

/// A matrix with these strides.
TensorDesc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
  const Shape shape{rows, columns};
  return {shape, DType::f32, Layout::strided(shape, {row_stride, column_stride})};
}

std::int64_t product_of(const Shape& s, int first, int last) {
  std::int64_t product = 1;
  for (int i = first; i < last; ++i) product *= s[i];
  return product;
}

/// A dense array of these extents in which the dimension `dim` varies slowest.
TensorDesc unfolded(const Shape& extents, int dim) {
  Shape strides = extents;
  std::int64_t next = 1;
  for (int i = extents.rank() - 1; i >= 0; --i)
    if (i != dim) strides[i] = std::exchange(next, next * extents[i]);
  strides[dim] = next;
  return {extents, DType::f32, Layout::strided(extents, strides)};
}

/// The part of a gradient as a matrix with a row for each index of the dimension, if strides can say that.
bool as_matrix(const TensorDesc& part, int dim, TensorDesc& m) {
  const Shape& e = part.shape;
  const std::int64_t rows = e[dim], columns = part.elements() / rows;
  if (e.rank() == 1) return m = matrix(rows, 1, 1, 1), true;
  if (e.rank() == 2) {
    const Shape& s = part.layout.strides();
    return m = matrix(rows, columns, s[dim], s[1 - dim]), true;
  }
  if (!part.layout.is_plain(e)) return false;
  if (dim == 0) return m = matrix(rows, columns, columns, 1), true;
  if (dim == e.rank() - 1) return m = matrix(rows, columns, 1, rows), true;
  return false;
}

}  // namespace

KroneckerBlocks::KroneckerBlocks(const Shape& shape, std::int64_t most) : shape_(shape), counts_(shape), sizes_(shape) {
  KEELSON_EXPECT(shape.rank() > 0 && most > 0);
  for (int i = 0; i < shape.rank(); ++i) {
    counts_[i] = (shape[i] + most - 1) / most;
    sizes_[i] = (shape[i] + counts_[i] - 1) / counts_[i];
    counts_[i] = (shape[i] + sizes_[i] - 1) / sizes_[i];
  }
}

/// Index of the block along each dimension.
Shape KroneckerBlocks::place(std::int64_t block) const {
  Shape place = counts_;
  for (int i = rank() - 1; i >= 0; --i) {
    place[i] = block % counts_[i];
    block /= counts_[i];
  }
  return place;
}

Shape KroneckerBlocks::extents(std::int64_t block) const {
  Shape extents = place(block);
  for (int i = 0; i < rank(); ++i) extents[i] = std::min(sizes_[i], shape_[i] - extents[i] * sizes_[i]);
  return extents;
}

TensorDesc KroneckerBlocks::part(std::int64_t block) const {
  const Shape e = extents(block);
  return {e, DType::f32, Layout::strided(e, Layout::plain(shape_).strides())};
}

std::int64_t KroneckerBlocks::offset(std::int64_t block) const {
  const Shape where = place(block);
  std::int64_t offset = 0;
  for (int i = 0; i < rank(); ++i) offset = offset * shape_[i] + where[i] * sizes_[i];
  return offset;
}

TensorDesc KroneckerBlocks::factor(int dim, std::int64_t block) const {
  const std::int64_t n = extents(block)[dim];
  return matrix(n, n, size(dim), 1);
}

Shape merge_small_dims(const Shape& shape, std::int64_t most) {
  Shape merged;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    if (merged.rank() > 1 && merged[merged.rank() - 1] * shape[i] <= most)
      merged[merged.rank() - 1] *= shape[i];
    else
      merged.push_back(shape[i]);
  }
  if (merged.empty()) merged.push_back(1);
  return merged;
}

// ---- FactorSum

struct FactorSum::Block {
  std::int64_t gradient, factor;         ///< first elements
  TensorDesc part;                       ///< of the gradient
  std::shared_ptr<ops::Reorder> unfold;  ///< null: the product reads the part where it lies
  Product product;
  std::shared_ptr<ops::DecayedSum> sum;
};

FactorSum::~FactorSum() = default;

FactorSum::FactorSum(Context& context, const FactorSumDesc& d) {
  set_description(d);
  MadeOnce<ops::MatMulDesc> products(context);
  MadeOnce<ops::ReorderDesc> reorders(context);
  MadeOnce<ops::DecayedSumDesc> sums(context);
  for (std::int64_t i = 0; i < d.blocks.count(); ++i) {
    Block b{.gradient = d.blocks.offset(i), .factor = d.blocks.factor_offset(d.dim, i), .part = d.blocks.part(i)};
    const std::int64_t n = b.part.shape[d.dim], columns = b.part.elements() / n;
    TensorDesc g;
    std::size_t scratch = align64(TensorDesc::plain({n, n}).bytes());
    if (!as_matrix(b.part, d.dim, g)) {
      b.unfold = reorders({b.part, unfolded(b.part.shape, d.dim)});
      g = matrix(n, columns, columns, 1);
      scratch += align64(b.part.elements() * sizeof(float)) + align64(b.unfold->scratch_bytes(forward_verb));
      add(cost_, b.unfold->cost(forward_verb));
    }
    b.product = make_product(products, g, g.transposed(), TensorDesc::plain({n, n}));
    b.sum = sums({d.blocks.factor(d.dim, i), d.decay});
    scratch_ = std::max(scratch_, scratch + b.product.scratch());
    add(cost_, b.product.op->cost(forward_verb));
    add(cost_, b.sum->cost(forward_verb));
    blocks_.push_back(std::move(b));
  }
  set_backend(blocks_[0].product.op->backend());
}

Layout FactorSum::layout(Verb, Role role) const {
  return (role == Role::src ? description().gradient() : description().factors()).layout;
}

std::string FactorSum::name(Verb) const { return blocks_[0].product.op->name(forward_verb); }

void FactorSum::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, factors, loss_scale, scratch] = args;
  for (const Block& b : blocks_) {
    auto* next = static_cast<std::byte*>(scratch.raw());
    const auto take = [&](std::size_t bytes) { return std::exchange(next, next + align64(bytes)); };
    auto* const term = reinterpret_cast<float*>(take(b.product.dst.bytes()));
    const float* g = src.data<float>() + b.gradient;
    if (b.unfold) {
      auto* const copy = reinterpret_cast<float*>(take(static_cast<std::size_t>(b.part.elements()) * sizeof(float)));
      run(*b.unfold, at(b.part, src, b.gradient), {unfolded(b.part.shape, description().dim), copy},
          take(b.unfold->scratch_bytes(forward_verb)));
      g = copy;
    }
    b.product.run(g, g, term, next);
    b.sum->forward({{b.product.dst, term}, at(b.sum->description().sum, factors, b.factor), loss_scale});
  }
}

// ---- KroneckerProduct

std::vector<TensorDesc> KroneckerProductDesc::roots() const {
  std::vector<TensorDesc> all;
  for (int i = 0; i < blocks.rank(); ++i) all.push_back(TensorDesc::plain(blocks.factors(i)));
  return all;
}

/// The products along the dimensions, one after the other. Between them the block is dense.
struct KroneckerProduct::Block {
  struct Along {
    Product product;
    bool root_first;     ///< root times values, else values times root
    std::int64_t times;  ///< products over values that lie one after the other
    std::int64_t root;   ///< first element
  };
  std::int64_t first;                     ///< element
  TensorDesc part;                        ///< of src and dst
  std::shared_ptr<ops::Reorder> in, out;  ///< null: products read src and write dst
  std::vector<Along> along;
};

KroneckerProduct::~KroneckerProduct() = default;

KroneckerProduct::KroneckerProduct(Context& context, const KroneckerProductDesc& d) {
  set_description(d);
  MadeOnce<ops::MatMulDesc> products(context);
  MadeOnce<ops::ReorderDesc> reorders(context);
  const int rank = d.blocks.rank();
  std::size_t work = 0;
  for (std::int64_t i = 0; i < d.blocks.count(); ++i) {
    Block b{.first = d.blocks.offset(i), .part = d.blocks.part(i)};
    const Shape& e = b.part.shape;
    const TensorDesc dense = TensorDesc::plain(e);
    if (rank > 2 && !(b.part == dense)) {
      b.in = reorders({b.part, dense});
      b.out = reorders({dense, b.part});
      work = std::max({work, align64(b.in->scratch_bytes(forward_verb)), align64(b.out->scratch_bytes(forward_verb))});
      add(cost_, b.in->cost(forward_verb), 2);
    }
    for (int k = 0; k < rank; ++k) {
      const TensorDesc root = d.blocks.factor(k, i);
      const std::int64_t n = e[k], before = product_of(e, 0, k), behind = product_of(e, k + 1, rank);
      const bool root_first = k == 0 || k + 1 < rank;
      // The first product reads src, and the last one writes dst, which may have gaps between rows.
      const auto values = [&](bool outside) {
        if (!root_first) return matrix(before, n, outside && rank == 2 ? d.blocks.shape()[1] : n, 1);
        return matrix(n, behind, outside && rank == 2 ? d.blocks.shape()[1] : behind, 1);
      };
      const TensorDesc from = values(k == 0), to = values(k + 1 == rank);
      Product product = root_first ? make_product(products, root, from, to) : make_product(products, from, root, to);
      work = std::max(work, product.scratch());
      add(cost_, product.op->cost(forward_verb), root_first ? static_cast<double>(before) : 1);
      b.along.push_back({std::move(product), root_first, root_first ? before : 1, d.blocks.factor_offset(k, i)});
    }
    value_bytes_ = std::max(value_bytes_, align64(dense.bytes()));
    blocks_.push_back(std::move(b));
  }
  scratch_ = 2 * value_bytes_ + work;
  set_backend(blocks_[0].along[0].product.op->backend());
}

Layout KroneckerProduct::layout(Verb, Role role) const {
  return role == Role::weights ? Layout::any() : description().src().layout;
}

std::string KroneckerProduct::name(Verb) const { return blocks_[0].along[0].product.op->name(forward_verb); }

void KroneckerProduct::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, roots, dst, scratch] = args;
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  float* const between[] = {reinterpret_cast<float*>(memory), reinterpret_cast<float*>(memory + value_bytes_)};
  std::byte* const work = memory + 2 * value_bytes_;
  for (const Block& b : blocks_) {
    const TensorDesc dense = TensorDesc::plain(b.part.shape);
    const float* values = src.data<float>() + b.first;
    int next = 0;  // of `between`
    if (b.in) {
      run(*b.in, at(b.part, src, b.first), {dense, between[0]}, work);
      values = between[0];
      next = 1;
    }
    for (std::size_t k = 0; k < b.along.size(); ++k) {
      const Block::Along& a = b.along[k];
      const bool last = k + 1 == b.along.size();
      float* const result = last && !b.out ? dst.data<float>() + b.first : between[next];
      const float* const root = roots[k].data<float>() + a.root;
      const std::int64_t step = a.root_first ? a.product.weights.elements() : 0;
      for (std::int64_t t = 0; t < a.times; ++t) {
        const float* const from = values + t * step;
        a.product.run(a.root_first ? root : from, a.root_first ? from : root, result + t * step, work);
      }
      values = result;
      next = 1 - next;
    }
    if (b.out) run(*b.out, {dense, const_cast<float*>(values)}, at(b.part, dst, b.first), work);
  }
}

}  // namespace keelson
