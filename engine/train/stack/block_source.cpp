#include "engine/train/stack/detail/block_source.hpp"

#include <algorithm>

#include "engine/train/input_pipeline.hpp"

namespace keelson::detail {

BlockSource::BlockSource(const Dataset& data, const StackedOptions& o, bool trains, Context& context)
    : options_(o),
      trains_(trains),
      decoding_(decoding_for(context.device(), trains ? o.transform : nullptr)),
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

bool BlockSource::feed(BlockRing& ring, std::int64_t epoch) {
  StackedProgress at{.epoch = epoch, .steps = loader_.steps_per_epoch(), .validates = !trains_};
  const auto goes_on = [&] { return !options_.go_on || options_.go_on(at); };
  loader_.start_epoch(trains_ ? epoch : 0);
  bool whole = goes_on();
  const Batch* batch = whole ? loader_.next() : nullptr;
  for (std::int64_t i = 0; batch; ++i) {
    BatchBlock* const block = ring.to_fill(i);
    if (!block) return whole;
    while (batch && !block->full()) {
      block->add(*batch);
      ++at.step;
      whole = at.step == at.steps || goes_on();
      batch = whole ? loader_.next() : nullptr;
    }
    ring.publish(i);
  }
  ring.end();
  return whole;
}

}  // namespace keelson::detail
