#include "engine/data/coded_voxels.hpp"

#include <utility>

#include "engine/base/error.hpp"

namespace keelson {

namespace {

class VoxelDecoder final : public FieldDecoder {
 public:
  VoxelDecoder(Context& context, const ops::DecodeVoxelsDesc& desc, const CodedVoxels::Codes& codes)
      : desc_(desc),
        op_(context.make(desc)),
        table_(context.allocate(desc.table_desc(), "table of codes")),
        channels_(context.allocate(desc.channels_desc(), "channels of the codes")) {
    Device& device = context.device();
    device.copy_from_host(table_.raw(), codes.table.data(), table_.bytes());
    device.copy_from_host(channels_.raw(), codes.channels.data(), channels_.bytes());
  }
  void decode(const Tensor& encoded, const Tensor& parameters, const Tensor& dst) override {
    op_->forward({.src = Tensor(desc_.src, encoded.raw()),
                  .table = table_,
                  .channels = channels_,
                  .samples = parameters,
                  .dst = dst});
  }

 private:
  ops::DecodeVoxelsDesc desc_;
  std::shared_ptr<ops::DecodeVoxels> op_;
  Tensor table_, channels_;
};

}  // namespace

CodedVoxels::CodedVoxels(std::size_t field, const Shape& shape, Codes codes)
    : FieldEncoding(
          field, shape.elements() / shape[0] * codes.stored_channels * static_cast<std::int64_t>(sizeof(std::uint16_t)),
          sizeof(ops::VoxelSample)),
      codes_(std::move(codes)) {
  KEELSON_EXPECT(shape.rank() == 4 && std::ssize(codes_.channels) == shape[0] && codes_.table.size() == 65536);
}

std::unique_ptr<FieldDecoder> CodedVoxels::make_decoder(Context& context, const TensorDesc& dst) const {
  Shape stored = dst.shape;
  stored[1] = codes_.stored_channels;
  const TensorDesc src{stored, DType::u16, Layout::channels_last(stored)};
  return std::make_unique<VoxelDecoder>(context, ops::DecodeVoxelsDesc{src, dst}, codes_);
}

}  // namespace keelson
