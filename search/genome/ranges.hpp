#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/train/growth.hpp"
#include "search/genome/genome.hpp"

namespace keelson::search {

/// The name of the layer that a stage makes in network_of(): "stage1", "stage2_lstm1". `index`: from 0.
std::string layer_name(const Stage& stage, std::size_t index, const Space& space);
std::string dense_name(std::size_t index);  ///< "dense1", of a dense layer

/// Puts units and copies of a layer within the ranges of its space. `index`: from 0.
void keep_within(Stage& stage, std::size_t index, const Space& space);
void keep_within(DenseLayer& dense, std::size_t index, const Space& space);  ///< the same

/// Copies with a gene of their own from now on, which has the choice 0.
void add_copies(Space& space);
/// Makes the ends of the space's ranges choices of the genes, and takes away the choices that no layer can have. Throws
/// InputError for ranges that are none, and for names of layers that no network of the space has.
void apply_ranges(Space& space);

/// Restricts widths, copies and the number of parameters as a blueprint says (docs/growing.md); its other keys say how
/// a network grows, and have no meaning for a search. `start`: the network in whose units multiples such as "0.5x"
/// count, a genome of `space`; it becomes the nearest genome of the restricted space. Null: the blueprint may have no
/// multiples. Throws InputError as apply_ranges().
void restrict_by(Space& space, const GrowthOptions& blueprint, Genome* start);

}  // namespace keelson::search
