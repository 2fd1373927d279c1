#include "engine/optim/kfac_products.hpp"

#include <algorithm>

#include "engine/optim/detail/products.hpp"

namespace keelson {

namespace {

using ops::Role;
using ops::Verb;

/// A part of a plain matrix, or its transpose.
TensorDesc part_of(std::int64_t rows, std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
  const Shape shape{rows, columns};
  return {shape, DType::f32, Layout::strided(shape, {row_stride, column_stride})};
}

}  // namespace

// ---- PatchGram

struct PatchGram::Tile {
  /// The products of some columns with these and those behind them.
  struct Block {
    std::int64_t first;  ///< column
    detail::Product product;
  };
  std::int64_t rows;
  std::vector<Block> blocks;
};

PatchGram::~PatchGram() = default;

PatchGram::PatchGram(Context& context, const PatchGramDesc& d, std::size_t tile_bytes) {
  constexpr std::int64_t block = 128, least_rows = 256;
  set_description(d);
  patches_ = context.make(d.patches);
  const std::int64_t columns = d.patches.columns(), rows = d.patches.rows();
  triangle_ = context.make(ops::PackedTriangleDesc{columns});
  const auto fitting = static_cast<std::int64_t>(tile_bytes / sizeof(float)) / columns;
  tile_rows_ = std::min(rows, std::max(least_rows, fitting));
  detail::MadeOnce<ops::MatMulDesc> products(context);
  std::size_t work = 0;
  for (const std::int64_t tile : {tile_rows_, rows % tile_rows_}) {
    if (tile == 0) continue;
    const auto times = static_cast<double>(tile == tile_rows_ ? rows / tile_rows_ : 1);
    Tile t{.rows = tile};
    for (std::int64_t first = 0; first < columns; first += block) {
      const std::int64_t mine = std::min(block, columns - first), behind = columns - first;
      t.blocks.push_back(
          {first, detail::make_product(products, part_of(mine, tile, 1, columns), part_of(tile, behind, columns, 1),
                                       TensorDesc::plain({mine, behind}))});
      const detail::Product& product = t.blocks.back().product;
      work = std::max(work, product.scratch());
      block_bytes_ = std::max(block_bytes_, align64(product.dst.bytes()));
      cost_.flops += times * product.op->cost(Verb::forward).flops;
    }
    tiles_.push_back(std::move(t));
  }
  cost_.bytes = static_cast<double>(d.patches.src.bytes() + d.sums().bytes());
  tile_bytes_ = align64(TensorDesc::plain({tile_rows_, columns}).bytes());
  scratch_ = tile_bytes_ + block_bytes_ + work;
  set_backend(tiles_[0].blocks[0].product.op->backend());
}

Layout PatchGram::layout(Verb, Role role) const {
  return (role == Role::src ? description().src() : description().sums()).layout;
}

std::string PatchGram::name(Verb) const { return tiles_[0].blocks[0].product.op->name(Verb::forward); }

void PatchGram::forward(const Forward<ops::Tensors>& args) {
  const auto& [step_params, src, weight, sums, scratch] = args;
  const std::int64_t rows = description().patches.rows(), columns = description().patches.columns();
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  auto* const matrix = reinterpret_cast<float*>(memory);
  auto* const product = reinterpret_cast<float*>(memory + tile_bytes_);
  for (std::int64_t first = 0; first < rows; first += tile_rows_) {
    const Tile& tile = rows - first < tile_rows_ ? tiles_.back() : tiles_.front();
    patches_->gather(step_params, src, weight, first, {TensorDesc::plain({tile.rows, columns}), matrix});
    for (const Tile::Block& b : tile.blocks) {
      b.product.run(matrix + b.first, matrix + b.first, product, memory + tile_bytes_ + block_bytes_);
      triangle_->add({b.product.dst, product}, b.first, first == 0, sums);
    }
  }
}

// ---- KfacDirection

/// src -> between -> (quotient) -> between -> dst. Without eigenvectors two products are enough.
struct KfacDirection::Products {
  detail::Product to_g, to_a, from_g, from_a;
  std::shared_ptr<ops::EigenQuotient> quotient;  ///< with eigenvectors
};

KfacDirection::~KfacDirection() = default;

KfacDirection::KfacDirection(Context& context, const KfacDirectionDesc& d) : products_(new Products) {
  set_description(d);
  detail::MadeOnce<ops::MatMulDesc> make(context);
  const TensorDesc values = d.gradient(), g = TensorDesc::plain({d.rows, d.rows}),
                   a = TensorDesc::plain({d.columns, d.columns});
  Products& p = *products_;
  // The rows of the results of FactorInverses are eigenvectors: Q^T.
  p.to_g = detail::make_product(make, g, values, values);
  p.to_a = detail::make_product(make, values, d.eigen ? part_of(d.columns, d.columns, 1, d.columns) : a, values);
  std::vector<const detail::Product*> all{&p.to_g, &p.to_a};
  if (d.eigen) {
    p.from_g = detail::make_product(make, part_of(d.rows, d.rows, 1, d.rows), values, values);
    p.from_a = detail::make_product(make, values, a, values);
    p.quotient = context.make(ops::EigenQuotientDesc{d.rows, d.columns, d.damping});
    all.insert(all.end(), {&p.from_g, &p.from_a});
  }
  std::size_t work = 0;
  for (const detail::Product* product : all) {
    work = std::max(work, product->scratch());
    const ops::Cost more = product->op->cost(Verb::forward);
    cost_.flops += more.flops;
    cost_.bytes += more.bytes;
  }
  value_bytes_ = align64(values.bytes());
  scratch_ = (d.eigen ? 2 : 1) * value_bytes_ + work;
  set_backend(p.to_g.op->backend());
}

Layout KfacDirection::layout(Verb, Role role) const {
  const KfacDirectionDesc& d = description();
  return (role == Role::moment1 ? d.a_inverse() : role == Role::moment2 ? d.g_inverse() : d.gradient()).layout;
}

std::string KfacDirection::name(Verb) const { return products_->to_a.op->name(Verb::forward); }

void KfacDirection::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, a_inverse, g_inverse, dst, scratch] = args;
  const Products& p = *products_;
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  auto* const one = reinterpret_cast<float*>(memory);
  const float *const a = a_inverse.data<float>(), *const g = g_inverse.data<float>();
  if (!description().eigen) {
    p.to_g.run(g, src.data<float>(), one, memory + value_bytes_);
    return p.to_a.run(one, a, dst.data<float>(), memory + value_bytes_);
  }
  auto* const two = reinterpret_cast<float*>(memory + value_bytes_);
  std::byte* const work = memory + 2 * value_bytes_;
  p.to_g.run(g, src.data<float>(), one, work);
  p.to_a.run(one, a, two, work);
  p.quotient->divide({description().gradient(), two}, g_inverse, a_inverse);
  p.from_g.run(g, two, one, work);
  p.from_a.run(one, a, dst.data<float>(), work);
}

}  // namespace keelson
