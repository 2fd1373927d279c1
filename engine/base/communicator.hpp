#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace keelson {

/// How the values of the ranks become one.
enum class Reduction : std::uint8_t { sum, min, max };

/// A collective operation on fixed arrays that can be started over and over: the unit of gradient exchange. All ranks
/// start the same ones in the same order. start, test and wait never allocate on our side.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Returns at once; the arrays must stay as they are until wait() returns or test() says true.
  virtual void start() = 0;
  virtual bool test() = 0;  ///< true when done (or never started); also drives progress
  virtual void wait() = 0;  ///< reports by name what it waits for when the watchdog's time passes
};

/// A group of ranks: the only thing that knows MPI (or NCCL). Collective calls are made by all ranks of the group in
/// the same order. Errors of the library throw Error with its text. Summation order is fixed for a given number of
/// ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Of this process in the group, from 0.
  virtual int rank() const = 0;
  /// Number of ranks in the group.
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  ///< among the ranks of this group on the same node
  /// Ranks of this group on the same node.
  virtual int local_size() const = 0;
  virtual int node() const = 0;   ///< number of this rank's node, counted in order of lowest rank
  virtual int nodes() const = 0;  ///< nodes on which this group has ranks
  /// Name of this rank's machine.
  virtual std::string host() const = 0;
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;  ///< color < 0: this rank gets null

  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// Copies the bytes of `root` to all ranks.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(double* data, std::size_t count, Reduction op) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(std::int64_t* data, std::size_t count, Reduction op) = 0;
  /// In place, element by element, on host memory; returns when done.
  virtual void allreduce(float* data, std::size_t count, Reduction op) = 0;
  /// Every rank's text, on every rank, in rank order.
  virtual std::vector<std::string> allgather(const std::string& text) = 0;
  /// Concatenation in rank order of every rank's floats, on root (empty elsewhere); counts may differ.
  virtual std::vector<float> gather(const std::vector<float>& mine, int root) = 0;

  /// `label` names the array in messages, e.g. "gradient bucket 3 (conv4/weights ... conv3/bias)". The array must stay
  /// where it is. All ranks make and start reductions of the same counts in the same order. Destroy one when it is not
  /// under way.
  virtual std::unique_ptr<Collective> make_allreduce(float* data, std::size_t count, const std::string& label) = 0;
  /// The same for doubles.
  virtual std::unique_ptr<Collective> make_allreduce(double* data, std::size_t count, const std::string& label) = 0;
  /// Every rank's `bytes` bytes, one after the other in rank order, in `all` on every rank; the same promises hold.
  virtual std::unique_ptr<Collective> make_allgather(const void* mine, void* all, std::size_t bytes,
                                                     const std::string& label) = 0;
  /// The same ranks with collectives on arrays in host memory, where those above are on arrays in a device's.
  virtual Communicator& on_host() { return *this; }
  /// Lets started reductions advance; cheap when none is under way. Called between the calls of a step.
  virtual void progress() = 0;
  /// For a host that waits, by polling, for a device whose work may in turn wait for other ranks: called between two
  /// polls, `seconds` after the first, it lets the watchdog report what is waited for ("the loss of step 12"), and
  /// throws Error where the exchange is known to have failed.
  virtual void poll(std::string_view waiting_for, double seconds) { (void)waiting_for, (void)seconds; }
  /// How the arrays of make_allreduce and make_allgather travel: "MPI", "NCCL 2.28.3"; empty: they do not.
  virtual std::string collectives() const { return ""; }

  /// Ends every rank of the job with this exit code, now.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace keelson
