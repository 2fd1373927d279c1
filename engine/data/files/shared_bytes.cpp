#include "engine/data/files/shared_bytes.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/atomic_file.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/files/crc32c.hpp"

namespace keelson {
namespace {

constexpr std::size_t piece = 1 << 20, in_flight = 4;

}  // namespace

SharedBytes::SharedBytes(Communicator* communicator)
    : communicator_(communicator && communicator->size() > 1 ? communicator : nullptr),
      folder_(environment("TMPDIR").empty() ? "/tmp" : environment("TMPDIR")),
      writes_(!communicator_ || communicator_->local_rank() == 0),
      digest_(0) {
  open();
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : communicator_(other.communicator_),
      folder_(std::move(other.folder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      write_error_(other.write_error_),
      writes_(other.writes_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      digest_(other.digest_) {}

SharedBytes::~SharedBytes() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// The lowest rank of a node makes the file, the other ranks of the node open it, and then the name is removed. If one
/// rank throws, all throw. The destructor does not run in that case, so the file is closed here.
void SharedBytes::open() {
  std::string path = folder_ + "/keelson-table-XXXXXX";
  const auto close = [&] {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  };
  try {
    on_each_rank(communicator_, [&] {
      if (!writes_) return;
      descriptor_ = mkostemp(path.data(), O_CLOEXEC);
      if (descriptor_ < 0)
        refuse("{}: no temporary file can be made: {}. Set TMPDIR to a folder that can be written", folder_,
               std::strerror(errno));
    });
    if (!communicator_) {
      unlink(path.c_str());
      return;
    }
    // The name for each node, from the rank that made the file: "<node> <path>".
    const auto mine = std::to_string(communicator_->node()) + ' ';
    const auto told = communicator_->allgather(writes_ ? mine + path : "");
    on_each_rank(communicator_, [&] {
      if (writes_) return;
      const auto found = std::find_if(told.begin(), told.end(), [&](auto& t) { return t.starts_with(mine); });
      KEELSON_EXPECT(found != told.end());
      const auto name = found->substr(mine.size());
      descriptor_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor_ < 0)
        refuse(
            "{}: cannot be opened, though another rank of this node has made this file: {}. Set TMPDIR to a folder "
            "that "
            "all ranks of a node share",
            name, std::strerror(errno));
    });
    if (writes_) unlink(path.c_str());
  } catch (...) {
    if (writes_ && descriptor_ >= 0) unlink(path.c_str());
    close();
    throw;
  }
}

void SharedBytes::append(const void* data, std::size_t bytes, int root) {
  const auto* from = static_cast<const char*>(data);
  if (communicator_) {
    const std::size_t whole = bytes / piece * piece;
    append_pieces(from, whole, root);
    std::vector<char> rest(bytes - whole);
    if (communicator_->rank() == root) rest.assign(from + whole, from + bytes);
    communicator_->broadcast(rest.data(), rest.size(), root);
    keep(rest.data(), rest.size());
  } else {
    keep(from, bytes);
  }
  size_ += bytes;
}

/// Several pieces are in flight, so that no rank waits for the slowest one after each piece, and a piece travels on
/// while the next one comes.
void SharedBytes::append_pieces(const char* from, std::size_t bytes, int root) {
  const bool here = communicator_->rank() == root;
  const std::size_t pieces = bytes / piece, slots = std::min(pieces, in_flight);
  std::vector<char> buffer(slots * piece);
  std::vector<std::unique_ptr<Collective>> broadcasts;
  for (std::size_t i = 0; i < slots; ++i)
    broadcasts.push_back(
        communicator_->on_host().make_broadcast(buffer.data() + i * piece, piece, root, "a table of all ranks"));
  for (std::size_t i = 0; i < pieces + slots; ++i) {
    const std::size_t slot = i % std::max<std::size_t>(slots, 1);
    char* const at = buffer.data() + slot * piece;
    if (i >= slots) {
      broadcasts[slot]->wait();
      keep(at, piece);
    }
    if (i >= pieces) continue;
    if (here) std::memcpy(at, from + i * piece, piece);
    broadcasts[slot]->start();
  }
}

void SharedBytes::keep(const char* data, std::size_t bytes) {
  digest_ = crc32c(data, bytes, digest_);
  if (writes_) write(data, bytes);
}

/// Errors are reported by finish(), where all ranks can throw together.
void SharedBytes::write(const void* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes && write_error_ == 0;) {
    const auto n = ::write(descriptor_, static_cast<const char*>(data) + done, bytes - done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0 || errno != EINTR)
      write_error_ = n == 0 ? ENOSPC : errno;
  }
}

void SharedBytes::finish() {
  on_each_rank(communicator_, [&] {
    if (write_error_ != 0)
      refuse("{}: a temporary file of {} bytes cannot be written{}. Set TMPDIR to a folder with more room", folder_,
             size_, reason_of_writing(write_error_, folder_));
  });
  on_each_rank(communicator_, [&] {
    if (size_ == 0) return;
    void* at = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (at == MAP_FAILED)
      refuse("{}: a temporary file of {} bytes cannot be mapped: {}. Set TMPDIR to a folder of another file system",
             folder_, size_, std::strerror(errno));
    data_ = static_cast<const std::byte*>(at);
  });
  ::close(std::exchange(descriptor_, -1));  // the mapping keeps the file alive
  communicator_ = nullptr;
}

}  // namespace keelson
