#include "engine/plan/stage_transfer.hpp"

#include "engine/base/error.hpp"
#include "engine/ops/combine.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

using Kind = CollectiveDesc::Kind;

Layout message_layout(const Shape& shape) {
  return shape.rank() >= 4 ? Layout::channels_last(shape) : Layout::plain(shape);
}

class TransferLayer : public Layer {
 public:
  explicit TransferLayer(StageTransfer transfer) : transfer_(std::move(transfer)) {}
  ValueShape infer(std::span<const ValueShape>) const override { return transfer_.shape; }
  void to_onnx(OnnxBuilder& /*b*/) const override { fail("values go to other stages in plans alone"); }

 protected:
  TensorDesc desc(const NodeBuilder& b) const {
    const Shape shape = transfer_.shape.at_batch(b.batch());
    return {shape, transfer_.shape.dtype, message_layout(shape)};
  }
  void copy(NodeBuilder& b, BufferId from, BufferId to) const {
    b.forward(b.make(ops::ReorderDesc{b.desc(from), b.desc(to)}), {.src = from, .dst = to}, "copy");
  }
  /// `distance`: 1 to the next stage, -1 to the stage before.
  void send(NodeBuilder& b, BufferId src, int distance) const {
    const BufferId message = b.new_owned("sent", desc(b));
    const Call start = b.prepare({.kind = Kind::send,
                                  .axes = ProcessGrid::Axis::stage,
                                  .src = message,
                                  .peer = distance,
                                  .label = label(distance > 0),
                                  .purpose = "values of stages"});
    b.append(end_of(start));  // of the micro-batch before
    copy(b, src, message);
    b.append(start);
    if (b.training())
      b.append_behind_backward(end_of(start));
    else
      b.append(end_of(start));
  }
  void receive(NodeBuilder& b, BufferId dst, int distance) const {
    const BufferId message = b.new_owned("received", desc(b));
    b.wait(b.start({.kind = Kind::receive,
                    .axes = ProcessGrid::Axis::stage,
                    .dst = message,
                    .peer = distance,
                    .label = label(distance < 0)}));
    copy(b, message, dst);
  }
  std::string label(bool forward) const {
    return fmt::format("{}{} from stage {} to stage {}", forward ? "" : "gradient of ", transfer_.name,
                       forward ? transfer_.from : transfer_.to, forward ? transfer_.to : transfer_.from);
  }

  StageTransfer transfer_;
};

class SendLayer : public TransferLayer {
 public:
  using TransferLayer::TransferLayer;
  std::string kind() const override { return "send"; }
  BackwardFn plan(ForwardBuilder& p) const override {
    const TensorDesc d = desc(p);
    send(p, p.converted(p.src_buffer(0), d.layout, d.dtype), 1);
    if (!transfer_.wants_gradient) return nullptr;
    return [this](BackwardBuilder& b) { receive(b, b.new_diff_src(0, desc(b).layout), 1); };
  }
};

class ReceiveLayer : public TransferLayer {
 public:
  using TransferLayer::TransferLayer;
  std::string kind() const override { return "receive"; }
  BackwardFn plan(ForwardBuilder& p) const override {
    const TensorDesc d = desc(p);
    receive(p, p.new_dst(d.layout, d.dtype), -1);
    if (!transfer_.wants_gradient) return nullptr;
    return [this](BackwardBuilder& b) {
      const TensorDesc gradient = desc(b);
      send(b, b.diff_dst_in(gradient.layout), -1);
    };
  }
};

}  // namespace

std::shared_ptr<const Layer> send_layer(StageTransfer transfer) {
  return std::make_shared<SendLayer>(std::move(transfer));
}

std::shared_ptr<const Layer> receive_layer(StageTransfer transfer) {
  return std::make_shared<ReceiveLayer>(std::move(transfer));
}

}  // namespace keelson
