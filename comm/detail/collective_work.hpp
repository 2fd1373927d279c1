#pragma once

namespace keelson::comm::detail {

/// How one collective on fixed arrays is carried out. MpiCollective starts it and waits for it.
class CollectiveWork {
 public:
  virtual ~CollectiveWork() = default;
  virtual void start() = 0;
  enum class Progress : unsigned char { none, some, done };
  /// Does what can be done without waiting. `none` may also mean that nobody can tell.
  virtual Progress advance() = 0;
  /// Waits until nobody uses the arrays any more, after MPI has ended all calls of the group unfinished.
  virtual void abandon() {}
  /// Whether it stands still while nobody calls advance(): MPI drives its own collectives in every call of MPI.
  virtual bool needs_driving() const { return true; }
};

/// Collectives of this process that need driving, of all communicators, while they are under way. Other ranks wait for
/// this rank's share of each of them, so all are driven wherever this rank waits for anything.
class UnderWay {
 public:
  static void reserve(int more);  ///< room for so many more, or, negative, fewer
  static void add(CollectiveWork& work);
  static void remove(CollectiveWork& work);
  static void advance();  ///< drives all
};

}  // namespace keelson::comm::detail
