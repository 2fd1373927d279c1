#include "engine/data/hdf5/read_cost.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

constexpr double most_amplification = 1.5;
constexpr std::int64_t most_chunk_bytes = std::int64_t{1} << 30, least_chunk_bytes = 4096;

/// The mean number of chunks that a box touches in one dimension.
double mean_chunks(std::int64_t extent, std::int64_t box, std::int64_t chunk) {
  constexpr std::int64_t most = 4096;  // boxes
  const std::int64_t boxes = std::clamp<std::int64_t>(extent / box, 1, most);
  std::int64_t touched = 0;
  for (std::int64_t i = 0; i < boxes; ++i) touched += ((i + 1) * box - 1) / chunk - i * box / chunk + 1;
  return static_cast<double>(touched) / static_cast<double>(boxes);
}

std::string text_of_bytes(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes * 1e-3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes * 1e-6) : fmt::format("{:.2f} GB", bytes * 1e-9);
}

/// The option of `rechunk` that is needed if samples would not be contiguous in a contiguous array: boxes that are cut
/// out.
std::string chunk_option(const ReadCost& cost) {
  const auto first = std::ranges::find_if(cost.sample, [](std::int64_t n) { return n > 1; });
  if (first == cost.sample.end()) return "";
  const auto rest = first + 1 - cost.sample.begin();
  if (std::equal(first + 1, cost.sample.end(), cost.array.shape.begin() + rest)) return "";
  return fmt::format(" --chunk {}", fmt::join(first, cost.sample.end(), ","));
}

}  // namespace

ReadCost cost_of_samples(const std::string& path, const hdf5::DatasetInfo& array, const hdf5::Dims& sample) {
  KEELSON_EXPECT(sample.size() == array.shape.size());
  const std::int64_t element = hdf5::size_of(array.type);
  ReadCost cost{.path = path, .array = array, .sample = sample};
  cost.sample_bytes = static_cast<double>(hdf5::DatasetInfo{.shape = sample}.elements() * element);
  cost.read_bytes = cost.sample_bytes;
  if (array.chunk.size() != sample.size() || sample.empty()) return cost;
  cost.chunk_bytes = hdf5::DatasetInfo{.shape = array.chunk}.elements() * element;
  cost.chunks_of_sample = 1;
  cost.read_bytes = static_cast<double>(element);
  bool whole = array.filtered;  // of a chunk that is not filtered, the part from the first needed element to the last
  for (std::size_t d = 0; d < sample.size(); ++d) {
    const double chunks = mean_chunks(array.shape[d], sample[d], array.chunk[d]);
    cost.chunks_of_sample *= chunks;
    cost.read_bytes *= whole ? chunks * static_cast<double>(array.chunk[d]) : static_cast<double>(sample[d]);
    whole = whole || sample[d] > 1;
  }
  return cost;
}

std::string advice_on(const ReadCost& cost, const std::string& program) {
  std::string found, expected;
  if (cost.amplification() > most_amplification) {
    found = fmt::format("to read a sample of {}, {} must be read, {:.1f} times as much",
                        text_of_bytes(cost.sample_bytes), text_of_bytes(cost.read_bytes), cost.amplification());
    expected = fmt::format("at most {} times as much", most_amplification);
  } else if (cost.chunk_bytes > most_chunk_bytes) {
    found = fmt::format("a chunk has {}, and each reading thread needs memory for one",
                        text_of_bytes(static_cast<double>(cost.chunk_bytes)));
    expected = "at most 1 GiB";
  } else if (cost.chunk_bytes > 0 && cost.chunk_bytes < least_chunk_bytes && cost.chunks_of_sample > 1) {
    found =
        fmt::format("a chunk has {} bytes, so a sample takes {:.0f} reads", cost.chunk_bytes, cost.chunks_of_sample);
    expected = "4 KiB or more";
  } else {
    return "";
  }
  const auto layout =
      cost.array.chunk.empty() ? "contiguous" : "stored in chunks of " + hdf5::to_string(cost.array.chunk);
  return fmt::format("{}: '{}' {} is {}: {}. Expected {}; `{} rechunk --data {} --out NEW{}` makes faster files",
                     cost.array.file, cost.array.name, hdf5::to_string(cost.array.shape), layout, found, expected,
                     program, cost.path, chunk_option(cost));
}

}  // namespace keelson
