#include "engine/ops/recurrent_cell.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::CellKind;
using ops::Verb;

struct CellCase {
  std::string name, about;
  ops::RecurrentCellDesc desc;
  double range = 3;  ///< of the gates' parts
};

std::vector<CellCase> cell_cases() {
  std::vector<CellCase> cases;
  for (const auto kind : {CellKind::lstm, CellKind::gru}) {
    const std::string name(to_string(kind));
    cases.push_back({name + "_one", "everything is 1", {kind, 1, 1, 1}});
    cases.push_back({name + "_odd", "", {kind, 3, 4, 37}});
    cases.push_back({name + "_one_step", "begins and ends at once", {kind, 5, 1, 16}});
    cases.push_back({name + "_one_sample", "", {kind, 1, 7, 5}});
    cases.push_back({name + "_wide", "several work items per sample", {kind, 2, 3, 523}});
    cases.push_back({name + "_saturated", "gates at their ends", {kind, 2, 3, 19}, 200});
    for (const auto type : {DType::bf16, DType::f16}) {
      const auto low = fmt::format("{}_{}", name, to_string(type));
      cases.push_back({low, "16-bit values", {kind, 3, 4, 37, type}});
      cases.push_back({low + "_one_step", "a state that is f32", {kind, 5, 1, 16, type}});
    }
  }
  return cases;
}

class RecurrentCellTest : public CaseTest<CellCase> {
 protected:
  void SetUp() override {
    CaseTest::SetUp();
    const auto& d = c().desc;
    rows = {d.rows(), d.hidden}, gate_rows = {d.rows(), d.gates()}, step_gates = {d.batch, d.gates()},
    step_rows = {d.batch, d.hidden};
    input = rounded(oracle::random_uniform(gate_rows, "input", -c().range, c().range), d.type);
    state = oracle::random_uniform(d.state_shape(), "state");
    if (gru()) bias = oracle::random_uniform({d.hidden}, "bias");
    for (std::int64_t t = 0; t < d.steps; ++t)
      recurrent.push_back(oracle::random_uniform(step_gates, fmt::format("recurrent{}", t), -c().range, c().range));
    work_out();
  }

  bool gru() const { return c().desc.kind == CellKind::gru; }
  Tensor put_plain(const Array& a) { return put(ctx(), a, Layout::plain(a.shape)); }
  Tensor put_low(const Array& a) { return put(ctx(), a, Layout::plain(a.shape), c().desc.type); }
  Tensor empty(const Shape& s) { return destination(ctx(), s, Layout::plain(s)); }
  Tensor empty_low(const Shape& s) { return destination(ctx(), s, Layout::plain(s), c().desc.type); }

  Array row(const Array& all, std::int64_t t) const {
    Array one(Shape{c().desc.batch, all.shape[1]});
    for (std::int64_t i = 0; i < one.elements(); ++i) one[i] = all[place(t, i, all.shape[1])];
    return one;
  }
  void set_row(Array& all, std::int64_t t, const Array& one) const {
    for (std::int64_t i = 0; i < one.elements(); ++i) all[place(t, i, all.shape[1])] = one[i];
  }
  std::int64_t place(std::int64_t t, std::int64_t i, std::int64_t width) const {
    return (i / width * c().desc.steps + t) * width + i % width;
  }
  /// Vector `which` (0: h, 1: c) of each sample's state.
  Array part(const Array& s, std::int64_t which) const {
    Array one(step_rows);
    const std::int64_t hidden = c().desc.hidden;
    for (std::int64_t i = 0; i < one.elements(); ++i)
      one[i] = s[(i / hidden * s.shape[1] + which) * hidden + i % hidden];
    return one;
  }
  void set_part(Array& s, std::int64_t which, const Array& one) const {
    const std::int64_t hidden = c().desc.hidden;
    for (std::int64_t i = 0; i < one.elements(); ++i)
      s[(i / hidden * s.shape[1] + which) * hidden + i % hidden] = one[i];
  }

  /// The sequence by the oracle's cell, step by step; h between steps is of the cell's type.
  void work_out() {
    gates = Array(gate_rows), dst = h_prev = saved = Array(rows);
    steps.clear();
    Array now = state;
    for (std::int64_t t = 0; t < c().desc.steps; ++t) {
      set_part(now, 0, rounded(part(now, 0), c().desc.type));
      steps.push_back({row(input, t), recurrent[static_cast<std::size_t>(t)], bias, now});
      const auto r = oracle::cell_forward(c().desc.kind, steps.back());
      set_row(gates, t, r.gates);
      set_row(h_prev, t, part(now, 0));
      if (gru()) {
        Array own(step_rows);
        for (std::int64_t i = 0; i < own.elements(); ++i) {
          const std::int64_t n = i / c().desc.hidden, j = i % c().desc.hidden;
          own[i] = steps.back().recurrent[n * c().desc.gates() + 2 * c().desc.hidden + j] + bias[j];
        }
        set_row(saved, t, own);
      } else {
        set_row(saved, t, part(now, 1));
      }
      now = r.next_state;
      set_row(dst, t, part(now, 0));
    }
    next_state = now;
  }

  ops::RecurrentCell::Sequence sequence(bool in_place) {
    ops::RecurrentCell::Sequence s;
    s.input = put_low(input);
    s.gates = in_place ? s.input : empty_low(gate_rows);
    s.recurrent = empty(step_gates);
    if (gru()) s.bias = put_plain(bias);
    s.h_prev = empty_low(rows);
    s.saved = empty(rows);
    s.next_state = empty(c().desc.state_shape());
    return s;
  }

  /// begin and all steps, each with its recurrent part.
  void forward(ops::RecurrentCell& op, ops::RecurrentCell::Sequence s, const Tensor& first,
               const std::vector<Tensor>& parts, const Tensor& to) {
    op.begin(first, s);
    for (std::int64_t t = 0; t < c().desc.steps; ++t) {
      s.recurrent = parts[static_cast<std::size_t>(t)];
      op.forward(t, s, to);
    }
  }

  void check_forward(ops::RecurrentCell& op, bool in_place) {
    const auto s = sequence(in_place);
    const auto first = put_plain(state), to = empty_low(rows);
    std::vector<Tensor> parts;
    for (const auto& r : recurrent) parts.push_back(put_plain(r));
    const auto all = [&] { forward(op, s, first, parts, to); };
    const std::string what = c().name + " (" + c().about + ")" + (in_place ? " in place" : "");
    if (in_place)
      all();
    else
      run(what, {s.gates, s.h_prev, s.saved, s.next_state, to}, all);
    check(to, dst, what + " dst");
    check(s.gates, gates, what + " gates");
    check(s.h_prev, h_prev, what + " h_prev");
    check(s.saved, saved, what + " saved", tolerance(c().desc.type));
    check(s.next_state, next_state, what + " next_state", tolerance(c().desc.type));
  }

  /// What is handed back at step t: nothing at the last one, where memory that nobody has written must not be read.
  Array handed_back(std::int64_t t) const {
    return t + 1 == c().desc.steps ? Array(step_rows, nan)
                                   : oracle::random_uniform(step_rows, fmt::format("diff_h{}", t));
  }

  void check_backward(ops::RecurrentCell& op, bool in_place) {
    const auto& d = c().desc;
    const std::string what = c().name + " (" + c().about + ") backward" + (in_place ? " in place" : "");
    const Array above = rounded(oracle::random_uniform(rows, "diff_dst"), d.type);
    // What forward leaves, as the oracle has it.
    ops::RecurrentCell::Sequence s;
    s.gates = put_low(gates);
    s.h_prev = put_low(h_prev), s.saved = put_plain(saved), s.next_state = put_plain(next_state);
    ops::RecurrentCell::Gradients g;
    g.diff_dst = put_low(above);
    g.diff_carry = put_plain(Array(step_rows, nan));
    g.diff_input = in_place ? s.gates : empty_low(gate_rows);
    g.diff_recurrent = gru() ? empty_low(gate_rows) : g.diff_input;

    std::vector<Tensor> back;
    for (std::int64_t t = 0; t < d.steps; ++t) back.push_back(put_plain(handed_back(t)));
    Array diff_input(gate_rows), diff_recurrent(gate_rows), carry(step_rows);
    for (std::int64_t t = d.steps - 1; t >= 0; --t) {
      g.diff_h = back[static_cast<std::size_t>(t)];
      op.backward(t, s, g);
      // diff_dst and diff_h meet h; carry meets c of lstm, h of gru.
      Array diff_next(d.state_shape()), dh = row(above, t);
      if (t + 1 < d.steps) dh = oracle::sum({dh, handed_back(t)});
      if (gru()) dh = oracle::sum({dh, carry});
      set_part(diff_next, 0, dh);
      if (!gru()) set_part(diff_next, 1, carry);
      const auto want = oracle::cell_backward(d.kind, steps[static_cast<std::size_t>(t)], diff_next);
      set_row(diff_input, t, want.input);
      set_row(diff_recurrent, t, want.recurrent);
      carry = part(want.state, gru() ? 0 : 1);
      check(g.diff_carry, carry, fmt::format("{}, carry of step {}", what, t), tolerance(d.type));
    }
    check(g.diff_input, diff_input, what + " diff_input");
    check(g.diff_recurrent, diff_recurrent, what + " diff_recurrent");
    if (in_place) return;
    run(what, {g.diff_input, g.diff_recurrent, g.diff_carry}, [&] {
      for (std::int64_t t = d.steps - 1; t >= 0; --t) {
        g.diff_h = back[static_cast<std::size_t>(t)];
        op.backward(t, s, g);
      }
    });
    check(g.diff_input, diff_input, what + " diff_input, again");
  }

  Shape rows, gate_rows, step_gates, step_rows;
  Array input, state, bias, gates, dst, h_prev, saved, next_state;
  std::vector<Array> recurrent;
  std::vector<oracle::CellStep> steps;
};

TEST_P(RecurrentCellTest, EachStepMatchesOracle) {
  const auto op = make(c().desc);
  if (!op) return;
  for (const bool in_place : {false, true}) {
    check_forward(*op, in_place);
    check_backward(*op, in_place);
  }
  for (const auto verb : {Verb::forward, Verb::backward_data}) {
    // Gates are read twice and written once, and no state escapes: of one step.
    const auto least =
        static_cast<double>(step_gates.elements()) * (2 * static_cast<double>(size_of(c().desc.type)) + sizeof(float));
    EXPECT_GE(op->cost(verb).bytes, least);
    EXPECT_LE(op->cost(verb).bytes, 2 * least);
    EXPECT_GT(op->cost(verb).flops, 0);
  }
}

TEST_P(RecurrentCellTest, NanReachesExactlyItsUnit) {
  const auto op = make(c().desc);
  if (!op) return;
  const std::int64_t hidden = c().desc.hidden;
  input[hidden - 1] = nan;            // sample 0, step 0, first gate
  state[state.elements() - 1] = nan;  // the last sample's c, or h of gru
  if (gru()) bias[hidden / 2] = nan;
  work_out();
  check_forward(*op, false);
}

INSTANTIATE_TEST_SUITE_P(RecurrentCell, RecurrentCellTest, ::testing::ValuesIn(on_every_context(cell_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
