#include "insitu/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "insitu/lookup.hpp"

namespace keelson::insitu {
namespace {

Triple given(const std::int64_t (&values)[3], int ndims, const Triple& missing) {
  Triple t = missing;
  for (int d = 0; d < ndims; ++d)
    if (values[d] != 0) t[axis_of(d, ndims)] = values[d];
  return t;
}

/// Appends the extents of the network's input to `shape`.
void append(Shape& shape, const Tiling& tiling) {
  for (int d = 3 - tiling.ndims; d < 3; ++d) shape.push_back(tiling.extent(d));
}

}  // namespace

Model::Model(const keelson_insitu_model_desc& desc, std::map<std::string, HostField>& fields, Ranks ranks)
    : name_(desc.name ? desc.name : ""), ranks_(ranks), channel_(desc.channel) {
  if (desc.checkpoint) checkpoint_.emplace(desc.checkpoint, true, &ranks_.host);
  if (name_.empty()) refuse("a model has no name. Expected a text such as \"shocks\" in `name`");
  read_fields(desc, fields);
  read_training(desc);
}

void Model::make(const keelson_insitu_model_desc& desc) {
  const auto compare = [&](const std::map<std::string, std::string>& values) {
    compare_values(ranks_.host, values, "settings of a model", "describe it alike on all ranks");
  };
  compare({{"target", target_ ? target_->name : ""}});  // the other settings depend on whether the model is trained
  // Gradients are summed over ranks in the order in which they lie in memory. This order depends on the shapes of a
  // plan, so all ranks train on tiles of the same shape.
  Triple tile = inputs_[0]->extents;
  if (trains()) ranks_.host.allreduce(tile.data(), 3, Reduction::min);
  on_each_rank(&ranks_.host, [&] { make_network(desc, tile); });
  compare(settings());
}

void Model::read_fields(const keelson_insitu_model_desc& desc, std::map<std::string, HostField>& fields) {
  std::istringstream names(desc.inputs ? desc.inputs : "");
  for (std::string name; names >> name;) inputs_.push_back(&find(fields, name, "field", "model '" + name_ + "'"));
  if (inputs_.empty())
    refuse("model '{}' has no inputs. Expected names of fields in `inputs`, separated by spaces", name_);
  uses_ = inputs_;
  const auto optional = [&](const char* name, HostField*& field) {
    if (!name) return;
    field = &find(fields, name, "field", "model '" + name_ + "'");
    uses_.push_back(field);
  };
  optional(desc.output, output_);
  optional(desc.target, target_);
  if (output_ && std::ranges::count(uses_, output_) > 1)
    refuse(
        "model '{}': the output is the field '{}', which is also an input or the target, and tiles of it would be read "
        "after others were written. Expected a field of its own",
        name_, output_->name);
  for (const HostField* f : uses_)
    if (f->ndims != inputs_[0]->ndims || f->extents != inputs_[0]->extents)
      refuse(
          "model '{}': field '{}' has {} interior cells, but field '{}' has {}. Expected the same extents of all its "
          "fields",
          name_, f->name, to_string(f->extents, f->ndims), inputs_[0]->name,
          to_string(inputs_[0]->extents, inputs_[0]->ndims));
}

void Model::read_training(const keelson_insitu_model_desc& desc) {
  step_.seed = desc.seed;
  if (desc.save) save_ = desc.save;
  if (!target_) return;
  loss_ = parse_loss(desc.loss ? desc.loss : "mse", name_);
  const auto positive = [&](double value, const char* what) {
    if (value < 0) refuse("model '{}': {} is {}. Expected more than 0, or 0 for the default", name_, what, value);
    return value > 0;
  };
  if (positive(desc.share, "share")) share_ = desc.share;
  if (positive(desc.steps, "steps")) steps_ = desc.steps;
  if (positive(desc.train_batch, "train_batch")) train_batch_ = desc.train_batch;
  if (positive(desc.sample, "sample")) sample_ = desc.sample;
  step_.learning_rate = positive(desc.learning_rate, "learning_rate") ? static_cast<float>(desc.learning_rate) : 0.001f;
  const std::int64_t capacity = positive(desc.reservoir, "reservoir") ? desc.reservoir : 64;
  if (capacity < train_batch_)
    refuse("model '{}': a reservoir of {} tiles for batches of {}. Expected at least as many", name_, capacity,
           train_batch_);
  reservoir_.emplace(capacity, desc.seed, static_cast<std::uint32_t>(2 * ranks_.host.rank()));
}

void Model::make_network(const keelson_insitu_model_desc& desc, Triple whole) {
  if ((desc.layers != nullptr) == checkpoint_.has_value())
    refuse("model '{}' has {}. Expected `layers`, the text of a network, or `checkpoint`", name_,
           desc.layers ? "both layers and a checkpoint" : "neither layers nor a checkpoint");
  const HostField& field = *inputs_[0];
  const int ndims = field.ndims;
  const Triple halo = given(desc.halo, ndims, {0, 0, 0});
  if (checkpoint_) {
    const Shape stored = stored_input(*checkpoint_);
    if (stored.rank() != ndims + 1)
      refuse("model '{}': the checkpoint's network reads {} dimensions, but field '{}' has {}", name_,
             stored.rank() - 1, field.name, ndims);
    for (int d = 0; d < ndims; ++d) {
      const auto i = axis_of(d, ndims);
      whole[i] = stored[d + 1] - 2 * halo[i];
    }
  }
  tiling_ = make_tiling(field, given(desc.tile, ndims, whole), halo, name_);
  for (std::size_t d = 0; trains() && !loss_.of_classes() && d < 3; ++d)
    if (target_->ghosts[d] < halo[d])
      refuse(
          "model '{}': a halo of {} cells, but the target '{}' has {} ghost cells. Expected as many, filled: the loss "
          "{} "
          "compares the halo, too",
          name_, to_string(halo, ndims), target_->name, to_string(target_->ghosts, ndims), loss_.kind);
  if (desc.batch < 0)
    refuse("model '{}': batch is {}. Expected at least 1 tile, or 0 for the default", name_, desc.batch);
  batch_ = std::min<std::int64_t>(desc.batch > 0 ? desc.batch : 16, tiling_.count());
  Shape input{std::ssize(inputs_)};
  append(input, tiling_);
  network_ = checkpoint_ ? network_of_checkpoint(*checkpoint_, input, loss_, name_)
                         : network_of_layers(desc.layers, input, loss_, name_);
  if (trains()) network_.config["loss"] = desc.loss ? desc.loss : "mse";
  if (network_.scales.empty()) network_.scales.resize(inputs_.size());
  check_result();
}

void Model::check_result() const {
  const auto& outputs = network_.graph.outputs();
  const auto& node = network_.graph.nodes()[static_cast<std::size_t>(outputs.at(0).second)];
  const Shape& result = node.shape.shape;
  bool per_cell = result.rank() == tiling_.ndims + 2;
  for (int d = 0; per_cell && d < tiling_.ndims; ++d) per_cell = result[d + 2] == tiling_.extent(3 - tiling_.ndims + d);
  if (output_ && !per_cell)
    refuse(
        "model '{}': its network makes {} of a tile, which is no value per cell. Expected no `output`: the result is "
        "kept as the tile's score",
        name_, keelson::to_string(result));
  if (channel_ != KEELSON_INSITU_CLASS && (channel_ < 0 || channel_ >= result[1]))
    refuse("model '{}': channel is {}, but the network's result has {}. Expected 0 to {}, or KEELSON_INSITU_CLASS",
           name_, channel_, result[1], result[1] - 1);
  if (result.rank() != 2 && !per_cell)
    refuse(
        "model '{}': its network makes {} of a tile. Expected a value per cell, {} of them in a channel, or values per "
        "tile: end with \"flatten\" or \"global_average_pool\"",
        name_, keelson::to_string(result), to_string(tiling_.tile, tiling_.ndims));
}

std::map<std::string, std::string> Model::settings() const {
  std::string weights, inputs;
  for (const auto& p : network_.graph.parameters()) weights += p.name + " " + keelson::to_string(p.shape) + " ";
  for (const HostField* f : inputs_) inputs += (inputs.empty() ? "" : " ") + f->name;
  std::map<std::string, std::string> all{{"name", name_}, {"save", save_}, {"weights", weights}, {"inputs", inputs}};
  if (const auto layers = network_.config.find("layers"); layers != network_.config.end()) all.insert(*layers);
  if (!trains()) return all;
  all["tile"] = to_string(tiling_.tile, tiling_.ndims);
  all["halo"] = to_string(tiling_.halo, tiling_.ndims);
  all["loss"] = network_.config.at("loss");
  all["steps"] = fmt::format("{}", steps_);
  all["share"] = fmt::format("{}", share_);
  all["train_batch"] = fmt::format("{}", train_batch_);
  all["learning_rate"] = fmt::format("{}", step_.learning_rate);
  all["seed"] = fmt::format("{}", step_.seed);
  return all;
}

void Model::make_tiles() {
  auto& device = ranks_.context.device();
  const auto count = static_cast<std::size_t>(tiling_.count());
  origins_ = device.allocate(count * sizeof(Triple), "places of tiles");
  device.copy_from_host(origins_.get(), tiling_.origins.data(), count * sizeof(Triple));
  device_scores_ = device.allocate(count * sizeof(float), "scores of tiles");
  score_scratch_ = device.allocate(score_scratch_bytes(tiling_.tile, batch_), "score sums");
  scores_.assign(count, 0);
}

void Model::compile() {
  // Work that may fail on a single rank is done inside on_each_rank(), between collective calls.
  on_each_rank(&ranks_.host, [&] {
    parameters_ = std::make_unique<Parameters>(network_.graph, ranks_.context, step_.seed);
    make_tiles();
  });
  if (trains()) {  // made first, so that the weights have the layout that training asks for
    grid_ = std::make_unique<ProcessGrid>(ranks_.device);
    trainer_ = std::make_unique<Executor>(network_.graph, *parameters_,
                                          PlanOptions{.batch = train_batch_, .optimizer = &adam_, .grid = grid_.get()});
    train_x_ = trainer_->input("x");
    train_y_ = trainer_->input("y");
    x_bytes_ = train_x_.bytes() / static_cast<std::size_t>(train_batch_);
    y_bytes_ = train_y_.bytes() / static_cast<std::size_t>(train_batch_);
    step_.inverse_samples = 1.0f / static_cast<float>(train_batch_ * ranks_.host.size());
    step_.sample_offset = train_batch_ * ranks_.host.rank();
  }
  on_each_rank(&ranks_.host, [&] {
    if (trains()) {
      const auto capacity = static_cast<std::size_t>(reservoir_->capacity());
      tiles_x_ = ranks_.context.device().allocate(capacity * x_bytes_, "reservoir of tiles");
      tiles_y_ = ranks_.context.device().allocate(capacity * y_bytes_, "targets of the reservoir");
    }
    executor_ =
        std::make_unique<Executor>(network_.graph, *parameters_, PlanOptions{.batch = batch_, .training = false});
  });
  x_ = executor_->input("x");
  inference_.inverse_samples = 1.0f / static_cast<float>(batch_);
  if (checkpoint_) load();
  ranks_.context.device().fence();
}

void Model::load() {
  // Adam's moments belong to the number of steps: training continues with both, or starts again with neither.
  const bool goes_on = trains() && checkpoint_->state().optimizer == adam_.to_string();
  const std::optional<std::vector<std::string>> moments = goes_on ? std::optional(moment_names(adam_)) : std::nullopt;
  const auto state = checkpoint_->load(network_.name, *parameters_, moments);
  if (goes_on) step_.step = static_cast<std::uint64_t>(state.step);
  checkpoint_.reset();
}

BatchChannel Model::channel_of(const Tensor& tensor, int channel) const {
  const Shape& strides = tensor.layout().strides();
  BatchChannel s{.data = static_cast<float*>(tensor.raw()) + (channel > 0 ? channel * strides[1] : 0),
                 .slot = static_cast<std::int64_t>(tensor.bytes() / size_of(tensor.dtype())) / tensor.shape()[0],
                 .strides = {}};
  const int ndims = tensor.shape().rank() - 2;
  for (int d = 0; d < ndims; ++d) s.strides[axis_of(d, ndims)] = strides[d + 2];
  return s;
}

void Model::pack_inputs(std::int64_t first, std::int64_t count) {
  auto& device = ranks_.context.device();
  for (std::size_t c = 0; c < inputs_.size(); ++c) {
    const TiledField tiled{inputs_[c],
                           reach(*inputs_[c], device, first == 0),
                           static_cast<const std::int64_t*>(origins_.get()),
                           first,
                           count,
                           tiling_.tile,
                           tiling_.halo};
    pack(tiled, channel_of(x_, static_cast<int>(c)), network_.scales[c]);
  }
}

void Model::infer(Times& times) {
  auto& device = ranks_.context.device();
  const auto* origins = static_cast<const std::int64_t*>(origins_.get());
  std::byte* out = output_ ? reach(*output_, device, true) : nullptr;  // a copy is written back as a whole
  const bool as_class = channel_ == KEELSON_INSITU_CLASS;
  for (std::int64_t first = 0; first < tiling_.count(); first += batch_) {
    const auto count = std::min(batch_, tiling_.count() - first);
    {
      const Timed timed(times.pack);
      pack_inputs(first, count);
      device.fence();
    }
    {
      const Timed timed(times.infer);
      executor_->forward(inference_);
      prediction_ = executor_->output("prediction");
      device.fence();
    }
    const Timed timed(times.pack);
    const Shape& shape = prediction_.shape();
    const bool per_cell = shape.rank() > 2;
    const BatchChannel slots = channel_of(prediction_, channel_);
    const auto classes = as_class ? shape[1] : 0;
    const auto channel_stride = shape[1] > 1 ? prediction_.layout().strides()[1] : 0;
    TiledField tiled{inputs_[0], nullptr, origins, first, count, tiling_.tile, tiling_.halo};
    if (!per_cell) tiled.tile = {1, 1, 1}, tiled.halo = {0, 0, 0};
    score(slots, tiled, classes, channel_stride, static_cast<float*>(device_scores_.get()), score_scratch_.get());
    if (output_) {
      tiled.field = output_;
      tiled.data = out;
      unpack(slots, tiled, classes, channel_stride);
    }
    device.fence();
  }
  const Timed timed(times.pack);
  if (output_) bring_back(*output_, device);
  device.copy_to_host(scores_.data(), device_scores_.get(), scores_.size() * sizeof(float));
  has_scores_ = true;
}

}  // namespace keelson::insitu
