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

/// A diagonal block: the products of a tile of the full size; of the last one, if that is smaller.
struct PatchGram::Block {
  /// The products of some columns with these and those behind them.
  struct Part {
    std::int64_t first;  ///< column
    detail::Product product;
  };
  std::int64_t columns;
  std::shared_ptr<ops::PackedTriangle> triangle;
  std::vector<Part> of_tile, of_rest;
};

PatchGram::~PatchGram() = default;

PatchGram::PatchGram(Context& context, const PatchGramDesc& d, std::size_t tile_bytes) {
  constexpr std::int64_t part = 128, least_rows = 256;
  set_description(d);
  KEELSON_EXPECT(d.blocks.rows == d.patches.columns());
  patches_ = context.make(d.patches);
  const std::int64_t rows = d.patches.rows(), count = d.blocks.count;
  const auto fitting =
      static_cast<std::int64_t>(tile_bytes / sizeof(float)) / std::max(d.blocks.size, d.blocks.rows_of(count - 1));
  tile_rows_ = std::min(rows, std::max(least_rows, fitting));
  detail::MadeOnce<ops::MatMulDesc> products(context);
  std::size_t work = 0;
  for (const bool last : {false, true}) {
    const std::int64_t columns = d.blocks.rows_of(last ? count - 1 : 0), stride = reads_src() ? d.blocks.rows : columns;
    Block b{.columns = columns, .triangle = context.make(ops::PackedTriangleDesc{columns})};
    const auto times = static_cast<double>(last ? 1 : count - 1);
    for (const std::int64_t tile : {tile_rows_, rows % tile_rows_})
      for (std::int64_t first = 0; first < columns && tile > 0; first += part) {
        const std::int64_t mine = std::min(part, columns - first), behind = columns - first;
        auto& parts = tile == tile_rows_ ? b.of_tile : b.of_rest;
        parts.push_back(
            {first, detail::make_product(products, part_of(mine, tile, 1, stride), part_of(tile, behind, stride, 1),
                                         TensorDesc::plain({mine, behind}))});
        const detail::Product& product = parts.back().product;
        work = std::max(work, product.scratch());
        product_bytes_ = std::max(product_bytes_, align64(product.dst.bytes()));
        cost_.flops += times * product.op->cost(Verb::forward).flops *
                       static_cast<double>(tile == tile_rows_ ? rows / tile_rows_ : 1);
      }
    tile_bytes_ = std::max(tile_bytes_, reads_src() ? 0 : align64(TensorDesc::plain({tile_rows_, columns}).bytes()));
    blocks_.push_back(std::move(b));
  }
  cost_.bytes = static_cast<double>(d.patches.src.bytes() + d.sums().bytes());
  scratch_ = tile_bytes_ + product_bytes_ + work;
  set_backend(blocks_[0].of_tile[0].product.op->backend());
}

bool PatchGram::reads_src() const { return !description().weighted && description().patches.is_src(); }

Layout PatchGram::layout(Verb, Role role) const {
  return (role == Role::src ? description().src() : description().sums()).layout;
}

std::string PatchGram::name(Verb) const { return blocks_[0].of_tile[0].product.op->name(Verb::forward); }

void PatchGram::forward(const Forward<ops::Tensors>& args) {
  const auto& [step_params, src, weight, sums, scratch] = args;
  const ops::DiagonalBlocks& all = description().blocks;
  KEELSON_EXPECT(!weight || description().weighted);
  const std::int64_t rows = description().patches.rows();
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  auto* const gathered = reinterpret_cast<float*>(memory);
  auto* const product = reinterpret_cast<float*>(memory + tile_bytes_);
  for (std::int64_t first = 0; first < rows; first += tile_rows_) {
    const std::int64_t tile = std::min(tile_rows_, rows - first);
    for (std::int64_t k = 0; k < all.count; ++k) {
      const Block& b = blocks_[k + 1 < all.count ? 0 : 1];
      const float* matrix = gathered;
      if (reads_src())
        matrix = src.data<float>() + first * all.rows + all.first(k);
      else
        patches_->gather(step_params, src, weight, first, all.first(k),
                         {TensorDesc::plain({tile, b.columns}), gathered});
      const Tensor triangle(b.triangle->description().packed(), sums.data<float>() + all.packed_first(k));
      for (const Block::Part& p : tile == tile_rows_ ? b.of_tile : b.of_rest) {
        p.product.run(matrix + p.first, matrix + p.first, product, memory + tile_bytes_ + product_bytes_);
        b.triangle->add({p.product.dst, product}, p.first, first == 0, triangle);
      }
    }
  }
}

// ---- KfacDirection

/// The products for the columns of a block of A, of which all but the last one are alike: src -> between -> (quotient)
/// -> between -> dst. Without eigenvectors two products are enough.
struct KfacDirection::Columns {
  struct OfRows {
    detail::Product to, from;  ///< those of a block of G
  };
  OfRows rows[2];  ///< of all blocks of G but the last one; of that
  detail::Product to_a, from_a;
  std::shared_ptr<ops::EigenQuotient> quotient;  ///< with eigenvectors
};

KfacDirection::~KfacDirection() = default;

KfacDirection::KfacDirection(Context& context, const KfacDirectionDesc& d) {
  set_description(d);
  detail::MadeOnce<ops::MatMulDesc> make(context);
  std::size_t work = 0;
  const auto product = [&](const TensorDesc& a, const TensorDesc& b, const TensorDesc& c, std::int64_t times) {
    const detail::Product p = detail::make_product(make, a, b, c);
    work = std::max(work, p.scratch());
    const ops::Cost more = p.op->cost(Verb::forward);
    cost_.flops += static_cast<double>(times) * more.flops;
    cost_.bytes += static_cast<double>(times) * more.bytes;
    return p;
  };
  const std::int64_t rows = d.rows.rows, stride = d.columns.rows, of_a = d.columns.size, of_g = d.rows.size;
  for (const bool last : {false, true}) {
    const std::int64_t n = d.columns.rows_of(last ? d.columns.count - 1 : 0), times = last ? 1 : d.columns.count - 1;
    const TensorDesc values = TensorDesc::plain({rows, n}), within = part_of(rows, n, stride, 1),
                     a = part_of(n, n, of_a, 1);
    // The rows of the results of FactorInverses are eigenvectors: Q^T.
    Columns& c = columns_.emplace_back();
    for (const bool last_rows : {false, true}) {
      const std::int64_t m = d.rows.rows_of(last_rows ? d.rows.count - 1 : 0),
                         both = times * (last_rows ? 1 : d.rows.count - 1);
      const TensorDesc part = TensorDesc::plain({m, n});
      Columns::OfRows& r = c.rows[last_rows ? 1 : 0];
      r.to = product(part_of(m, m, of_g, 1), part_of(m, n, stride, 1), part, both);
      if (d.eigen) r.from = product(part_of(m, m, 1, of_g), part, part, both);
    }
    c.to_a = product(values, d.eigen ? part_of(n, n, 1, of_a) : a, d.eigen ? values : within, times);
    if (!d.eigen) continue;
    c.quotient = context.make(ops::EigenQuotientDesc{d.rows, n, d.damping});
    c.from_a = product(values, a, within, times);
  }
  value_bytes_ = align64(TensorDesc::plain({d.rows.rows, d.columns.size}).bytes());
  scratch_ = (d.eigen ? 2 : 1) * value_bytes_ + work;
  set_backend(columns_[0].to_a.op->backend());
}

Layout KfacDirection::layout(Verb, Role role) const {
  const KfacDirectionDesc& d = description();
  return (role == Role::moment1 ? d.a_inverse() : role == Role::moment2 ? d.g_inverse() : d.gradient()).layout;
}

std::string KfacDirection::name(Verb) const { return columns_[0].to_a.op->name(Verb::forward); }

void KfacDirection::forward(const Forward<ops::Tensors>& args) {
  const auto& [src, a_inverse, g_inverse, dst, scratch] = args;
  const KfacDirectionDesc& d = description();
  auto* const memory = static_cast<std::byte*>(scratch.raw());
  auto* const one = reinterpret_cast<float*>(memory);
  auto* const two = reinterpret_cast<float*>(memory + value_bytes_);
  std::byte* const work = memory + (d.eigen ? 2 : 1) * value_bytes_;
  const std::int64_t a_elements = d.a_inverse().elements() / d.columns.count,
                     g_elements = d.g_inverse().elements() / d.rows.count;
  for (std::int64_t k = 0; k < d.columns.count; ++k) {
    const Columns& c = columns_[k + 1 < d.columns.count ? 0 : 1];
    const std::int64_t first = d.columns.first(k), n = d.columns.rows_of(k);
    const float* const a = a_inverse.data<float>() + k * a_elements;
    // `to` or `from` of all blocks of G.
    const auto along_rows = [&](detail::Product Columns::OfRows::* which, const float* from, std::int64_t stride) {
      for (std::int64_t i = 0; i < d.rows.count; ++i) {
        const detail::Product& p = c.rows[i + 1 < d.rows.count ? 0 : 1].*which;
        p.run(g_inverse.data<float>() + i * g_elements, from + d.rows.first(i) * stride, one + d.rows.first(i) * n,
              work);
      }
    };
    along_rows(&Columns::OfRows::to, src.data<float>() + first, d.columns.rows);
    if (!d.eigen) {
      c.to_a.run(one, a, dst.data<float>() + first, work);
      continue;
    }
    c.to_a.run(one, a, two, work);
    const auto* values = a_inverse.data<float>() + ops::FactorInversesDesc::eigenvalues(d.columns, k);
    c.quotient->divide({TensorDesc::plain({d.rows.rows, n}), two}, g_inverse,
                       {TensorDesc::plain({n}), const_cast<float*>(values)});
    along_rows(&Columns::OfRows::from, two, n);
    c.from_a.run(one, a, dst.data<float>() + first, work);
  }
}

}  // namespace keelson
