#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace keelson {

/// The type in which an allreduce of f32 sends numbers between nodes. The sums are made in f32 in any case. With a
/// 16-bit type, each rank keeps the rounding errors of the numbers that it sends, and adds them in the next call of the
/// same Collective (error feedback). All ranks get the same bits.
enum class Wire : std::uint8_t { fp32, bf16, fp16 };

/// The order in which an allreduce adds the terms of the ranks.
enum class SumOrder : std::uint8_t {
  any,  ///< the fastest order; fixed for a given number of ranks
  /// A binary tree over the ranks: first each two neighbours, then each two neighbouring pairs, ((0 + 1) + (2 + 3)) +
  /// ... The number of ranks is a power of two. The sum has the same bits with half as many ranks, if each of them has
  /// added the terms of two neighbours before.
  tree
};

/// The description of a Collective and its arrays. src and dst do not overlap, unless the table says that they are the
/// same array.
///
/// | kind           | src                                     | dst                                      | peer     |
/// |----------------|-----------------------------------------|------------------------------------------|----------|
/// | allreduce      | count elements                          | the same array: the sums over ranks      |          |
/// | reduce_scatter | count elements for each rank, in order  | count elements: this rank's, summed      |          |
/// | allgather      | count elements                          | count elements of each rank, in order    |          |
/// | all_to_all     | count elements for each rank, in order  | count elements of each rank, in order    |          |
/// | broadcast      | count elements, read only on the root   | the same array, written on all others    | root     |
/// | send           | count elements                          |                                          | receiver |
/// | receive        |                                         | count elements                           | sender   |
struct CollectiveDesc {
  /// See the table.
  enum class Kind : std::uint8_t { allreduce, reduce_scatter, allgather, all_to_all, broadcast, send, receive };
  /// The type of the elements.
  enum class Element : std::uint8_t { byte, f32, f64 };  ///< byte if nothing is summed, else f32 or f64

  Kind kind = Kind::allreduce;      ///< what is done
  const void* src = nullptr;        ///< read
  void* dst = nullptr;              ///< written
  std::size_t count = 0;            ///< elements, as the table counts them
  Element element = Element::byte;  ///< their type
  int peer = 0;                     ///< a rank; in send and receive, a negative number stands for no rank
  std::string label;                ///< names the array in messages: "gradient bucket 3 (conv4/weights ... conv3/bias)"
  Wire wire = Wire::fp32;           ///< of an allreduce of f32
  SumOrder order = SumOrder::any;   ///< of an allreduce; SumOrder::tree needs Wire::fp32

  /// Whether elements of several ranks are added up.
  bool sums() const { return kind == Kind::allreduce || kind == Kind::reduce_scatter; }
  /// A send or a receive, in which two ranks take part. In all other kinds all ranks of the group take part.
  bool point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
  /// Bytes of one element.
  std::size_t element_bytes() const { return element == Element::byte ? 1 : element == Element::f32 ? 4 : 8; }
  std::size_t bytes() const { return count * element_bytes(); }  ///< of `count` elements
  /// Bytes that rank `rank` of `size` ranks reads from src.
  std::size_t src_bytes(int rank, int size) const;
  /// Bytes that rank `rank` of `size` ranks writes to dst.
  std::size_t dst_bytes(int rank, int size) const;
};

/// Communication between fixed arrays that can be started many times. All ranks of the group make and start the same
/// collectives with the same counts in the same order. start, test and wait allocate no memory of ours.
///
/// Sends and receives are made and started only by their two ranks:
/// - Rank a numbers its sends to rank b that exist, and rank b its receives from rank a, in the order in which they
/// were
///   made. Send n belongs to receive n and has the same number of bytes. Both ranks start them in this order.
/// - All may be started before the first wait, sends and receives in any order: two ranks that both start their send
///   first do not block each other. The wait for a send may last until the peer has started the receive.
/// - A send and its receive are started between the same two collectives of the group.
/// - With a negative peer (the neighbour beyond the edge of a grid), start and wait do nothing.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Returns at once; the arrays must stay as they are until wait() returns or test() says true.
  virtual void start() = 0;
  virtual bool test() = 0;  ///< whether the collective has ended, or was never started; lets the collective advance
  virtual void wait() = 0;  ///< waits for the end; the watchdog reports long waits with the label
};

using CopyFn = std::function<void(void* dst, const void* src, std::size_t bytes)>;  ///< copies an array
/// A collective of one rank: copies src to dst if `desc` has two arrays, else does nothing.
std::unique_ptr<Collective> make_local_collective(const CollectiveDesc& desc, CopyFn copy);

}  // namespace keelson
