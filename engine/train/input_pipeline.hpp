#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"
#include "engine/ops/combine.hpp"

namespace keelson {

/// How loaders, plans and pipelines for this device decode samples: a device with memory of its own decodes and
/// converts by itself, and batches lie in memory from which the device copies fastest. The device must outlive the
/// batches.
SampleDecoding decoding_for(Device& device, std::shared_ptr<const SampleTransform> transform = nullptr);

/// The rows of the data's fields that a plan of this graph reads on this rank (input_rows()).
FieldRows rows_of_fields(const Graph& graph, const PlanOptions& options, const Dataset& data);

/// Throws InputError, naming both, if the network has an input that no field of the data feeds.
void require_all_inputs(const Graph& graph, const Dataset& data);

/// Brings the loader's batches to the inputs of a plan: each field to the input of the same name, and the weights to
/// "weight". Fields are channels-last. If the device shares the host's memory, the plan reads the fields in place;
/// only if the network has a plain input, the field is reordered into the input. Other devices copy the fields to
/// their memory while the step before still runs, one of them in its encoded form, if the data set has one
/// (Dataset::encoding). Then one call of the device per field decodes or converts the field to what the first layer
/// reads.
class InputPipeline {
 public:
  /// For batches of these data, where `decoding` is decoding_for() the context's device, with the rows that the plan
  /// reads (input_rows()); batches with all fields
  /// decoded may come, too. Throws InputError, naming both, if a field does not fit the input. Executor and context
  /// must outlive the pipeline. `copies`: on a device that shares the host's memory, fields are copied into the inputs
  /// instead of being read in place, which is faster for small batches that lie elsewhere in each step.
  InputPipeline(const Dataset& data, const SampleDecoding& decoding, Executor& executor, Context& context,
                bool copies = false);
  ~InputPipeline() { finish(); }
  InputPipeline(const InputPipeline&) = delete;
  /// Hands over the batch of the next step, or one of the micro-batches that the plan makes of the batch. `batch` must
  /// stay valid until finish(), and on a device that shares the host's memory until that step has ended. With several
  /// micro-batches, finish() comes before the next one.
  void feed(const Batch& batch, std::int64_t micro_batch = 0);
  /// Returns when all copies of the batch have ended. Called after the work of the step is queued.
  void finish();

 private:
  struct Input {
    std::string name;
    Tensor tensor;
    bool to_plain = false;  ///< channels-last -> plain, by the host
    TensorDesc given;       ///< of the field
    /// On a device that shares the host's memory, for fields whose micro-batches do not lie where the plan can read
    /// them: where the copy arrives.
    std::vector<Tensor> here;  ///< of each micro-batch in flight
    Tensor ahead;              ///< where the copy arrives on other devices
    // For devices that the host cannot write to:
    std::shared_ptr<ops::Reorder> reorder;  ///< from there to the input; null: a plain copy
    Tensor scratch;
  };
  /// What decodes the encoded field.
  struct Encoded {
    const FieldEncoding* encoding = nullptr;
    std::size_t bytes = 0;  ///< of a batch
    std::unique_ptr<FieldDecoder> decoder;
    Tensor parameters;             ///< of a batch, (bytes) u8
    std::shared_ptr<void> staged;  ///< the parameters on the host
  };
  void prepare_here(Input& input, const Field& field) const;
  void prepare_device(Input& input, std::size_t encoded_bytes);
  std::size_t prepare_decoder(const FieldEncoding& encoding, const Input& input);
  void feed_here(const Batch& batch, std::int64_t micro_batch);
  void feed_device(const Batch& batch, std::int64_t micro_batch);
  void convert(const Input& input, bool encoded, const Tensor& to) const;
  std::int64_t first_sample(std::int64_t micro_batch) const { return micro_batch * weight_.tensor.elements(); }
  Executor& executor_;
  Context& context_;
  const bool copies_;
  std::vector<Input> targets_;
  std::optional<Encoded> encoded_;
  Input weight_;
  std::shared_ptr<void> staged_weight_;
  std::unique_ptr<Queue> queue_;  ///< null if the host shares the device's memory
};

}  // namespace keelson
