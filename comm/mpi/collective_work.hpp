#pragma once

namespace keelson::comm::detail {

/// The implementation of one collective on fixed arrays. MpiCollective starts the work and waits for it.
class CollectiveWork {
 public:
  virtual ~CollectiveWork() = default;
  virtual void start() = 0;
  enum class Progress : unsigned char { none, some, done };
  /// Advances without waiting. `none` may also mean that the progress is not known.
  virtual Progress advance() = 0;
  /// Waits until the arrays are no longer used, after MPI has ended all calls of the group with an error.
  virtual void abandon() {}
  /// Whether the work advances only in advance(). MPI's own collectives advance in every call of MPI.
  virtual bool needs_driving() const { return true; }
};

}  // namespace keelson::comm::detail
