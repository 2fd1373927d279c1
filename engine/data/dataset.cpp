#include "engine/data/dataset.hpp"

#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson {

Field Field::with_rows(const Rows& rows) const {
  KEELSON_EXPECT(shape.rank() >= 2);
  Field part = *this;
  part.shape[row_dim()] = rows.size();
  return part;
}

namespace {

/// Copies these rows of a field (rows, ...), whose rows beyond the edges are zeros.
void copy_rows(const Field& field, const std::byte* whole, const Rows& rows, std::byte* dst) {
  const std::int64_t extent = field.shape[field.row_dim()];
  const auto row = static_cast<std::size_t>(field.bytes() / extent);
  const Rows inside = rows.common({0, extent});
  std::memset(dst, 0, static_cast<std::size_t>(rows.size()) * row);
  if (!inside.empty())
    std::memcpy(dst + static_cast<std::size_t>(inside.begin - rows.begin) * row,
                whole + static_cast<std::size_t>(inside.begin) * row, static_cast<std::size_t>(inside.size()) * row);
}

}  // namespace

void Dataset::take_rows(std::span<const std::optional<Rows>> rows,
                        const std::function<void(void* const* dst)>& read_whole, void* const* dst) const {
  if (rows.empty()) return read_whole(dst);
  KEELSON_EXPECT(rows.size() == fields().size());
  thread_local std::vector<std::vector<std::byte>> wholes;  // large: allocated once
  wholes.resize(rows.size());
  std::vector<void*> to(dst, dst + rows.size());
  for (std::size_t f = 0; f < rows.size(); ++f) {
    if (!rows[f]) continue;
    wholes[f].resize(static_cast<std::size_t>(fields()[f].bytes()));
    to[f] = wholes[f].data();
  }
  read_whole(to.data());
  for (std::size_t f = 0; f < rows.size(); ++f)
    if (rows[f]) copy_rows(fields()[f], wholes[f].data(), *rows[f], static_cast<std::byte*>(dst[f]));
}

void Dataset::read_sample(const SampleRequest& request, void* const* dst) const {
  KEELSON_EXPECT(!request.encoding);  // encoding() has said that there is none
  const auto read_whole = [&](void* const* to) {
    read(request.id.index, to);
    if (request.transform) request.transform->apply(request.id, fields(), to);
  };
  take_rows(request.rows, read_whole, dst);
}

const FieldEncoding* Dataset::encoding(const SampleTransform* /*transform*/) const { return nullptr; }

bool Dataset::has_stored_form() const { return false; }

std::int64_t Dataset::stored_bytes() const {
  std::int64_t bytes = 0;
  for (const Field& f : fields()) bytes += f.bytes();
  return bytes;
}

void Dataset::read_stored(std::int64_t index, std::byte* dst) const {
  std::vector<void*> to;
  for (const Field& f : fields()) {
    to.push_back(dst);
    dst += f.bytes();
  }
  read(index, to.data());
}

void Dataset::decode(const SampleRequest& request, const std::byte* stored, void* const* dst) const {
  KEELSON_EXPECT(!request.encoding);
  const auto read_whole = [&](void* const* to) {
    for (std::size_t f = 0; f < fields().size(); ++f) {
      const std::int64_t bytes = fields()[f].bytes();
      std::memcpy(to[f], stored, static_cast<std::size_t>(bytes));
      stored += bytes;
    }
    if (request.transform) request.transform->apply(request.id, fields(), to);
  };
  take_rows(request.rows, read_whole, dst);
}

std::optional<ReadCost> Dataset::read_cost() const { return std::nullopt; }

std::uint64_t Dataset::digest() const {
  Digest digest;
  digest.add(size());
  for (const auto& f : fields()) {
    digest.add(f.name).add(f.dtype);
    for (const auto extent : f.shape) digest.add(extent);
  }
  return digest.value();
}

}  // namespace keelson
