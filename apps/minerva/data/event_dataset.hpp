#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::minerva {

/// What a network reads of events, and what it finds.
struct EventOptions {
  std::string target = "planecode";  ///< or "segment"
  std::int64_t classes = 67;  ///< of planecodes: the last class has all codes from there on; segments are 11 classes
  bool time = false;          ///< reads the times as a second channel beside the energies
  /// "log1p": sign(x) log(1 + |x|) of energies and times; "none": as the files have them
  std::string normalise = "log1p";
};

/// What is known of the vertices of all events, as the files have it.
struct Vertices {
  std::vector<std::int32_t> planecodes, segments;
  std::vector<float> z;
};

/// What an event looks like to a person.
struct Energies {
  std::array<std::vector<float>, 3> views;  ///< (127, planes) of each view
  std::int32_t truth = 0;                   ///< its class
};

/// Events in files of the experiment's layout (docs/minerva.md): images of three views, and the vertex. Fields: "x",
/// "u" and "v" (channels, 127, planes) f32, where u and v have half as many planes, and "y" () s32, the class.
class EventDataset final : public Dataset {
 public:
  /// `path`: a file, a folder or a pattern. Throws InputError, naming the file or the array, for images of other sizes
  /// or numbers of events that differ, and if times are wanted that are not there. `world` null: this rank alone.
  /// Collective.
  EventDataset(const std::string& path, const EventOptions& options, Communicator* world);

  std::int64_t size() const override { return events_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  /// Throws InputError, naming the event, for labels that are out of range.
  void read(std::int64_t index, void* const* dst) const override;
  std::string describe() const override;
  std::optional<ReadCost> read_cost() const override { return events_.read_cost(); }
  std::uint64_t digest() const override;

  const EventOptions& options() const { return options_; }     ///< as given
  std::int64_t classes() const { return options_.classes; }    ///< of "y"
  std::int64_t planes() const { return fields_[0].shape[2]; }  ///< of the view x
  /// Files that were left out: none, since files that cannot be read are refused.
  const std::vector<std::string>& broken_files() const { return broken_; }
  /// The energies of an event as the files have them, and its class.
  Energies energies(std::int64_t index) const;
  /// Reads the vertices of all events, on all ranks. Throws InputError for files without them. Collective.
  Vertices vertices() const;
  /// The class of a vertex.
  std::int32_t class_of(std::int32_t planecode, std::int32_t segment) const;

 private:
  void check_images() const;
  std::int32_t read_stored_event(std::int64_t index, std::array<const float*, 3>& views) const;

  std::string path_;
  EventOptions options_;
  Communicator* world_;
  ArrayFileDataset events_;
  std::vector<Field> fields_;
  std::vector<std::string> broken_;
};

}  // namespace keelson::minerva
