#pragma once

#include <charconv>
#include <cstdlib>
#include <string>

#include "engine/train/checkpoint/run_state.hpp"

/// The list of a RunState's fields, which attributes, checksums and broadcasts share.
namespace keelson {

/// Calls visit(name, field) for every field but those of visit_part() and visit_epoch(), `config`, `carried`, `texts`,
/// `of_samples`, `topology` and `observed`.
template <class State, class Visit>
void visit_fields(State& s, Visit&& visit) {
  visit("network", s.network);
  visit("seed", s.seed);
  visit("epoch", s.epoch);
  visit("step", s.step);
  visit("step_in_epoch", s.step_in_epoch);
  visit("samples", s.samples);
  visit("global_batch", s.global_batch);
  visit("train_samples", s.train_samples);
  visit("world_size", s.world_size);
  visit("seconds", s.seconds);
  visit("loss_sum", s.loss_sum);
  visit("loss_samples", s.loss_samples);
  visit("best_metric", s.best_metric);
  visit("best_epoch", s.best_epoch);
  visit("metric", s.metric);
  visit("validation_loss", s.validation_loss);
  visit("gradient_scale", s.loss_scale);  // the name that files of format 2 have
  visit("good_steps", s.good_steps);
  visit("skipped_steps", s.skipped_steps);
  visit("optimizer", s.optimizer);
  visit("schedule", s.schedule);
  visit("keelson_version", s.version);
  visit("created", s.created);
}

/// The same for the fields that only states have of which `part_step` is not 0.
template <class State, class Visit>
void visit_part(State& s, Visit&& visit) {
  visit("part_step", s.part_step);
  visit("part_sample", s.part_sample);
  visit("part_position", s.part_position);
}

/// The same for the field that only states have in which it is not 0.
template <class State, class Visit>
void visit_epoch(State& s, Visit&& visit) {
  visit("epoch_samples", s.epoch_samples);
}

/// The fields of visit_fields(), visit_part() and visit_epoch(), `config` and `observed` as text, without loss of
/// digits. Equal texts are equal states.
std::string to_text(const RunState& state);
/// The reverse of to_text(). `text` must come from to_text(). The other fields stay empty.
RunState state_from_text(const std::string& text);

}  // namespace keelson
