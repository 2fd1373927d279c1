#pragma once

namespace keelson::comm::detail {

/// How one collective on fixed arrays is carried out. MpiCollective starts it and waits for it.
class CollectiveWork {
 public:
  virtual ~CollectiveWork() = default;
  virtual void start() = 0;
  enum class Progress : unsigned char { none, some, done };
  /// Does what is possible without waiting. `none` may also mean that the work cannot tell.
  virtual Progress advance() = 0;
  /// Waits until nobody uses the arrays any more, after MPI has ended all calls of the group with an error.
  virtual void abandon() {}
  /// Whether it advances only in advance(). MPI's own collectives advance in every call of MPI.
  virtual bool needs_driving() const { return true; }
};

}  // namespace keelson::comm::detail
