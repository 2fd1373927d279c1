#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/ops/context.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson {

/// Decodes batches of a field that a data set has encoded, with calls of a device.
class FieldDecoder {
 public:
  virtual ~FieldDecoder() = default;
  /// Queues the decoding of a batch into `dst`, as described to FieldEncoding::make_decoder(). `encoded`: u8, of at
  /// least batch * FieldEncoding::sample_bytes elements; `parameters`: u8, (batch * FieldEncoding::parameter_bytes).
  /// Both lie in memory of the device. A sample whose parameters are zeros is missing (a short batch): its values
  /// become 0.
  virtual void decode(const Tensor& encoded, const Tensor& parameters, const Tensor& dst) = 0;
};

/// The form in which a data set can deliver a field for a device that decodes it (Dataset::encoding), for example the
/// integers of the files. Such a form has fewer bytes to read, to copy and to prefetch, and the host has no work with
/// it.
class FieldEncoding {
 public:
  /// `field`: index into Dataset::fields(). `sample_bytes`: of an encoded sample. `parameter_bytes`: of what says how
  /// this sample is decoded.
  FieldEncoding(std::size_t field, std::int64_t sample_bytes, std::int64_t parameter_bytes)
      : field_(field), sample_bytes_(sample_bytes), parameter_bytes_(parameter_bytes) {}
  virtual ~FieldEncoding() = default;

  std::size_t field() const { return field_; }                       ///< index into Dataset::fields()
  std::int64_t sample_bytes() const { return sample_bytes_; }        ///< of a sample's encoded field
  std::int64_t parameter_bytes() const { return parameter_bytes_; }  ///< of what says how a sample is decoded

  /// Makes what decodes batches into tensors of this description, whose first dimension is the batch. The context must
  /// outlive the decoder.
  virtual std::unique_ptr<FieldDecoder> make_decoder(Context& context, const TensorDesc& dst) const = 0;

 private:
  std::size_t field_;
  std::int64_t sample_bytes_, parameter_bytes_;
};

}  // namespace keelson
