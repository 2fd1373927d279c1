#include "backends/kokkos/factory.hpp"

#include "backends/kokkos/makers.hpp"

namespace keelson::backends {

namespace {

class KokkosFactory : public ops::OpFactory {
 public:
  explicit KokkosFactory(Device& device) : device_(device) {}
  std::string_view name() const override { return "kokkos"; }

  ops::Expected<ops::Conv> make(const ops::ConvDesc& d) override { return kokkos::make_conv(d); }
  ops::Expected<ops::Dense> make(const ops::DenseDesc& d) override { return kokkos::make_dense(d); }
  ops::Expected<ops::Pool> make(const ops::PoolDesc& d) override { return kokkos::make_pool(d); }
  ops::Expected<ops::ConvMaxPoolBackward> make(const ops::ConvMaxPoolDesc& d) override {
    return kokkos::make_conv_max_pool(d);
  }
  ops::Expected<ops::Eltwise> make(const ops::EltwiseDesc& d) override { return kokkos::make_eltwise(d); }
  ops::Expected<ops::Dropout> make(const ops::DropoutDesc& d) override { return kokkos::make_dropout(d); }
  ops::Expected<ops::Reorder> make(const ops::ReorderDesc& d) override { return kokkos::make_reorder(d); }
  ops::Expected<ops::Sum> make(const ops::SumDesc& d) override { return kokkos::make_sum(d); }
  ops::Expected<ops::Concat> make(const ops::ConcatDesc& d) override { return kokkos::make_concat(d); }
  ops::Expected<ops::Softmax> make(const ops::SoftmaxDesc& d) override { return kokkos::make_softmax(d); }
  ops::Expected<ops::Embedding> make(const ops::EmbeddingDesc& d) override { return kokkos::make_embedding(d); }
  ops::Expected<ops::AddRows> make(const ops::AddRowsDesc& d) override { return kokkos::make_add_rows(d); }
  ops::Expected<ops::MatMul> make(const ops::MatMulDesc& d) override { return kokkos::make_matmul(d); }
  ops::Expected<ops::RecurrentCell> make(const ops::RecurrentCellDesc& d) override {
    return kokkos::make_recurrent_cell(d);
  }
  ops::Expected<ops::Loss> make(const ops::LossDesc& d) override { return kokkos::make_loss(d, device_); }
  ops::Expected<ops::SumSquares> make(const ops::SumSquaresDesc& d) override {
    return kokkos::make_sum_squares(d, device_);
  }
  ops::Expected<ops::CheckGradients> make(const ops::CheckGradientsDesc& d) override {
    return kokkos::make_check_gradients(d);
  }
  ops::Expected<ops::Update> make(const ops::UpdateDesc& d) override { return kokkos::make_update(d); }

 private:
  Device& device_;
};

}  // namespace

std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device) { return std::make_unique<KokkosFactory>(device); }

}  // namespace keelson::backends
