#include "engine/train/stack/detail/block_source.hpp"

#include <algorithm>

#include "engine/train/input_pipeline.hpp"

namespace keelson::detail {

BlockSource::BlockSource(const Dataset& data, const StackedOptions& o, bool trains, Context& context)
    : decoding_(decoding_for(context.device(), trains ? o.transform : nullptr)),
      loader_(data, {.batch = o.batch,
                     .seed = o.seed,
                     .shuffle = trains && o.shuffle,
                     .threads = o.threads,
                     .decoding = decoding_}) {
  std::int64_t bytes = 1;
  for (std::size_t f = 0; f < data.fields().size(); ++f) bytes += o.batch * loader_.sample_bytes(f);
  const auto count = std::clamp<std::int64_t>(o.block_bytes / bytes, 1, loader_.steps_per_epoch());
  for (auto& b : blocks_) b.emplace(loader_, data, decoding_, count, o.batch);
}

void BlockSource::feed(BlockRing& ring, std::int64_t epoch) {
  loader_.start_epoch(epoch);
  const Batch* batch = loader_.next();
  for (std::int64_t i = 0; batch; ++i) {
    BatchBlock* const block = ring.to_fill(i);
    if (!block) return;
    for (; batch && !block->full(); batch = loader_.next()) block->add(*batch);
    ring.publish(i);
  }
  ring.end();
}

}  // namespace keelson::detail
