#include "engine/plan/program.hpp"

#include <gtest/gtest.h>

#include "engine/base/philox.hpp"

namespace keelson {
namespace {

BufferId bytes(Program& p, std::int64_t n) {
  Buffer b;
  b.desc = TensorDesc::plain({n}, DType::u8);
  return p.add(std::move(b));
}

Operand in(BufferId b) { return {b, ops::Role::src, ops::Access::read}; }
/// `in_place_of`: the operand of the call whose memory it may take.
Operand out(BufferId b, int in_place_of = -1) { return {b, ops::Role::dst, ops::Access::write, in_place_of}; }

void call(Program& p, std::vector<Operand> operands) {
  p.calls().push_back({Phase::forward, "node", "op", std::move(operands), Computation{}});
}

TEST(Program, BuffersThatLiveAtTheSameTimeNeverOverlap) {
  const philox::Key key{3, 1, 0};
  std::uint64_t at = 0;
  const auto draw = [&](int n) { return static_cast<int>(philox::bits(key, at++) % n); };
  for (int trial = 0; trial < 50; ++trial) {
    Program p;
    std::vector<BufferId> made{bytes(p, 64)};
    call(p, {out(made[0])});
    for (int c = 0; c < 30; ++c) {
      std::vector<Operand> operands{in(made[draw(static_cast<int>(made.size()))]),
                                    in(made[draw(static_cast<int>(made.size()))])};
      made.push_back(bytes(p, 1 + draw(1000)));
      operands.push_back(out(made.back(), draw(2) ? 0 : -1));
      call(p, operands);
    }
    p.place();
    // Write a pattern into every buffer as its call comes; whoever reads must find what was written.
    std::vector<std::byte> arena(p.arena_bytes());
    std::vector<std::byte> pattern(made.size() + 1);
    for (std::size_t c = 0; c < p.calls().size(); ++c)
      for (const Operand& o : p.calls()[c].operands) {
        const Buffer& b = p.buffer(p.root(o.id));
        std::byte* data = arena.data() + b.offset;
        ASSERT_LE(data + b.bytes, arena.data() + arena.size());
        if (o.reads()) {
          for (std::size_t i = 0; i < b.bytes; ++i)
            ASSERT_EQ(data[i], pattern[o.id]) << "buffer " << o.id << " at call " << c;
        } else {
          pattern[o.id] = static_cast<std::byte>(c + 1);
          std::fill_n(data, b.bytes, pattern[o.id]);
        }
      }
    EXPECT_GE(p.arena_bytes(), p.lower_bound());
  }
}

TEST(Program, MemoryIsReusedOnceABufferIsDead) {
  Program p;
  BufferId last = bytes(p, 1024);
  call(p, {out(last)});
  for (int i = 0; i < 10; ++i) {
    const BufferId next = bytes(p, 1024);
    call(p, {in(last), out(next)});
    last = next;
  }
  p.place();
  EXPECT_EQ(p.arena_bytes(), 2048u);
  EXPECT_EQ(p.lower_bound(), 2048u);
}

TEST(Program, InPlaceSharesOnlyWhatNobodyReadsLater) {
  for (const bool read_later : {false, true}) {
    Program p;
    const BufferId a = bytes(p, 256), b = bytes(p, 256);
    call(p, {out(a)});
    call(p, {in(a), out(b, 0)});
    call(p, read_later ? std::vector<Operand>{in(a), in(b)} : std::vector<Operand>{in(b)});
    p.place();
    EXPECT_EQ(p.root(b) == a, !read_later);
    EXPECT_EQ(p.arena_bytes(), read_later ? 512u : 256u);
  }
}

TEST(Program, AKeptBufferOutlivesTheLastCall) {
  Program p;
  const BufferId a = bytes(p, 128), b = bytes(p, 128);
  p.buffer(a).keep = true;
  call(p, {out(a)});
  call(p, {out(b)});
  p.place();
  EXPECT_NE(p.buffer(a).offset, p.buffer(b).offset);
}

}  // namespace
}  // namespace keelson
