#include "apps/climate/task.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/good_samples.hpp"
#include "nets/registry.hpp"

namespace keelson::climate {
namespace {

const nets::RegisteredNetwork& network_of(const RunOptions& o) { return nets::find_stored_network(network_name(o)); }

/// By the names of the options. A network ignores those that it does not know.
nets::Settings settings_of(const RunOptions& o) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {{{"classes", text(kClasses)},
           {"loss", o.loss},
           {"first", text(o.first)},
           {"growth", text(o.growth)},
           {"blocks", fmt::format("{}", fmt::join(o.layers, ","))},
           {"kernel", text(o.kernel)},
           {"dropout", text(o.dropout)},
           {"width", text(o.width)},
           {"batch-norm-ranks", text(o.batch_norm_ranks)},
           {"output-stride", text(o.output_stride)},
           {"middle-blocks", text(o.middle_blocks)},
           {"decoder", o.decoder},
           {"resnet", text(o.resnet)},
           {"batch-norm", text(o.batch_norm)}},
          "the options of --net " + o.net};
}

std::vector<std::string> class_names() { return {kClassNames.begin(), kClassNames.end()}; }

}  // namespace

std::string network_name(const RunOptions& o) { return std::string(family.prefix) + o.net; }

std::string network_title(const RunOptions& o) { return network_of(o).title; }

std::int64_t grid_multiple(const RunOptions& o) { return network_of(o).multiple(settings_of(o)); }

std::unique_ptr<SnapshotDataset> open_snapshots(const RunOptions& o, const std::string& path, Communicator& world,
                                                std::int64_t skip_broken, std::shared_ptr<const FileCopies> copies) {
  const SnapshotOptions options{.channels = o.channels,
                                .labels = o.labels,
                                .multiple = grid_multiple(o),
                                .skip_broken = skip_broken,
                                .copies = std::move(copies)};
  return std::make_unique<SnapshotDataset>(path, options, &world);
}

namespace {

/// A channel that does not vary becomes 0. So if the statistics say that a channel has only one value, the first
/// snapshot, `sample`, must have this value, too. Throws InputError otherwise.
void check_constant_channels(const SnapshotDataset& training, std::int64_t sample, const ChannelRanges& statistics,
                             const std::string& path) {
  const auto ranges = SnapshotDataset(training, statistics, path).ranges();
  const auto channels = ranges.size();
  std::vector<float> x;
  for (std::size_t k = 0; k < channels; ++k) {
    if (ranges.least[k] != ranges.most[k]) continue;
    if (x.empty()) {
      x.resize(static_cast<std::size_t>(training.fields()[0].shape.elements()));
      training.read_data(sample, x.data());
    }
    for (std::size_t at = k; at < x.size(); at += channels)
      if (x[at] != ranges.least[k])
        refuse(
            "{}: channel {} ranges from {} to {}, so it would become 0, but {} holds {} in it. Expected the statistics "
            "of the training data; make them again, or leave them out: then they are computed from the training data",
            path, training.channels()[k], ranges.least[k], ranges.most[k], training.file_of(sample), x[at]);
  }
}

/// The statistics in a file, checked against a sample of the data. Rank 0 reads the file. Collective.
Normalisation checked_statistics(const SnapshotDataset& training, std::int64_t sample, const std::string& path,
                                 Communicator& world) {
  Normalisation n{{}, path};
  on_first_rank(&world, [&] {
    n.ranges = read_ranges(path);
    check_constant_channels(training, sample, n.ranges, path);
  });
  std::int64_t channels = std::ssize(n.ranges.least);
  world.broadcast(&channels, sizeof channels, 0);
  for (auto* list : {&n.ranges.least, &n.ranges.most}) {
    list->resize(static_cast<std::size_t>(channels));
    world.broadcast(list->data(), list->size() * sizeof(float), 0);
  }
  return n;
}

}  // namespace

Normalisation find_normalisation(const RunOptions& o, const SnapshotDataset& training,
                                 const std::vector<std::int64_t>& left_out, Communicator& world) {
  namespace fs = std::filesystem;
  const std::int64_t sample = GoodSamples(training, left_out).original(0);
  if (!o.stats.empty()) return checked_statistics(training, sample, o.stats, world);
  // Ranks may see the same files under different names; rank 0's names decide.
  const fs::path folder = fs::path(training.file_of(0)).parent_path();
  std::int64_t found = 0;
  if (world.rank() == 0) found = fs::exists(folder / "stats.h5") ? 1 : fs::exists(folder / ".." / "stats.h5") ? 2 : 0;
  world.allreduce(&found, 1, Reduction::max);
  if (found == 0) return {measure_ranges(training, &world, left_out), "the training data, read for it"};
  const auto path = ((found == 1 ? folder : folder / "..") / "stats.h5").lexically_normal().string();
  return checked_statistics(training, sample, path, world);
}

std::string to_text(const ChannelRanges& r) {
  std::vector<std::string> channels;
  for (std::size_t c = 0; c < r.size(); ++c) channels.push_back(fmt::format("{}:{}", r.least[c], r.most[c]));
  return fmt::format("{}", fmt::join(channels, ","));
}

ChannelRanges ranges_from_text(const std::string& text, const std::string& source) {
  ChannelRanges r{.chosen = true};
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const auto end = std::min(text.find(',', at), text.size()), colon = text.find(':', at);
    const auto number = [&](std::size_t from, std::size_t to) {
      return parse_number<float>(text.substr(from, to - from));
    };
    const auto least = colon < end ? number(at, colon) : std::nullopt;
    const auto most = colon < end ? number(colon + 1, end) : std::nullopt;
    if (!least || !most) refuse("{}: found the channels' ranges '{}', expected pairs SMALLEST:LARGEST", source, text);
    r.least.push_back(*least);
    r.most.push_back(*most);
    at = end + 1;
  }
  if (r.empty()) refuse("{}: has no ranges of channels, so keelson-climate train did not write it", source);
  return r;
}

Graph make_network(const RunOptions& o, const SnapshotDataset& data) {
  return make_network(o, {std::ssize(data.channels()), data.layout().rows, data.layout().columns});
}

Graph make_network(const RunOptions& o, const Shape& sample) { return network_of(o).make(settings_of(o), sample); }

std::vector<std::shared_ptr<Metric>> make_metrics(const RunOptions& o) {
  const auto images = std::make_shared<MeanImageIoU>(class_names());
  const auto pooled = std::make_shared<PooledIoU>(class_names());
  if (o.metric == "images" || (o.metric == "auto" && network_of(o).loss == "deepcam")) return {images, pooled};
  return {pooled, images};
}

std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o) {
  app::OptimizerOptions options = o;
  if (network_of(o).loss != "deepcam") {
    options.larc_floor = 1.0f / 16000;  // the published factor if a norm is 0
    options.larc_relative = true;
  }
  return app::make_optimizer(options);
}

Schedule make_schedule(const RunOptions& o, std::int64_t steps_per_epoch) {
  Schedule s = app::make_schedule(o);
  if (!o.schedule_by_steps) return s;
  const auto steps = static_cast<double>(steps_per_epoch);
  if (o.schedule_epochs > 0) s.epochs /= steps;
  s.warmup_epochs /= steps;
  for (auto& step : s.steps) step.epoch /= steps;
  return s;
}

}  // namespace keelson::climate
