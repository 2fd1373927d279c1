#include "engine/plan/row_exchange.hpp"

#include "engine/base/error.hpp"
#include "engine/ops/combine.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

using Kind = CollectiveDesc::Kind;

/// Rows of a value in a buffer, and the messages that move them.
class RowBuffer {
 public:
  /// `what`: in messages, "rows". `holds`: the rows in the buffer.
  RowBuffer(NodeBuilder& builder, const RowExchange& exchange, const char* what, BufferId buffer, const Rows& holds)
      : b_(builder), exchange_(exchange), what_(what), buffer_(buffer), holds_(holds) {}

  /// These rows as a part of the buffer.
  BufferId view(const Rows& rows) const {
    TensorDesc d = b_.desc(buffer_);
    const Shape strides = d.layout.strides();
    d.shape[exchange_.dim] = rows.size();
    d.layout = Layout::strided(d.shape, strides);
    return b_.view(buffer_, d, offset(rows));
  }

  /// Lets the whole of `inner` lie in this buffer, where its rows are contiguous there. Returns whether it does.
  bool holds(const RowBuffer& inner) const {
    TensorDesc d = b_.desc(buffer_);
    d.shape[exchange_.dim] = inner.holds_.size();
    d.layout = Layout::strided(d.shape, b_.desc(buffer_).layout.strides());
    return d == b_.desc(inner.buffer_) && b_.place_inside(inner.buffer_, buffer_, offset(inner.holds_));
  }

  /// Starts to send rows. Returns the end of the message. Rows of several samples are first packed.
  Call send(const RowMessage& m) {
    BufferId rows = view(m.rows);
    if (!is_dense(rows)) {
      const BufferId packed = message(rows);
      copy(rows, packed);
      rows = packed;
    }
    return b_.start({.kind = Kind::send,
                     .axes = exchange_.axis,
                     .src = rows,
                     .peer = distance_to(m),
                     .label = label(m, "to"),
                     .purpose = exchange_.of_channels ? "channels" : "rows of samples"});
  }

  /// Starts to receive rows, in place where they are contiguous, else into a buffer of their own.
  struct Incoming {
    Rows rows;
    BufferId buffer;
    bool in_place;
    Call end;
  };
  Incoming receive(const RowMessage& m, bool may_be_in_place) {
    const BufferId rows = view(m.rows);
    const bool in_place = may_be_in_place && is_dense(rows);
    const BufferId into = in_place ? rows : message(rows);
    return {m.rows, into, in_place,
            b_.start({.kind = Kind::receive,
                      .axes = exchange_.axis,
                      .dst = into,
                      .peer = distance_to(m),
                      .zeros = true,
                      .label = label(m, "from")})};
  }
  /// Rows that come from nobody: zeros.
  Incoming receive_zeros(const Rows& rows) { return receive({nobody, rows}, true); }

  void copy(BufferId from, BufferId to) {
    const auto op = b_.make(ops::ReorderDesc{b_.desc(from), b_.desc(to)});
    b_.forward(op, {.src = from, .dst = to}, "copy rows");
  }
  /// Rows of another buffer.
  void copy(const RowBuffer& from, const Rows& rows) {
    if (!rows.empty()) copy(from.view(rows), view(rows));
  }
  /// Waits for rows, and puts them in their place.
  void take(Incoming in) {
    b_.wait(std::move(in.end));
    if (!in.in_place) copy(in.buffer, view(in.rows));
  }
  /// Waits for rows, and adds them to those that are there.
  void add(Incoming in) {
    b_.wait(std::move(in.end));
    const BufferId rows = view(in.rows);
    const auto op = b_.make(ops::SumDesc{{b_.desc(rows), b_.desc(in.buffer)}, b_.desc(rows)});
    b_.forward(op, {.srcs = {rows, in.buffer}, .dst = rows}, "add rows");
  }

 private:
  static constexpr int nobody = -1, beyond_all_ranks = -(1 << 30);  ///< a part before the first one; a distance
  /// From this rank along the axis.
  int distance_to(const RowMessage& m) const {
    return m.peer == nobody ? beyond_all_ranks : (m.peer - exchange_.rank) * exchange_.step;
  }

  /// Of these rows in the buffer, in bytes.
  std::size_t offset(const Rows& rows) const {
    const TensorDesc& d = b_.desc(buffer_);
    return static_cast<std::size_t>((rows.begin - holds_.begin) * d.layout.strides()[exchange_.dim]) * size_of(d.dtype);
  }
  bool is_dense(BufferId rows) const { return b_.desc(rows).layout.is_dense(b_.desc(rows).shape); }
  BufferId message(BufferId rows) {
    const TensorDesc& d = b_.desc(rows);
    return b_.new_buffer("rows", {d.shape, d.dtype, d.layout.without_gaps(d.shape)});
  }
  std::string label(const RowMessage& m, const char* direction) const {
    if (m.peer == nobody) return fmt::format("{} of {} beyond the edge", what_, exchange_.reader);
    return fmt::format("{} of {} {} part {} ({})", what_, exchange_.reader, direction, m.peer,
                       m.peer < exchange_.rank ? "before" : "after");
  }

  NodeBuilder& b_;
  const RowExchange& exchange_;
  const char* what_;
  BufferId buffer_;
  Rows holds_;
};

class RowExchangeLayer : public Layer {
 public:
  explicit RowExchangeLayer(RowExchange exchange)
      : exchange_(std::move(exchange)),
        transfers_(row_transfers(exchange_.value, exchange_.wanted, exchange_.rank)),
        held_(exchange_.value.held[static_cast<std::size_t>(exchange_.rank)]),
        wanted_(exchange_.wanted[static_cast<std::size_t>(exchange_.rank)]) {}

  std::string kind() const override { return "rows"; }
  /// The columns of rows that are exchanged are exchanged alike.
  std::optional<LayerPart> part(std::span<const ValueShape>, int dim, const Rows& rows) const override {
    if (dim == exchange_.dim || exchange_.of_channels) return {};
    return LayerPart{rows, nullptr};
  }
  bool keeps_type() const override { return true; }
  ValueShape infer(std::span<const ValueShape> srcs) const override {
    ValueShape shape = srcs[0];
    shape.shape[exchange_.dim] = wanted_.size();
    return shape;
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const BufferId src = p.src_in(0, layout(p.src(0).shape));
    const BufferId dst = p.new_dst(layout(p.dst_shape()), p.type());
    const char* what = exchange_.of_channels ? "channels" : "rows";
    RowBuffer from(p, exchange_, what, src, held_), to(p, exchange_, what, dst, wanted_);
    const bool in_place = transfers_.own == held_ && to.holds(from);
    std::vector<RowBuffer::Incoming> incoming;
    for (const RowMessage& m : transfers_.receives) incoming.push_back(to.receive(m, true));
    for (const Rows& rows : transfers_.zeros) incoming.push_back(to.receive_zeros(rows));
    std::vector<Call> sent;
    for (const RowMessage& m : transfers_.sends) sent.push_back(from.send(m));
    if (!in_place) to.copy(from, transfers_.own);
    for (auto& rows : incoming) to.take(std::move(rows));
    for (Call& end : sent) p.wait(std::move(end));
    return [this](BackwardBuilder& b) { plan_backward(b); };
  }

  void to_onnx(OnnxBuilder& /*b*/) const override { fail("rows are exchanged in plans alone"); }

 private:
  /// With contiguous rows, but for channels: channels-last, and plain for values without channels.
  Layout layout(const Shape& shape) const {
    return (exchange_.dim == 1 && !exchange_.of_channels) || shape.rank() < 3 ? Layout::plain(shape)
                                                                              : Layout::channels_last(shape);
  }

  void plan_backward(BackwardBuilder& b) const {
    const Shape shape = b.desc(b.diff_dst()).shape;  // a copy: descriptions move when buffers are added
    const DType type = b.desc(b.diff_dst()).dtype;
    const BufferId diff_dst = b.diff_dst_in(layout(shape), type);
    const char* gradients = exchange_.of_channels ? "gradients of channels" : "gradients of rows";
    RowBuffer from(b, exchange_, gradients, diff_dst, wanted_);
    const bool in_place = transfers_.own == held_ && diff_dst == b.diff_dst() && b.owns_diff_dst();
    const BufferId diff_src = in_place ? from.view(held_) : new_diff_src(b, shape, type);
    if (in_place) b.set_diff_src(0, diff_src);
    RowBuffer to(b, exchange_, gradients, diff_src, held_);
    std::vector<RowBuffer::Incoming> terms, zeros;
    for (const RowMessage& m : transfers_.sends) terms.push_back(to.receive(m, false));
    for (const Rows& rows : unread()) zeros.push_back(to.receive_zeros(rows));
    std::vector<Call> sent;
    for (const RowMessage& m : transfers_.receives) sent.push_back(from.send(m));
    if (!in_place) to.copy(from, transfers_.own);
    for (auto& rows : zeros) to.take(std::move(rows));
    for (auto& rows : terms) to.add(std::move(rows));
    for (Call& end : sent) b.wait(std::move(end));
  }

  BufferId new_diff_src(BackwardBuilder& b, Shape shape, DType type) const {
    shape[exchange_.dim] = held_.size();
    return b.new_diff_src(0, layout(shape), type);
  }

  /// Rows in memory that this rank does not read.
  std::vector<Rows> unread() const {
    std::vector<Rows> all;
    const Rows own = transfers_.own.empty() ? Rows{held_.end, held_.end} : transfers_.own;
    for (const Rows& rows : {Rows{held_.begin, own.begin}, Rows{own.end, held_.end}})
      if (!rows.empty()) all.push_back(rows);
    return all;
  }

  RowExchange exchange_;
  RowTransfers transfers_;
  Rows held_, wanted_;  ///< of this rank
};

}  // namespace

std::shared_ptr<const Layer> row_exchange_layer(RowExchange exchange) {
  return std::make_shared<RowExchangeLayer>(std::move(exchange));
}

}  // namespace keelson
