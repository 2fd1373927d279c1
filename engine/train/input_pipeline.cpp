#include "engine/train/input_pipeline.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/trace.hpp"
#include "engine/plan/spatial_parts.hpp"

namespace keelson {
namespace {

/// src (N, positions, channels) -> dst (N, channels, positions), in tiles that stay in the nearest cache.
void turn_to_plain(const float* src, float* dst, std::int64_t samples, std::int64_t channels, std::int64_t positions) {
  constexpr std::int64_t tile = 512;
  for (std::int64_t n = 0; n < samples; ++n, src += channels * positions, dst += channels * positions)
    for (std::int64_t from = 0; from < positions; from += tile) {
      const auto to = std::min(positions, from + tile);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = from; p < to; ++p) dst[c * positions + p] = src[p * channels + c];
    }
}

TensorDesc bytes_desc(std::size_t count) { return TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::u8); }

bool is_floating(DType t) { return t == DType::f32 || is_half(t); }

/// Where sample `first` of a field lies, of which `samples` samples have `bytes` bytes.
std::byte* part_of(void* field, std::int64_t first, std::size_t bytes, std::int64_t samples) {
  return static_cast<std::byte*>(field) + static_cast<std::size_t>(first) * (bytes / static_cast<std::size_t>(samples));
}

}  // namespace

SampleDecoding decoding_for(Device& device, std::shared_ptr<const SampleTransform> transform) {
  if (device.shares_host_memory()) return {.transform = std::move(transform)};
  return {.transform = std::move(transform), .by_device = true, .allocate = [&device](std::size_t bytes) {
            return device.allocate_host(bytes, "batches");
          }};
}

FieldRows rows_of_fields(const Graph& graph, const PlanOptions& options, const Dataset& data) {
  const auto inputs = input_rows(graph, options);
  if (inputs.empty()) return {};
  FieldRows rows;
  for (const Field& f : data.fields()) {
    const auto found = inputs.find(f.name);
    rows.push_back(found == inputs.end() ? std::nullopt : std::optional(found->second));
  }
  return rows;
}

void require_all_inputs(const Graph& graph, const Dataset& data) {
  const auto& fields = data.fields();
  for (const auto& node : graph.nodes()) {
    const bool fed = std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == node.name; });
    if (!node.srcs.empty() || node.is_state || fed) continue;
    std::string found;
    for (const Field& f : fields) found += (found.empty() ? "" : ", ") + f.name;
    refuse("no field of the data is called '{}', which the network reads ({} for a sample). Found: {} ({})", node.name,
           to_string(node.shape.shape), found, data.describe());
  }
}

InputPipeline::InputPipeline(const Dataset& data, const SampleDecoding& decoding, Executor& executor, Context& context,
                             bool copies)
    : executor_(executor),
      context_(context),
      copies_(copies),
      weight_{.name = "weight", .tensor = executor.input("weight")} {
  Device& device = context.device();
  KEELSON_EXPECT(decoding.by_device == !device.shares_host_memory());
  if (decoding.by_device) queue_ = device.make_queue();
  const auto fields = decoding.fields_of(data);
  const FieldEncoding* encoding = decoding.encoding(data);
  for (const Field& f : fields) {
    Input input{.name = f.name, .tensor = executor.input(f.name)};
    const Shape expected = input.tensor.shape();
    Shape found = f.shape;
    if (found.rank() + 1 == expected.rank()) {
      found = Shape{executor.plan().options().micro_batch_size()};
      for (auto d : f.shape) found.push_back(d);
    }
    const bool converts = queue_ && f.dtype == DType::f32 && is_floating(input.tensor.dtype());
    if (!(found == expected) || (f.dtype != input.tensor.dtype() && !converts))
      refuse("the samples' {} is {} {}, but the network takes {} {} for a batch of {}", f.name, to_string(f.shape),
             to_string(f.dtype), to_string(expected), to_string(input.tensor.dtype()), expected[0]);
    input.given = {expected, f.dtype, f.shape.rank() < 3 ? Layout::plain(expected) : Layout::channels_last(expected)};
    if (!queue_)
      prepare_here(input, f);
    else if (encoding && &f == &fields[encoding->field()])
      prepare_device(input, prepare_decoder(*encoding, input));
    else
      prepare_device(input, 0);
    targets_.push_back(std::move(input));
  }
  if (!queue_) return;
  weight_.ahead = context.allocate(weight_.tensor.desc(), "weight of the next step");
  staged_weight_ = device.allocate_host(weight_.tensor.bytes(), "weight on the host");
  queue_->wait_for_device();  // memory is filled with zeros in the device's order
}

void InputPipeline::prepare_here(Input& input, const Field& field) const {
  const Tensor& t = input.tensor;
  constexpr std::size_t alignment = 64;  // of what Executor::read_input_from() takes
  if (executor_.plan().micro_batches() > 1 && t.bytes() % alignment != 0)
    for (std::int64_t i = 0; i < executor_.plan().in_flight(); ++i)
      input.here.push_back(context_.allocate(t.desc(), field.name + " of a micro-batch"));
  input.to_plain = field.shape.rank() >= 3 && !t.layout().is_channels_last(t.shape());
  if (input.to_plain && (!t.layout().is_plain(t.shape()) || t.dtype() != DType::f32))
    fail("input {} has the layout {}, which is neither plain nor channels-last", field.name,
         t.layout().describe(t.shape()));
}

void InputPipeline::prepare_device(Input& input, std::size_t encoded_bytes) {
  input.ahead =
      context_.allocate(bytes_desc(std::max(input.given.bytes(), encoded_bytes)), input.name + " of the next step");
  if (input.given == input.tensor.desc()) return;
  input.reorder = context_.make(ops::ReorderDesc{input.given, input.tensor.desc()});
  if (const auto scratch = input.reorder->scratch_bytes(ops::Verb::forward))
    input.scratch = context_.allocate(bytes_desc(scratch), input.name + "'s conversion");
}

/// Returns the bytes of a batch in the encoded form.
std::size_t InputPipeline::prepare_decoder(const FieldEncoding& encoding, const Input& input) {
  const auto samples = static_cast<std::size_t>(input.given.shape[0]);
  Encoded& e = encoded_.emplace();
  e.encoding = &encoding;
  e.bytes = samples * static_cast<std::size_t>(encoding.sample_bytes());
  e.decoder = encoding.make_decoder(context_, input.tensor.desc());
  e.parameters = context_.allocate(bytes_desc(samples * static_cast<std::size_t>(encoding.parameter_bytes())),
                                   "how " + input.name + " is decoded");
  e.staged = context_.device().allocate_host(e.parameters.bytes(), "how " + input.name + " is decoded, on the host");
  return e.bytes;
}

void InputPipeline::feed(const Batch& batch, std::int64_t micro_batch) {
  const TraceSpan span("copy", "input");
  queue_ ? feed_device(batch, micro_batch) : feed_here(batch, micro_batch);
}

void InputPipeline::finish() {
  if (!queue_) return;
  const TraceSpan span("wait for the copy", "input");
  queue_->wait();
}

void InputPipeline::feed_here(const Batch& batch, std::int64_t micro_batch) {
  const std::int64_t first = first_sample(micro_batch);
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    auto& t = targets_[i];
    const auto& s = t.tensor.shape();
    auto* from = part_of(batch.fields[i], first, t.given.bytes(), s[0]);
    if (t.to_plain) {
      turn_to_plain(reinterpret_cast<const float*>(from), executor_.input(t.name, micro_batch).data<float>(), s[0],
                    s[1], s.elements() / (s[0] * s[1]));
    } else if (copies_) {
      std::memcpy(executor_.input(t.name, micro_batch).raw(), from, t.given.bytes());
    } else if (!t.here.empty()) {
      const Tensor& copy = t.here[static_cast<std::size_t>(micro_batch) % t.here.size()];
      std::memcpy(copy.raw(), from, copy.bytes());
      executor_.read_input_from(t.name, copy.raw(), micro_batch);
    } else {
      executor_.read_input_from(t.name, from, micro_batch);
    }
  }
  context_.device().copy_from_host(executor_.input("weight", micro_batch).raw(), batch.weight + first,
                                   weight_.tensor.bytes());
}

/// Each batch is copied while the step before is at work. Within the device it then goes to where the step reads it,
/// which costs little and leaves the step's calls as they are recorded.
void InputPipeline::feed_device(const Batch& batch, std::int64_t micro_batch) {
  const std::int64_t first = first_sample(micro_batch);
  const auto is_encoded = [&](std::size_t i) { return batch.encoding && batch.encoding->field() == i; };
  KEELSON_EXPECT(!batch.encoding || (encoded_ && encoded_->encoding == batch.encoding));
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const auto bytes = is_encoded(i) ? encoded_->bytes : targets_[i].given.bytes();
    const auto* from = part_of(batch.fields[i], first, bytes, targets_[i].given.shape[0]);
    queue_->copy_from_host(targets_[i].ahead.raw(), from, bytes);
  }
  if (batch.encoding) {
    const std::size_t bytes = encoded_->parameters.bytes();
    std::memcpy(encoded_->staged.get(), batch.parameters + first * batch.encoding->parameter_bytes(), bytes);
    queue_->copy_from_host(encoded_->parameters.raw(), encoded_->staged.get(), bytes);
  }
  std::memcpy(staged_weight_.get(), batch.weight + first, weight_.ahead.bytes());
  queue_->copy_from_host(weight_.ahead.raw(), staged_weight_.get(), weight_.ahead.bytes());
  queue_->device_waits();
  for (std::size_t i = 0; i < targets_.size(); ++i)
    convert(targets_[i], is_encoded(i), executor_.input(targets_[i].name, micro_batch));
  context_.device().copy(executor_.input("weight", micro_batch).raw(), weight_.ahead.raw(), weight_.tensor.bytes());
  queue_->wait_for_device();  // the next batch may come when this one has left `ahead`
}

void InputPipeline::convert(const Input& input, bool encoded, const Tensor& to) const {
  if (encoded)
    encoded_->decoder->decode(input.ahead, encoded_->parameters, to);
  else if (input.reorder)
    input.reorder->forward({.src = Tensor(input.given, input.ahead.raw()), .dst = to, .scratch = input.scratch});
  else
    context_.device().copy(to.raw(), input.ahead.raw(), to.bytes());
}

}  // namespace keelson
