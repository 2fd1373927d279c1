#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/log/population.hpp"
#include "search/method/method.hpp"

namespace keelson::search {

/// The members of a population that trains together: one design, whose training varies. The first member has the
/// settings of Settings::start, if there is one, the others are random.
struct Members : Method {
  std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const override;
};

/// The only design of a space, with the first choices of the training; no value: the space has several.
std::optional<Genome> only_design(const Space& space);

/// The network that a population trains: Settings::start, or the only design of the space. Throws InputError if the
/// space has several.
Genome design_of(const Settings& settings);

/// The member that trains next, which no other worker trains: of those that can go on, the one that has trained the
/// least. Of ltfb, a member can go on when its partner of the coming tournament has come as far, or has failed. No
/// value: none can. While a member is left that has not trained to the end, one can go on, or is trained.
std::optional<std::int64_t> next_member(const Population& population);

/// How a member goes on after its latest result, as the lines that the population has applied decide it.
///
/// pbt (Jaderberg et al. 2017, arXiv 1711.09846): the members that have come as far as this one, or farther, are sorted
/// by their latest losses. k = ceil(n / 4) of n members, at most half of them (as in Ray Tune 2). The member at
/// position i >= n - k, from 0, goes on with the weights and the state of the optimizer of the member at position i mod
/// k, and with its training, perturbed().
///
/// ltfb: the member itself, and its partner. The tournament comes with the training, and its outcome with the result.
Interval next_interval(const Population& population, const Individual& member);

/// The settings of a training in the neighbourhood: each gene is drawn anew with probability 0.25; else an ordered gene
/// moves by one choice, up or down, and stays if there is none. The optimizer stays, since its state is taken over, and
/// so does whether there is momentum.
TrainingPart perturbed(TrainingPart training, const Space& space, Draws& draws);

/// Of ltfb (Jacobs et al. 2019, arXiv 1910.02270): the partner of a member in the tournament before a rung. All members
/// are shuffled by numbers that depend on the search's seed and the rung alone; then the first and the second are
/// partners, the third and the fourth, and so on. -1: the one that is left over, and before the first rung.
std::int64_t ltfb_partner(const Settings& settings, int rung, std::int64_t member);

/// Whether any member may still begin with the weights that this one had after a rung. Its latest result, and with pbt
/// the one before, are always kept.
bool may_be_source(const Population& population, const Individual& member, int rung);

}  // namespace keelson::search
