#include "engine/plan/program.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
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

/// A result that its reader wants within a larger buffer is written there.
TEST(Program, PlacesABufferInsideALargerOne) {
  Program p;
  const BufferId source = bytes(p, 64), inner = bytes(p, 128), outer = bytes(p, 320), other = bytes(p, 320);
  call(p, {out(source)});
  call(p, {in(source), out(inner)});
  call(p, {in(inner), out(outer)});
  call(p, {in(outer), out(other)});
  EXPECT_FALSE(p.place_inside(inner, outer, 8)) << "primitives want 64 bytes";
  EXPECT_TRUE(p.place_inside(inner, outer, 64));
  EXPECT_FALSE(p.place_inside(inner, other, 64)) << "it has its place";
  p.place();
  EXPECT_EQ(p.root(inner), outer);
  EXPECT_EQ(p.offset_in_root(inner), 64U);
  EXPECT_TRUE(p.is_part(inner));
  const std::size_t begin = p.buffer(outer).offset;
  EXPECT_TRUE(p.buffer(source).offset + 64 <= begin || begin + 320 <= p.buffer(source).offset)
      << "the larger buffer lives from the call that writes the inner one";
}

/// A part of a larger buffer is replaced only when nothing of that buffer is read later.
TEST(Program, ResultsReplacePartsOfBuffersThatAreDone) {
  for (const bool read_later : {false, true}) {
    Program p;
    const BufferId larger = bytes(p, 320), result = bytes(p, 128), end = bytes(p, 64);
    const BufferId part = p.view(larger, TensorDesc::plain({128}, DType::u8), 64);
    const BufferId odd = p.view(larger, TensorDesc::plain({128}, DType::u8), 72);
    EXPECT_TRUE(p.is_usable(part));
    EXPECT_FALSE(p.is_usable(odd)) << "does not begin at 64 bytes";
    call(p, {out(larger)});
    call(p, {in(part), out(result, 0)});
    call(p, {in(result), in(read_later ? larger : result), out(end)});
    p.place();
    EXPECT_EQ(p.root(result) == larger, !read_later);
    if (!read_later) {
      EXPECT_EQ(p.offset_in_root(result), 64U);
    }
  }
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

std::string refusal(Program& p) {
  try {
    p.place();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Program, RefusesBuffersThatAreReadButNeverWritten) {
  Program p;
  const BufferId never = bytes(p, 64), result = bytes(p, 64);
  p.buffer(never).name = "bn/mean";
  call(p, {in(never), out(result)});
  EXPECT_EQ(refusal(p),
            "node: op of phase forward, operand src: reads the buffer 'bn/mean', which no call before writes");
  Program after;
  const BufferId late = bytes(after, 64);
  call(after, {in(late), out(bytes(after, 64))});
  call(after, {out(late)});
  EXPECT_NE(refusal(after), "") << "it is written too late";
  Program fine;
  const BufferId x = fine.add("x", TensorDesc::plain({16}), Storage::owned), y = bytes(fine, 64);
  call(fine, {in(x), out(y)});
  call(fine, {in(fine.view(y, TensorDesc::plain({8}, DType::u8), 16)), out(bytes(fine, 64))});
  EXPECT_EQ(refusal(fine), "");
}

TEST(Program, RefusesGradientsThatAreReadButNeverWritten) {
  const auto program = [](bool writes_both) {
    Program p;
    BufferId g[2];
    for (int i = 0; i < 2; ++i) {
      g[i] = p.add("g", TensorDesc::plain({16}), Storage::gradients);
      p.buffer(g[i]).offset = static_cast<std::size_t>(i) * 64;
    }
    call(p, {out(g[0])});
    if (writes_both) call(p, {out(g[1])});
    call(p, {in(p.add("gradients", TensorDesc::plain({32}), Storage::gradients))});
    call(p, {in(g[1])});
    return refusal(p);
  };
  EXPECT_EQ(program(true), "");
  EXPECT_NE(program(false), "");
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

/// Bytes [offset, offset + n) of a buffer.
BufferId part(Program& p, BufferId of, std::int64_t n, std::size_t offset) {
  return p.view(of, TensorDesc::plain({n}, DType::u8), offset);
}

TEST(Program, PartsKnowTheirPlace) {
  Program p;
  const BufferId whole = bytes(p, 96), middle = part(p, whole, 32, 32), end = part(p, middle, 8, 24);
  EXPECT_EQ(p.root(end), whole);
  EXPECT_EQ(p.offset_in_root(middle), 32u);
  EXPECT_EQ(p.offset_in_root(end), 56u);
  EXPECT_EQ(p.offset_in_root(whole), 0u);
  EXPECT_TRUE(p.is_part(end) && p.is_part(middle));
  EXPECT_FALSE(p.is_part(whole) || p.is_part(p.view(whole, TensorDesc::plain({2, 48}, DType::u8))));
  EXPECT_THROW(part(p, whole, 32, 65), Error);
  EXPECT_THROW(part(p, middle, 8, 25), Error);
}

TEST(Program, APartKeepsTheWholeAlive) {
  Program p;
  const BufferId whole = bytes(p, 128), first = part(p, whole, 64, 0), second = part(p, whole, 64, 64);
  const BufferId a = bytes(p, 64), b = bytes(p, 64), as_large = bytes(p, 128);
  call(p, {out(whole)});
  call(p, {in(first), out(a, 0)});
  call(p, {in(a), in(second), out(b, 1)});
  call(p, {in(b), out(as_large)});
  p.place();
  EXPECT_EQ(p.root(a), a) << "the other part is read later";
  EXPECT_EQ(p.root(b), whole) << "nothing of the whole is read later";
  EXPECT_EQ(p.offset_in_root(b), 64u);
  EXPECT_EQ(p.lower_bound(), 256u);
  EXPECT_EQ(p.buffer(second).offset, 64u);
  const auto apart = [&](BufferId x, BufferId y) {
    const Buffer &l = p.buffer(x), &r = p.buffer(y);
    return l.offset + l.bytes <= r.offset || r.offset + r.bytes <= l.offset;
  };
  EXPECT_TRUE(apart(whole, a));
}

TEST(Program, InPlaceSharesOnlyWhatTheCallReadsOnceInTheSameOrder) {
  for (const bool twice : {false, true})
    for (const bool turned : {false, true}) {
      Program p;
      const auto matrix = [&](bool columns) {
        const Shape shape{2, 3}, strides{1, 2};
        Buffer b;
        b.desc = {shape, DType::f32, columns ? Layout::strided(shape, strides) : Layout::plain(shape)};
        return p.add(std::move(b));
      };
      const BufferId a = matrix(false), b = matrix(turned);
      call(p, {out(a)});
      call(p, twice ? std::vector<Operand>{in(a), in(p.view(a, p.buffer(b).desc)), out(b, 0)}
                    : std::vector<Operand>{in(a), out(b, 0)});
      call(p, {in(b)});
      p.place();
      EXPECT_EQ(p.root(b) == a, !twice && !turned) << twice << turned;
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
