#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "engine/base/error.hpp"
#include "engine/base/huge_pages.hpp"
#include "engine/data/files/raw_file.hpp"
#include "engine/data/stage/detail/stage_work.hpp"

/// The exchange of staged files between places, in rounds in which each pair of places meets once.
namespace keelson::detail {
namespace {

constexpr std::int64_t largest_piece = std::int64_t{16} << 20;
constexpr std::int64_t memory_of_place = std::int64_t{256} << 20;
constexpr int piece_buffers = 4;  // two for each direction
/// Bytes that are read or written before messages in flight get a chance to advance.
constexpr std::int64_t bytes_between_polls = std::int64_t{1} << 20;

using Poll = std::function<void()>;

/// Files, one after the other, as a stream of bytes.
class FileStream {
 public:
  FileStream(StageWork& work, std::vector<std::int64_t> files) : work_(work), files_(std::move(files)) {
    for (const auto file : files_) bytes_ += work.bytes(file);
  }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t files() const { return std::ssize(files_); }

 protected:
  bool ended() const { return at_ == files_.size(); }
  std::int64_t file() const { return files_[at_]; }

  StageWork& work_;
  std::vector<std::int64_t> files_;
  std::size_t at_ = 0;       ///< the present file
  std::int64_t offset_ = 0;  ///< in the present file

 private:
  std::int64_t bytes_ = 0;
};

/// Own copies that are sent. After an error, what is sent has no meaning; the receiver finds a wrong checksum.
class OutgoingFiles : public FileStream {
 public:
  using FileStream::FileStream;

  void read(char* dst, std::int64_t bytes, const Poll& poll) {
    while (bytes > 0) {
      if (offset_ == work_.bytes(file())) {
        open_.reset();
        ++at_;
        offset_ = 0;
        continue;
      }
      const auto n = std::min({bytes, bytes_between_polls, work_.bytes(file()) - offset_});
      read_part(dst, n);
      offset_ += n;
      dst += n;
      bytes -= n;
      poll();
    }
  }
  const std::exception_ptr& error() const { return error_; }

 private:
  void read_part(char* dst, std::int64_t n) {
    if (error_) return;
    try {
      if (!open_) open_.emplace(work_.target(file()));
      open_->read(dst, n, offset_);
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::optional<RawFile> open_;
  std::exception_ptr error_;
};

/// Files that are received. After an error, the bytes that still come are not written.
class IncomingFiles : public FileStream {
 public:
  IncomingFiles(StageWork& work, std::vector<std::int64_t> files, std::vector<std::uint32_t> crcs)
      : FileStream(work, std::move(files)), crcs_(std::move(crcs)) {
    guarded([&] { complete(); });
  }

  void write(const char* src, std::int64_t bytes, const Poll& poll) {
    while (bytes > 0 && !error_) {
      const auto n = std::min({bytes, bytes_between_polls, work_.bytes(file()) - offset_});
      guarded([&] {
        if (!open_) open_ = std::make_unique<StagedFile>(work_.target(file()));
        open_->write(src, n);
        offset_ += n;
        complete();
      });
      src += n;
      bytes -= n;
      poll();
    }
  }
  const std::exception_ptr& error() const { return error_; }
  bool mismatched() const { return mismatched_; }                       ///< the error is a wrong checksum
  std::int64_t done() const { return static_cast<std::int64_t>(at_); }  ///< complete files

 private:
  template <class Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
      open_.reset();
    }
  }
  /// Ends the files whose bytes have all come, among them empty ones.
  void complete() {
    while (!ended() && offset_ == work_.bytes(file())) {
      if (!open_) open_ = std::make_unique<StagedFile>(work_.target(file()));
      if (open_->crc() != crcs_[at_]) {
        mismatched_ = true;
        fail(
            "{}: has the checksum {:08x} after its exchange between nodes, expected {:08x}. Start again, with "
            "--verify-stage; if this happens again, the memory, disk or network of a node is damaged",
            work_.target(file()), open_->crc(), crcs_[at_]);
      }
      work_.keep(file(), *open_);
      open_.reset();
      ++at_;
      offset_ = 0;
    }
  }

  std::vector<std::uint32_t> crcs_;
  std::unique_ptr<StagedFile> open_;
  std::exception_ptr error_;
  bool mismatched_ = false;
};

/// The pieces of a stream of bytes, each a message, in two buffers that take turns.
class Pieces {
 public:
  using Make = std::function<std::unique_ptr<Collective>(char* buffer, std::size_t bytes)>;
  Pieces(std::int64_t bytes, std::int64_t piece, const Make& make) : bytes_(bytes), piece_(piece) {
    const auto whole = bytes / piece, rest = bytes % piece;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(whole, 2); ++i)
      messages_.push_back(make(buffer(i, piece), static_cast<std::size_t>(piece)));
    if (rest > 0) last_ = make(buffer(whole, rest), static_cast<std::size_t>(rest));
  }
  std::int64_t count() const { return (bytes_ + piece_ - 1) / piece_; }
  bool has(std::int64_t i) const { return i >= 0 && i < count(); }
  std::int64_t bytes(std::int64_t i) const { return std::min(piece_, bytes_ - i * piece_); }
  char* data(std::int64_t i) { return buffers_[i % 2].get(); }
  Collective& message(std::int64_t i) {
    return bytes(i) == piece_ ? *messages_[static_cast<std::size_t>(i % 2)] : *last_;
  }

 private:
  char* buffer(std::int64_t i, std::int64_t bytes) {
    auto& b = buffers_[i % 2];
    if (!b) b = make_huge_page_array<char>(static_cast<std::size_t>(bytes));  // no later piece is longer
    return b.get();
  }

  std::int64_t bytes_, piece_;
  HugePageArray<char> buffers_[2];  ///< outlive the messages
  std::vector<std::unique_ptr<Collective>> messages_;
  std::unique_ptr<Collective> last_;
};

/// One round of a place: it sends to place `to`, and receives from place `from`. Both may be the same place. All
/// messages are kept to the end of the round, so that they have the same numbers on both sides.
class ExchangeRound {
 public:
  ExchangeRound(StageWork& work, Communicator& group, int to, int from)
      : work_(work), group_(group), to_(to), from_(from) {}

  /// `progress`: called with the complete files and bytes of this round.
  void run(std::int64_t piece, const std::function<void(std::int64_t files, std::int64_t bytes)>& progress) {
    const auto wanted = work_.wanted_from(from_);
    const auto asked = pass_lists(wanted);
    std::vector<std::uint32_t> mine, theirs(wanted.size());
    for (const auto file : asked) mine.push_back(work_.crc(file));
    pass(mine.data(), mine.size() * sizeof mine[0], to_, theirs.data(), theirs.size() * sizeof theirs[0], from_);
    out_.emplace(work_, asked);
    in_.emplace(work_, wanted, std::move(theirs));
    stream(piece, progress);
  }
  const IncomingFiles& received() const { return *in_; }
  const OutgoingFiles& sent() const { return *out_; }

 private:
  /// Sends bytes to a place, and receives bytes from a place. Zero bytes are no message.
  void pass(const void* src, std::size_t bytes, int to, void* dst, std::size_t expected, int from) {
    std::vector<std::unique_ptr<Collective>> both;
    if (expected > 0) both.push_back(group_.make_receive(dst, expected, from, "lists of staged files"));
    if (bytes > 0) both.push_back(group_.make_send(src, bytes, to, "lists of staged files"));
    for (auto& message : both) message->start();
    for (auto& message : both) message->wait();
    std::ranges::move(both, std::back_inserter(messages_));
  }

  /// Asks place `from_` for files; the result is what place `to_` asks for.
  std::vector<std::int64_t> pass_lists(const std::vector<std::int64_t>& wanted) {
    std::int64_t count = std::ssize(wanted), count_asked = 0;
    pass(&count, sizeof count, from_, &count_asked, sizeof count_asked, to_);
    std::vector<std::int64_t> asked(static_cast<std::size_t>(count_asked));
    pass(wanted.data(), wanted.size() * sizeof count, from_, asked.data(), asked.size() * sizeof count, to_);
    return asked;
  }

  /// While piece i is in flight in both directions, piece i - 1 is written to disk and piece i + 1 is read.
  void stream(std::int64_t piece, const std::function<void(std::int64_t, std::int64_t)>& progress) {
    Pieces in(in_->bytes(), piece, [&](char* buffer, std::size_t bytes) {
      return group_.make_receive(buffer, bytes, from_, "staged files");
    });
    Pieces out(out_->bytes(), piece,
               [&](char* buffer, std::size_t bytes) { return group_.make_send(buffer, bytes, to_, "staged files"); });
    if (out.has(0)) out_->read(out.data(0), out.bytes(0), [] {});
    for (std::int64_t i = 0; i < std::max(in.count() + 1, out.count()); ++i) {
      if (in.has(i)) in.message(i).start();
      if (out.has(i)) out.message(i).start();
      const auto poll = [&] {
        if (in.has(i)) in.message(i).test();
        if (out.has(i)) out.message(i).test();
      };
      if (in.has(i - 1)) in_->write(in.data(i - 1), in.bytes(i - 1), poll);
      if (out.has(i + 1)) out_->read(out.data(i + 1), out.bytes(i + 1), poll);
      if (in.has(i)) in.message(i).wait();
      if (out.has(i)) out.message(i).wait();
      progress(in_->done(), std::min(i * piece, in_->bytes()));
    }
  }

  StageWork& work_;
  Communicator& group_;
  int to_, from_;
  std::vector<std::unique_ptr<Collective>> messages_;
  std::optional<OutgoingFiles> out_;
  std::optional<IncomingFiles> in_;
};

/// What a round ended with, for the agreement of all places.
enum RoundState : std::int64_t { good, mismatch, broken };

RoundState state_of(const ExchangeRound& round) {
  if (round.sent().error() || (round.received().error() && !round.received().mismatched())) return broken;
  return round.received().error() ? mismatch : good;
}

}  // namespace

/// After each round all places agree whether to go on. A wrong checksum is reported only if no place has failed, since
/// a sender that cannot read its copy causes one.
void StageWork::exchange() {
  if (places_.places == 1 || places_.lane < 0) return;
  auto& group = *places_.peers;
  KEELSON_EXPECT(group.size() == places_.places && group.rank() == places_.place);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const auto piece =
      options_.piece > 0 ? options_.piece : std::min(largest_piece, memory_of_place / (piece_buffers * places_.lanes));
  const auto count = missing_files();
  for (int step = 1; step < places_.places; ++step) {
    const int to = (places_.place + step) % places_.places,
              from = (places_.place + places_.places - step) % places_.places;
    ExchangeRound round(*this, group, to, from);
    round.run(piece, [&](std::int64_t files, std::int64_t bytes) {
      report("exchanged", result_.files_exchanged + files, count, result_.bytes_exchanged + bytes, seconds());
    });
    const auto mine = state_of(round);
    std::int64_t worst = mine;
    group.allreduce(&worst, 1, Reduction::max);
    result_.files_exchanged += round.received().done();
    result_.bytes_exchanged += round.received().bytes();
    result_.exchange_seconds = seconds();
    if (worst == good) continue;
    if (round.sent().error()) std::rethrow_exception(round.sent().error());
    if (round.received().error() && mine == worst) std::rethrow_exception(round.received().error());
    return;
  }
}

}  // namespace keelson::detail
