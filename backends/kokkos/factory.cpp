#include "backends/kokkos/factory.hpp"

#include "backends/kokkos/makers.hpp"

namespace keelson::backends {

namespace {

class KokkosFactory : public ops::OpFactory {
 public:
  explicit KokkosFactory(Device& device) : device_(device) {}
  std::string_view name() const override { return "kokkos"; }

  ops::Made<ops::Conv> make(const ops::ConvDesc& d) override { return kokkos::make_conv(d); }
  ops::Made<ops::Dense> make(const ops::DenseDesc& d) override { return kokkos::make_dense(d); }
  ops::Made<ops::Pool> make(const ops::PoolDesc& d) override { return kokkos::make_pool(d); }
  ops::Made<ops::PooledConvBackward> make(const ops::PooledConvDesc& d) override { return kokkos::make_pooled_conv(d); }
  ops::Made<ops::Eltwise> make(const ops::EltwiseDesc& d) override { return kokkos::make_eltwise(d); }
  ops::Made<ops::Dropout> make(const ops::DropoutDesc& d) override { return kokkos::make_dropout(d); }
  ops::Made<ops::Reorder> make(const ops::ReorderDesc& d) override { return kokkos::make_reorder(d); }
  ops::Made<ops::Sum> make(const ops::SumDesc& d) override { return kokkos::make_sum(d); }
  ops::Made<ops::Concat> make(const ops::ConcatDesc& d) override { return kokkos::make_concat(d); }
  ops::Made<ops::Softmax> make(const ops::SoftmaxDesc& d) override { return kokkos::make_softmax(d); }
  ops::Made<ops::Embedding> make(const ops::EmbeddingDesc& d) override { return kokkos::make_embedding(d); }
  ops::Made<ops::AddRows> make(const ops::AddRowsDesc& d) override { return kokkos::make_add_rows(d); }
  ops::Made<ops::MatMul> make(const ops::MatMulDesc& d) override { return kokkos::make_matmul(d); }
  ops::Made<ops::RecurrentCell> make(const ops::RecurrentCellDesc& d) override {
    return kokkos::make_recurrent_cell(d);
  }
  ops::Made<ops::Loss> make(const ops::LossDesc& d) override { return kokkos::make_loss(d, device_); }
  ops::Made<ops::SumSquares> make(const ops::SumSquaresDesc& d) override {
    return kokkos::make_sum_squares(d, device_);
  }
  ops::Made<ops::CheckGradients> make(const ops::CheckGradientsDesc& d) override {
    return kokkos::make_check_gradients(d);
  }
  ops::Made<ops::Update> make(const ops::UpdateDesc& d) override { return kokkos::make_update(d); }

 private:
  Device& device_;
};

}  // namespace

std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device) { return std::make_unique<KokkosFactory>(device); }

}  // namespace keelson::backends
